#include "agent/recorder/python_start.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "agent/recorder/quiet_thread.h"
#include "agent/wire/ring_file.h"

// An interpreter that ends unwinds this thread by pthread_exit, out of any call into it. The
// functions that make such calls therefore have no destructors to run and are not noexcept.
namespace strobe::agent {
namespace {

struct PyObject;

// The part of CPython's stable ABI that is used here.
struct Python {
  int (*is_initialized)();
  int (*is_finalizing)();  // Null before CPython 3.7.
  int (*take_lock)();
  void (*release_lock)(int);
  PyObject* (*modules)();
  PyObject* (*item)(PyObject*, const char*);  // Borrowed; null without an error.
  PyObject* (*compile)(const char*, const char*, int);
  PyObject* (*execute)(const char*, PyObject*, const char*);
  PyObject* (*call)(PyObject*, const char*, const char*, ...);
  void (*release)(PyObject*);
  void (*forget_error)();
};

constexpr char kModule[] = "strobe_bootstrap";
constexpr int kWholeFile = 257;  // Py_file_input.
constexpr std::size_t kMaxSource = 32 << 10;
constexpr long kFirstPauseNs = 2'000'000, kMaxPauseNs = 999'999'999;

std::atomic<bool> python_started{false};
Python python{};
char source_path[PATH_MAX], failure_path[PATH_MAX];

template <typename Function>
bool Find(const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
  return function != nullptr;
}

bool FindPython() {
  (void)(Find("Py_IsFinalizing", python.is_finalizing) ||
         Find("_Py_IsFinalizing", python.is_finalizing));
  return Find("Py_IsInitialized", python.is_initialized) &&
         Find("PyGILState_Ensure", python.take_lock) &&
         Find("PyGILState_Release", python.release_lock) &&
         Find("PyImport_GetModuleDict", python.modules) &&
         Find("PyDict_GetItemString", python.item) && Find("Py_CompileString", python.compile) &&
         Find("PyImport_ExecCodeModuleEx", python.execute) &&
         Find("PyObject_CallMethod", python.call) && Find("Py_DecRef", python.release) &&
         Find("PyErr_Clear", python.forget_error);
}

// The first failure of a process is told.
void Tell(const char* what) {
  const int file = open(failure_path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
  if (file < 0) return;
  fchmod(file, 0644);  // The sidecar usually runs as another user.
  dprintf(file, "%s: %s\n", source_path, what);
  close(file);
}

bool ReadSource(char* text, std::size_t size) {
  const int file = open(source_path, O_RDONLY | O_CLOEXEC);
  const ssize_t got = file < 0 ? -1 : read(file, text, size);
  if (got < 0) Tell(std::strerror(errno));
  if (file >= 0) close(file);
  if (got == static_cast<ssize_t>(size)) Tell("is too large");
  return got >= 0 && got < static_cast<ssize_t>(size);
}

// Loads the module; null after a failure.
PyObject* Load() {
  static char text[kMaxSource];
  if (!ReadSource(text, sizeof text)) return nullptr;
  PyObject* const code = python.compile(text, source_path, kWholeFile);
  PyObject* const module = code == nullptr ? nullptr : python.execute(kModule, code, source_path);
  if (code != nullptr) python.release(code);
  if (module == nullptr) {
    python.forget_error();
    Tell("this version of Python cannot run it");
  }
  return module;
}

bool IsImported(const char* name) { return python.item(python.modules(), name) != nullptr; }

// Every framework imports `threading`. It must not be imported by this thread first, because it
// would take this thread for the main one.
bool FrameworkIsImported() {
  return IsImported("threading") &&
         (IsImported("torch") || IsImported("jax") || IsImported("tensorflow"));
}

// The module may be there already, through an entry point of a framework.
void StartService() {
  PyObject* const there = python.item(python.modules(), kModule);
  PyObject* const loaded = there == nullptr ? Load() : nullptr;
  PyObject* const module = there == nullptr ? loaded : there;
  if (module == nullptr) return;
  PyObject* const result = python.call(module, "start", nullptr);
  if (result == nullptr) {
    python.forget_error();
    Tell("start() failed");
  } else {
    python.release(result);
  }
  if (loaded != nullptr) python.release(loaded);
}

// True if there is nothing left to wait for.
bool Look() {
  const int lock = python.take_lock();
  const bool found = FrameworkIsImported();
  if (found) StartService();
  python.release_lock(lock);
  return found;
}

bool InterpreterRuns() {
  return python.is_initialized() != 0 &&
         (python.is_finalizing == nullptr || python.is_finalizing() == 0);
}

void* AwaitFramework(void*) {
  bool has_run = false;
  for (long pause = kFirstPauseNs;; pause = std::min(2 * pause, kMaxPauseNs)) {
    const timespec time{0, pause};
    nanosleep(&time, nullptr);
    const bool runs = InterpreterRuns();
    if (runs ? Look() : has_run) return nullptr;
    has_run = runs;
  }
}

// False if a path is too long.
bool MakePaths(const char* directory) {
  const std::string container = wire::OwnContainer();
  const int source = std::snprintf(source_path, PATH_MAX, "%s/python/%s.py", directory, kModule);
  const int failure =
      std::snprintf(failure_path, PATH_MAX, "%s/agent/%s%s%d.failed", directory, container.c_str(),
                    container.empty() ? "" : "@", static_cast<int>(getpid()));
  return source < PATH_MAX && failure < PATH_MAX;
}

}  // namespace

void StartPythonThread() {
  const char* directory = std::getenv("STROBE_DIR");
  const char* wish = std::getenv("STROBE_BOOTSTRAP");
  const bool off = wish != nullptr && strcasecmp(wish, "off") == 0;
  if (directory == nullptr || *directory == '\0' || off || python_started.exchange(true)) return;
  if (!FindPython() || !MakePaths(directory)) return;
  if (!StartQuietThread("strobe-python", &AwaitFramework, nullptr))
    Tell("no thread could be started");
}

void ForgetPythonThread() { python_started = false; }

}  // namespace strobe::agent

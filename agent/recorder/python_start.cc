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

#include "agent/recorder/disabled.h"
#include "agent/recorder/quiet_thread.h"
#include "agent/wire/file_lock.h"
#include "agent/wire/ring_file.h"

// A thread that waits for the interpreter's lock while the interpreter ends crashes some versions
// of CPython (3.9, 3.10 and 3.13). Our thread therefore takes the lock only after the program has
// imported a framework, and from then on the interpreter's end waits for our thread. Until then the
// thread asks the main thread to look for a framework, by pending calls. The interpreter runs these
// between any two instructions of the program; they wait for nothing and run no Python code. If the
// main thread stays outside of Python for long, our thread takes the lock and looks itself. An
// interpreter that ends may then unwind our thread by pthread_exit. For that reason, functions that
// call into the interpreter have no destructors to run and are not noexcept.
namespace strobe::agent {
namespace {

struct PyObject;

struct PyMethodDef {
  const char* name;
  PyObject* (*function)(PyObject*, PyObject*);
  int flags;
  const char* doc;
};

// The part of CPython's stable ABI that is used here.
struct Python {
  int (*is_initialized)();
  int (*is_finalizing)();  // Null before CPython 3.7.
  int (*call_in_main)(int (*)(void*), void*);
  int (*take_lock)();
  void (*release_lock)(int);
  void* (*leave)();
  void (*enter)(void*);
  PyObject* (*modules)();
  PyObject* (*item)(PyObject*, const char*);  // Borrowed; null, without an error, if absent.
  PyObject* (*compile)(const char*, const char*, int);
  PyObject* (*execute)(const char*, PyObject*, const char*);
  PyObject* (*function)(PyMethodDef*, PyObject*, PyObject*);
  PyObject* (*call)(PyObject*, const char*, const char*, ...);
  PyObject* (*value)(const char*, ...);
  void (*release)(PyObject*);
  void (*forget_error)();
};

constexpr char kModule[] = "strobe_bootstrap";
constexpr int kWholeFile = 257;  // Py_file_input.
constexpr int kNoArguments = 4;  // METH_NOARGS.
constexpr std::size_t kMaxSource = 32 << 10;
constexpr long kFirstPauseNs = 2'000'000, kMaxPauseNs = 999'999'999;
// Pauses of kFirstPauseNs, 2 s in all: for how long our thread waits for the main thread, and the
// interpreter's end for our thread.
constexpr int kMaxWaits = 1000;

enum class Answer { kNotYet, kPending, kFound };

std::atomic<bool> python_started{false};
std::atomic<Answer> answer{Answer::kNotYet};
std::atomic<bool> is_queued{false};   // The main thread has not yet done what it was asked.
std::atomic<bool> is_working{false};  // Our thread is about to use the interpreter, or does.
std::atomic<bool> is_ending{false};
std::atomic<bool> has_told{false};
Python python{};
char source_path[PATH_MAX], failure_path[PATH_MAX], unfinished_path[PATH_MAX];

template <typename Symbol>
bool Find(const char* name, Symbol*& symbol) {
  symbol = reinterpret_cast<Symbol*>(dlsym(RTLD_DEFAULT, name));
  return symbol != nullptr;
}

bool FindPython() {
  (void)(Find("Py_IsFinalizing", python.is_finalizing) ||
         Find("_Py_IsFinalizing", python.is_finalizing));
  return Find("Py_IsInitialized", python.is_initialized) &&
         Find("Py_AddPendingCall", python.call_in_main) &&
         Find("PyGILState_Ensure", python.take_lock) &&
         Find("PyGILState_Release", python.release_lock) &&
         Find("PyEval_SaveThread", python.leave) && Find("PyEval_RestoreThread", python.enter) &&
         Find("PyImport_GetModuleDict", python.modules) &&
         Find("PyDict_GetItemString", python.item) && Find("Py_CompileString", python.compile) &&
         Find("PyImport_ExecCodeModuleEx", python.execute) &&
         Find("PyCFunction_NewEx", python.function) && Find("PyObject_CallMethod", python.call) &&
         Find("Py_BuildValue", python.value) && Find("Py_DecRef", python.release) &&
         Find("PyErr_Clear", python.forget_error);
}

void Sleep(long ns) {
  const timespec time{0, ns};
  nanosleep(&time, nullptr);
}

// Reports a failure to the sidecar. Only the first one of a process is reported. The file stays
// open and locked: by the lock, which no child inherits, the sidecar knows that the process runs.
void Tell(const char* what) {
  if (has_told.exchange(true)) return;
  unlink(unfinished_path);  // An earlier process of the same ID was killed while it wrote.
  const int file =
      open(unfinished_path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
  if (file < 0) return;
  fchmod(file, 0644);  // The sidecar usually runs as another user.
  dprintf(file, "%s: %s\n", source_path, what);
  struct flock lock = wire::ByteLock(F_WRLCK, 0);
  (void)fcntl(file, F_SETLK, &lock);
  // The earlier process may have left its own.
  if (rename(unfinished_path, failure_path) == 0) return;
  unlink(unfinished_path);
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

// Every framework imports `threading`. Our thread must not be the first to import it,
// because `threading` would then take our thread for the main one.
bool FrameworkIsImported() {
  return IsImported("threading") &&
         (IsImported("torch") || IsImported("jax") || IsImported("tensorflow"));
}

// The module may be loaded already, through an entry point of a framework.
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

// Called by the interpreter before it ends.
PyObject* AtEnd(PyObject*, PyObject*) {
  is_ending = true;
  void* const state = python.leave();
  for (int i = 0; i < kMaxWaits && is_working; ++i) Sleep(kFirstPauseNs);
  python.enter(state);
  return python.value("");
}

// Makes the interpreter's end wait for this thread; false if that fails.
bool RegisterAtEnd() {
  static PyMethodDef definition{"strobe_at_end", &AtEnd, kNoArguments, nullptr};
  PyObject* const atexit = python.item(python.modules(), "atexit");
  PyObject* const function =
      atexit == nullptr ? nullptr : python.function(&definition, nullptr, nullptr);
  PyObject* const result =
      function == nullptr ? nullptr : python.call(atexit, "register", "O", function);
  if (function != nullptr) python.release(function);
  if (result == nullptr) python.forget_error();
  if (result != nullptr) python.release(result);
  return result != nullptr;
}

// The caller holds the interpreter's lock.
void Look() {
  if (answer != Answer::kPending) return;
  const bool found = FrameworkIsImported() && RegisterAtEnd();
  is_working = found;
  answer = found ? Answer::kFound : Answer::kNotYet;
}

int LookInMain(void*) {
  is_queued = false;
  Look();
  return 0;
}

bool InterpreterRuns() {
  return python.is_initialized() != 0 &&
         (python.is_finalizing == nullptr || python.is_finalizing() == 0);
}

// Asks the interpreter to run Look in its main thread. If it has not done so for a while, this
// thread takes the lock and runs Look itself.
void Ask() {
  answer = Answer::kPending;
  if (!is_queued.exchange(true) && python.call_in_main(&LookInMain, nullptr) != 0)
    is_queued = false;
  for (int i = 0; i < kMaxWaits && answer == Answer::kPending && InterpreterRuns(); ++i)
    Sleep(kFirstPauseNs);
  if (answer != Answer::kPending || !InterpreterRuns()) return;
  const int lock = python.take_lock();
  Look();
  python.release_lock(lock);
}

void* AwaitFramework(void*) {
  bool has_run = false;
  for (long pause = kFirstPauseNs; answer != Answer::kFound;
       pause = std::min(2 * pause, kMaxPauseNs)) {
    Sleep(pause);
    const bool runs = InterpreterRuns();
    if (runs) Ask();
    if (!runs && has_run) return nullptr;
    has_run = runs;
  }
  const int lock = python.take_lock();
  if (!is_ending) StartService();
  python.release_lock(lock);
  is_working = false;
  return nullptr;
}

// False if a path is too long.
bool MakePaths(const char* directory) {
  const std::string container = wire::OwnContainer();
  const int source = std::snprintf(source_path, PATH_MAX, "%s/python/%s.py", directory, kModule);
  const auto failure = [&](char* path, const char* before, const char* after) {
    return std::snprintf(path, PATH_MAX, "%s/agent/%s%s%s%d.failed%s", directory, before,
                         container.c_str(), container.empty() ? "" : "@",
                         static_cast<int>(getpid()), after);
  };
  return source < PATH_MAX && failure(failure_path, "", "") < PATH_MAX &&
         failure(unfinished_path, ".", ".new") < PATH_MAX;
}

}  // namespace

void StartPythonThread() {
  const char* directory = std::getenv("STROBE_DIR");
  const char* wish = std::getenv("STROBE_BOOTSTRAP");
  const bool off = (wish != nullptr && strcasecmp(wish, "off") == 0) || IsDisabled("in-process");
  if (directory == nullptr || *directory == '\0' || off || python_started.exchange(true)) return;
  if (!FindPython() || !MakePaths(directory)) return;
  answer = Answer::kNotYet;
  if (!StartQuietThread("strobe-python", &AwaitFramework, nullptr))
    Tell("no thread could be started");
}

void ForgetPythonThread() { python_started = is_queued = is_working = has_told = false; }

}  // namespace strobe::agent

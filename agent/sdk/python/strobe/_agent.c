/* The agent that records, and the names of its threads. */
#include "_trace.h"

#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const uint32_t kOff = 0;
static uint64_t NoClock(void) { return 0; }
static void NoScope(int level, uint64_t begin, uint64_t end, const char* text, size_t size) {
  (void)level, (void)begin, (void)end, (void)text, (void)size;
}
static const strobe_agent_api kNoAgent = {1, sizeof(strobe_agent_api), &kOff, NoClock, NoScope};
const strobe_agent_api* strobe_agent = &kNoAgent;

typedef const strobe_agent_api* (*Get)(void);

static Get LoadFrom(const char* path) {
  void* library = path == NULL ? NULL : dlopen(path, RTLD_NOW | RTLD_GLOBAL);
  return library == NULL ? NULL : (Get)dlsym(library, "strobe_agent_api_v1");
}

/* The agent that CUDA's driver loads, or NULL if it loads none. */
static const char* AgentOfCuda(void) {
  const char* path = getenv("CUDA_INJECTION64_PATH");
  const char* name = path == NULL ? NULL : strrchr(path, '/');
  return name != NULL && strcmp(name, "/libstrobe_agent.so") == 0 ? path : NULL;
}

/* The order is that of strobe/trace_me.h: a process must have only one agent, because CUPTI has only
 * one subscriber. */
void StrobeFindAgent(void) {
  const char* dir = getenv("STROBE_DIR");
  if (dir == NULL || *dir == '\0') return;
  char of_pod[4096];
  const int size = snprintf(of_pod, sizeof of_pod, "%s/lib/libstrobe_agent.so", dir);
  Get get = (Get)dlsym(RTLD_DEFAULT, "strobe_agent_api_v1");
  if (get == NULL) get = LoadFrom(AgentOfCuda());
  if (get == NULL && size > 0 && (size_t)size < sizeof of_pod) get = LoadFrom(of_pod);
  if (get == NULL) get = LoadFrom(getenv("STROBE_AGENT"));
  if (get != NULL && get()->version >= 1) strobe_agent = get();
}

PyObject* strobe_name_of_thread;

PyObject* StrobeNameThread(void) {
  static __thread int named;
  if (named) return NULL;
  named = 1;
  if (strobe_agent->size < offsetof(strobe_agent_api, name_thread) + sizeof strobe_agent->name_thread) return NULL;
  PyObject* name = PyObject_CallObject(strobe_name_of_thread, NULL);
  PyObject* raised = name == NULL ? StrobeTakeRaised(strobe_name_of_thread) : NULL;
  PyObject* bytes = name == NULL || name == Py_None ? NULL : PyUnicode_AsUTF8String(name);
  if (bytes != NULL) strobe_agent->name_thread(PyBytes_AsString(bytes), (size_t)PyBytes_Size(bytes));
  PyErr_Clear(); /* A name with surrogates. */
  Py_XDECREF(bytes);
  Py_XDECREF(name);
  if (raised != NULL) named = 0;
  return raised;
}

/* Asks the function that answers this for strobe/_inproc too. Returns -1 with an exception set on
 * failure. */
static int IsOfASignalHandler(PyObject* error) {
  PyObject* module = PyImport_ImportModule("strobe._inproc.failure");
  PyObject* answer = module == NULL ? NULL : PyObject_CallMethod(module, "is_the_programs", "O", error);
  const int is = answer == NULL ? -1 : PyObject_IsTrue(answer);
  Py_XDECREF(answer);
  Py_XDECREF(module);
  return is;
}

/* Takes the exception that is set as one object, which has the trace. */
static PyObject* TakeException(void) {
  PyObject *type, *error, *trace;
  PyErr_Fetch(&type, &error, &trace);
  PyErr_NormalizeException(&type, &error, &trace);
  if (trace != NULL) PyException_SetTraceback(error, trace);
  Py_XDECREF(trace);
  Py_XDECREF(type);
  return error;
}

PyObject* StrobeTakeRaised(PyObject* object) {
  PyObject* error = TakeException();
  if (!PyErr_GivenExceptionMatches(error, PyExc_Exception)) return error;
  const int is_the_programs = IsOfASignalHandler(error);
  if (is_the_programs > 0) return error;
  if (is_the_programs < 0) { /* Another signal may have come meanwhile. */
    PyObject* later = TakeException();
    if (!PyErr_GivenExceptionMatches(later, PyExc_Exception)) {
      Py_DECREF(error);
      return later;
    }
    Py_DECREF(later);
  }
  StrobeRaise(error);
  PyErr_WriteUnraisable(object);
  return NULL;
}

PyObject* StrobeRaise(PyObject* raised) {
  PyObject* type = (PyObject*)Py_TYPE(raised);
  Py_INCREF(type);
  PyErr_Restore(type, raised, PyException_GetTraceback(raised));
  return NULL;
}

/* The agent that records, and the names of its threads. */
#include "_trace.h"

#include <dlfcn.h>
#include <stddef.h>
#include <stdlib.h>

static const uint32_t kOff = 0;
static uint64_t NoClock(void) { return 0; }
static void NoScope(int level, uint64_t begin, uint64_t end, const char* text, size_t size) {
  (void)level, (void)begin, (void)end, (void)text, (void)size;
}
static const strobe_agent_api kNoAgent = {1, sizeof(strobe_agent_api), &kOff, NoClock, NoScope};
const strobe_agent_api* strobe_agent = &kNoAgent;

void StrobeFindAgent(void) {
  const char* dir = getenv("STROBE_DIR");
  if (dir == NULL || *dir == '\0') return;
  typedef const strobe_agent_api* (*Get)(void);
  Get get = (Get)dlsym(RTLD_DEFAULT, "strobe_agent_api_v1");
  const char* path = getenv("STROBE_AGENT");
  if (get == NULL && path != NULL) {
    void* library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    if (library != NULL) get = (Get)dlsym(library, "strobe_agent_api_v1");
  }
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

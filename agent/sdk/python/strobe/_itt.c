// Intel's ITT interface for strobe.profiler: its objects reach VTune, or whichever collector
// $INTEL_LIBITTNOTIFY64 names. Without a collector the functions do nothing.
//
// Handles are capsules, so that a wrong one is a TypeError. ITT never frees what it made for a name,
// and returns the same object for the same name.
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <ittnotify.h>

static const char kDomain[] = "strobe._itt.domain", kName[] = "strobe._itt.name",
                  kCounter[] = "strobe._itt.counter";

// The UTF-8 bytes of str(object) as a new `bytes`. What cannot be encoded becomes "?".
static PyObject* Text(PyObject* object) {
  PyObject* const text = PyObject_Str(object);
  if (text == NULL) return NULL;
  PyObject* const bytes = PyUnicode_AsEncodedString(text, "utf-8", "replace");
  Py_DECREF(text);
  return bytes;
}

// ITT returns no handle without a collector, and a capsule cannot hold NULL: None stands for it.
static PyObject* Handle(void* handle, const char* kind) {
  if (handle == NULL) Py_RETURN_NONE;
  return PyCapsule_New(handle, kind, NULL);
}

// Writes the pointer that `object` stands for. Returns 0 with an exception set for a wrong object.
static int Pointer(PyObject* object, const char* kind, void** pointer) {
  *pointer = NULL;
  if (object == Py_None) return 1;
  *pointer = PyCapsule_GetPointer(object, kind);
  return *pointer != NULL;
}

static PyObject* Domain(PyObject* self, PyObject* name) {
  (void)self;
  PyObject* const text = Text(name);
  if (text == NULL) return NULL;
  __itt_domain* const domain = __itt_domain_create(PyBytes_AsString(text));
  Py_DECREF(text);
  return Handle(domain, kDomain);
}

static PyObject* Name(PyObject* self, PyObject* name) {
  (void)self;
  PyObject* const text = Text(name);
  if (text == NULL) return NULL;
  __itt_string_handle* const handle = __itt_string_handle_create(PyBytes_AsString(text));
  Py_DECREF(text);
  return Handle(handle, kName);
}

static PyObject* Event(PyObject* self, PyObject* name) {
  (void)self;
  PyObject* const text = Text(name);
  if (text == NULL) return NULL;
  const int event = __itt_event_create(PyBytes_AsString(text), (int)PyBytes_Size(text));
  Py_DECREF(text);
  return PyLong_FromLong(event);
}

static PyObject* Counter(PyObject* self, PyObject* args) {
  (void)self;
  PyObject *domain = NULL, *name = NULL;
  if (!PyArg_ParseTuple(args, "OO:counter", &domain, &name)) return NULL;
  PyObject* const domain_text = Text(domain);
  PyObject* const text = domain_text == NULL ? NULL : Text(name);
  PyObject* result = NULL;
  if (text != NULL) {
    result = Handle(__itt_counter_create_typed(PyBytes_AsString(text), PyBytes_AsString(domain_text),
                                               __itt_metadata_double),
                    kCounter);
  }
  Py_XDECREF(domain_text);
  Py_XDECREF(text);
  return result;
}

static PyObject* BeginTask(PyObject* self, PyObject* args) {
  (void)self;
  PyObject *domain = NULL, *name = NULL;
  void *domain_handle, *handle;
  if (!PyArg_ParseTuple(args, "OO:begin_task", &domain, &name)) return NULL;
  if (!Pointer(domain, kDomain, &domain_handle) || !Pointer(name, kName, &handle)) return NULL;
  if (domain_handle != NULL && handle != NULL)
    __itt_task_begin((__itt_domain*)domain_handle, __itt_null, __itt_null,
                     (__itt_string_handle*)handle);
  Py_RETURN_NONE;
}

static PyObject* EndTask(PyObject* self, PyObject* domain) {
  (void)self;
  void* handle;
  if (!Pointer(domain, kDomain, &handle)) return NULL;
  if (handle != NULL) __itt_task_end((__itt_domain*)handle);
  Py_RETURN_NONE;
}

static PyObject* BeginFrame(PyObject* self, PyObject* domain) {
  (void)self;
  void* handle;
  if (!Pointer(domain, kDomain, &handle)) return NULL;
  if (handle != NULL) __itt_frame_begin_v3((__itt_domain*)handle, NULL);
  Py_RETURN_NONE;
}

static PyObject* EndFrame(PyObject* self, PyObject* domain) {
  (void)self;
  void* handle;
  if (!Pointer(domain, kDomain, &handle)) return NULL;
  if (handle != NULL) __itt_frame_end_v3((__itt_domain*)handle, NULL);
  Py_RETURN_NONE;
}

static PyObject* BeginEvent(PyObject* self, PyObject* number) {
  (void)self;
  const long event = PyLong_AsLong(number);
  if (event == -1 && PyErr_Occurred()) return NULL;
  __itt_event_start((int)event);
  Py_RETURN_NONE;
}

static PyObject* EndEvent(PyObject* self, PyObject* number) {
  (void)self;
  const long event = PyLong_AsLong(number);
  if (event == -1 && PyErr_Occurred()) return NULL;
  __itt_event_end((int)event);
  Py_RETURN_NONE;
}

static PyObject* SetCounter(PyObject* self, PyObject* args) {
  (void)self;
  PyObject* counter = NULL;
  double value = 0;
  void* handle;
  if (!PyArg_ParseTuple(args, "Od:set_counter", &counter, &value)) return NULL;
  if (!Pointer(counter, kCounter, &handle)) return NULL;
  if (handle != NULL) __itt_counter_set_value((__itt_counter)handle, &value);
  Py_RETURN_NONE;
}

static PyObject* Mark(PyObject* self, PyObject* args) {
  (void)self;
  PyObject *domain = NULL, *name = NULL;
  int scope = 0;
  void *domain_handle, *handle;
  if (!PyArg_ParseTuple(args, "OOi:mark", &domain, &name, &scope)) return NULL;
  if (!Pointer(domain, kDomain, &domain_handle) || !Pointer(name, kName, &handle)) return NULL;
  if (scope < __itt_scope_global || scope > __itt_scope_marker) {
    PyErr_SetString(PyExc_ValueError, "scope must be one of the SCOPE_ constants");
    return NULL;
  }
  if (domain_handle != NULL && handle != NULL)
    __itt_marker((__itt_domain*)domain_handle, __itt_null, (__itt_string_handle*)handle,
                 (__itt_scope)scope);
  Py_RETURN_NONE;
}

static PyObject* Pause(PyObject* self, PyObject* unused) {
  (void)self;
  (void)unused;
  __itt_pause();
  Py_RETURN_NONE;
}

static PyObject* Resume(PyObject* self, PyObject* unused) {
  (void)self;
  (void)unused;
  __itt_resume();
  Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"domain", Domain, METH_O, "domain(name): the handle of a domain."},
    {"name", Name, METH_O, "name(text): the handle of a task's or a marker's name."},
    {"event", Event, METH_O, "event(name): the number of an event."},
    {"counter", Counter, METH_VARARGS, "counter(domain_name, name): the handle of a counter of float."},
    {"begin_task", BeginTask, METH_VARARGS, "begin_task(domain, name), on this thread."},
    {"end_task", EndTask, METH_O, "end_task(domain): ends this thread's innermost task."},
    {"begin_frame", BeginFrame, METH_O, "begin_frame(domain)"},
    {"end_frame", EndFrame, METH_O, "end_frame(domain)"},
    {"begin_event", BeginEvent, METH_O, "begin_event(number)"},
    {"end_event", EndEvent, METH_O, "end_event(number)"},
    {"set_counter", SetCounter, METH_VARARGS, "set_counter(counter, value)"},
    {"mark", Mark, METH_VARARGS, "mark(domain, name, scope)"},
    {"pause", Pause, METH_NOARGS, "pause(): the collector stops collecting."},
    {"resume", Resume, METH_NOARGS, "resume(): ends a pause."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "_itt", "Intel's ITT interface, for strobe.profiler.", 0, functions, NULL,
    NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__itt(void) {
  PyObject* const itt = PyModule_Create(&module);
  if (itt == NULL) return NULL;
  if (PyModule_AddIntConstant(itt, "SCOPE_GLOBAL", __itt_scope_global) < 0 ||
      PyModule_AddIntConstant(itt, "SCOPE_PROCESS", __itt_scope_track_group) < 0 ||
      PyModule_AddIntConstant(itt, "SCOPE_THREAD", __itt_scope_track) < 0 ||
      PyModule_AddIntConstant(itt, "SCOPE_TASK", __itt_scope_task) < 0 ||
      PyModule_AddIntConstant(itt, "SCOPE_MARKER", __itt_scope_marker) < 0) {
    Py_DECREF(itt);
    return NULL;
  }
  return itt;
}

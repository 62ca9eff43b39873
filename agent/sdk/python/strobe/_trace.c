/* strobe.Trace. Uses the limited API of CPython 3.9, so that one wheel serves every later version. */
#include <Python.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <structmember.h>

#include "strobe/agent_api.h"

/* The stable ABI has it since 3.10; it is the same in 3.9. */
#ifndef METH_FASTCALL
#define METH_FASTCALL 0x0080
#endif

static const uint32_t kOff = 0;
static uint64_t NoClock(void) { return 0; }
static void NoScope(int level, uint64_t begin, uint64_t end, const char* text, size_t size) {
  (void)level, (void)begin, (void)end, (void)text, (void)size;
}
static const strobe_agent_api kNoAgent = {1, sizeof(strobe_agent_api), &kOff, NoClock, NoScope};
static const strobe_agent_api* agent = &kNoAgent;

/* Loads the agent once $STROBE_DIR is set: the agent reads it only the first time. */
static void FindAgent(void) {
  const char* dir = getenv("STROBE_DIR");
  if (dir == NULL || *dir == '\0') return;
  typedef const strobe_agent_api* (*Get)(void);
  Get get = (Get)dlsym(RTLD_DEFAULT, "strobe_agent_api_v1");
  const char* path = getenv("STROBE_AGENT");
  if (get == NULL && path != NULL) {
    void* library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    if (library != NULL) get = (Get)dlsym(library, "strobe_agent_api_v1");
  }
  if (get != NULL && get()->version >= 1) agent = get();
}

static inline int Active(uint32_t level) {
  return __atomic_load_n(agent->control, __ATOMIC_RELAXED) >= level;
}

typedef struct {
  PyObject_HEAD
  PyObject* name;
  PyObject* metadata; /* A dict, or NULL when there is none. */
  uint64_t begin;     /* 0 = not recorded. */
  uint32_t level;
} Trace;

/* ---- text */

enum { kMaxText = 2000 };

typedef struct {
  char bytes[kMaxText];
  size_t size;
} Text;

static void Append(Text* text, const char* more, size_t size) {
  if (size > kMaxText - text->size) size = kMaxText - text->size;
  memcpy(text->bytes + text->size, more, size);
  text->size += size;
}

/* Appends str(object). Returns 0 with a Python exception set on failure. */
static int AppendObject(Text* text, PyObject* object) {
  Py_ssize_t size = 0;
  const char* utf8;
  PyObject* made = NULL;
  if (object == Py_True || object == Py_False) {
    Append(text, object == Py_True ? "1" : "0", 1); /* As TensorFlow and XLA write them. */
    return 1;
  }
  if (!PyUnicode_Check(object)) {
    made = object = PyObject_Str(object);
    if (made == NULL) return 0;
  }
#if Py_LIMITED_API >= 0x030A0000
  utf8 = PyUnicode_AsUTF8AndSize(object, &size);
#else
  PyObject* encoded = PyUnicode_AsUTF8String(object);
  utf8 = encoded == NULL ? NULL : PyBytes_AsString(encoded);
  if (encoded != NULL) size = PyBytes_Size(encoded);
#endif
  if (utf8 != NULL) Append(text, utf8, (size_t)size);
#if Py_LIMITED_API < 0x030A0000
  Py_XDECREF(encoded);
#endif
  Py_XDECREF(made);
  return utf8 != NULL;
}

static int MakeText(Trace* self, Text* text) {
  text->size = 0;
  if (!AppendObject(text, self->name)) return 0;
  if (self->metadata == NULL) return 1;
  PyObject *key, *value;
  Py_ssize_t position = 0;
  char separator = '#';
  while (PyDict_Next(self->metadata, &position, &key, &value)) {
    Append(text, &separator, 1);
    separator = ',';
    if (!AppendObject(text, key)) return 0;
    Append(text, "=", 1);
    if (!AppendObject(text, value)) return 0;
  }
  if (separator == ',') Append(text, "#", 1);
  return 1;
}

/* ---- the type */

static PyObject* step_num_key; /* Interned names. */
static PyObject* root_key;
static PyObject* level_key;
static PyObject* one;
static PyTypeObject* trace_type;
static PyObject* wrap; /* The Python function that wraps a decorated function; defined below. */

static int TakeMetadata(Trace* self, PyObject* kwargs) {
  PyObject* level = PyDict_GetItem(kwargs, level_key);
  if (level != NULL) {
    const long number = PyLong_AsLong(level);
    if (number == -1 && PyErr_Occurred()) return 0;
    if (number < 1 || number > 3) {
      PyErr_SetString(PyExc_ValueError, "level must be 1 (critical), 2 (info) or 3 (verbose)");
      return 0;
    }
    self->level = (uint32_t)number;
    if (PyDict_DelItem(kwargs, level_key) < 0) return 0;
  }
  /* "_r" marks a step, by which viewers group a trace. */
  if (PyDict_GetItem(kwargs, step_num_key) != NULL && PyDict_SetItem(kwargs, root_key, one) < 0)
    return 0;
  if (PyDict_Size(kwargs) > 0) {
    Py_INCREF(kwargs);
    self->metadata = kwargs;
  }
  return 1;
}

static PyObject* TraceNew(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  PyObject* name;
  if (PyTuple_Size(args) != 1 || !PyUnicode_Check(name = PyTuple_GetItem(args, 0))) {
    PyErr_SetString(PyExc_TypeError, "Trace(name, *, step_num=..., level=1, **metadata): name must be one str");
    return NULL;
  }
  Trace* self = PyObject_New(Trace, type);
  if (self == NULL) return NULL;
  Py_INCREF(name);
  self->name = name;
  self->metadata = NULL;
  self->begin = 0;
  self->level = 1;
  /* No copy is needed: CPython creates a new dict for every call. */
  if (kwargs != NULL && !TakeMetadata(self, kwargs)) {
    Py_DECREF(self);
    return NULL;
  }
  return (PyObject*)self;
}

static void TraceFree(PyObject* object) {
  Trace* self = (Trace*)object;
  PyTypeObject* type = Py_TYPE(object);
  Py_DECREF(self->name);
  Py_XDECREF(self->metadata);
  PyObject_Free(object);
  Py_DECREF(type);
}

static PyObject* TraceEnter(PyObject* object, PyObject* unused) {
  (void)unused;
  Trace* self = (Trace*)object;
  if (Active(self->level)) self->begin = agent->now();
  Py_INCREF(object);
  return object;
}

static PyObject* TraceExit(PyObject* object, PyObject* const* args, Py_ssize_t count) {
  (void)args, (void)count;
  Trace* self = (Trace*)object;
  if (self->begin != 0) {
    const uint64_t end = agent->now();
    Text text;
    /* An annotation whose value cannot be written must not break the program. */
    if (MakeText(self, &text))
      agent->scope((int)self->level, self->begin, end, text.bytes, text.size);
    else
      PyErr_Clear();
    self->begin = 0;
  }
  Py_RETURN_NONE;
}

static PyObject* TraceSetMetadata(PyObject* object, PyObject* args, PyObject* kwargs) {
  Trace* self = (Trace*)object;
  if (PyTuple_Size(args) != 0) {
    PyErr_SetString(PyExc_TypeError, "set_metadata takes keywords only");
    return NULL;
  }
  if (kwargs == NULL || self->begin == 0) Py_RETURN_NONE;
  if (self->metadata == NULL) {
    self->metadata = PyDict_New();
    if (self->metadata == NULL) return NULL;
  }
  if (PyDict_Update(self->metadata, kwargs) < 0) return NULL;
  Py_RETURN_NONE;
}

static PyObject* TraceCall(PyObject* object, PyObject* args, PyObject* kwargs) {
  Trace* self = (Trace*)object;
  PyObject* function;
  if (kwargs != NULL || PyTuple_Size(args) != 1 || !PyCallable_Check(function = PyTuple_GetItem(args, 0))) {
    PyErr_SetString(PyExc_TypeError, "a Trace as decorator takes the function and nothing else");
    return NULL;
  }
  PyObject* metadata = self->metadata == NULL ? Py_None : self->metadata;
  return PyObject_CallFunction(wrap, "OOOOI", (PyObject*)trace_type, self->name, metadata, function,
                               (unsigned)self->level);
}

static PyMethodDef trace_methods[] = {
    {"__enter__", TraceEnter, METH_NOARGS, NULL},
    {"__exit__", (PyCFunction)(void (*)(void))TraceExit, METH_FASTCALL, NULL},
    {"set_metadata", (PyCFunction)(void (*)(void))TraceSetMetadata, METH_VARARGS | METH_KEYWORDS,
     "Adds metadata that was not known when the scope began. Only while the scope runs."},
    {NULL, NULL, 0, NULL}};

static const char trace_doc[] =
    "Trace(name, *, step_num=..., level=1, **metadata)\n--\n\n"
    "A scope of the calling thread in a capture's trace: a context manager, or a decorator.\n\n"
    "name: what the trace viewer shows. step_num: marks a training step, by which XProf groups a\n"
    "capture. level: 1 critical, 2 info, 3 verbose; recorded if the capture's tracers.host is at least\n"
    "that. metadata: keys with values that str() can write; without '#', commas only within quotes\n"
    "or brackets. Nothing is evaluated or kept while no capture runs.\n\n"
    ">>> with Trace(\"call\", function_name=\"f\") as call:\n"
    "...     call.set_metadata(in_cache=True)\n"
    ">>> @Trace(\"load\")\n"
    "... def load(): return 1\n"
    ">>> load()\n"
    "1\n";

static PyType_Slot trace_slots[] = {{Py_tp_doc, (void*)trace_doc},     {Py_tp_new, (void*)TraceNew},
                                    {Py_tp_dealloc, (void*)TraceFree}, {Py_tp_methods, trace_methods},
                                    {Py_tp_call, (void*)TraceCall},    {0, NULL}};
static PyType_Spec trace_spec = {"strobe.Trace", sizeof(Trace), 0, Py_TPFLAGS_DEFAULT, trace_slots};

static PyObject* IsActive(PyObject* module, PyObject* args) {
  (void)module;
  int level = 1;
  if (!PyArg_ParseTuple(args, "|i", &level)) return NULL;
  return PyBool_FromLong(level > 0 && Active((uint32_t)level));
}

static PyObject* Attach(PyObject* module, PyObject* unused) {
  (void)module, (void)unused;
  FindAgent();
  Py_RETURN_NONE;
}

static PyMethodDef module_methods[] = {
    {"attach", Attach, METH_NOARGS, "Looks for the agent again. Call it after setting $STROBE_DIR."},
    {"active", IsActive, METH_VARARGS,
     "active(level=1)\n--\n\nIs a capture running that records scopes of this level?"},
    {NULL, NULL, 0, NULL}};

static struct PyModuleDef module_def = {PyModuleDef_HEAD_INIT, "strobe._trace", NULL, -1, module_methods};

/* Creates a new scope for each call, so that recursion and threads do not share one. */
static const char wrap_source[] =
    "import functools as _functools\n"
    "def wrap(Trace, name, metadata, function, level):\n"
    "    keywords = dict(metadata or (), level=level)\n"
    "    @_functools.wraps(function)\n"
    "    def traced(*args, **kwargs):\n"
    "        with Trace(name, **keywords):\n"
    "            return function(*args, **kwargs)\n"
    "    return traced\n";

static PyObject* MakeWrap(void) {
  PyObject* names = PyDict_New();
  PyObject* code = Py_CompileString(wrap_source, "strobe/_trace.c", Py_file_input);
  PyObject* done = NULL;
  PyObject* made = NULL;
  if (names != NULL && code != NULL &&
      PyDict_SetItemString(names, "__builtins__", PyEval_GetBuiltins()) == 0)
    done = PyEval_EvalCode(code, names, names);
  if (done != NULL) {
    made = PyDict_GetItemString(names, "wrap");
    Py_XINCREF(made);
  }
  Py_XDECREF(done);
  Py_XDECREF(code);
  Py_XDECREF(names);
  return made;
}

PyMODINIT_FUNC PyInit__trace(void) {
  FindAgent();
  PyObject* module = PyModule_Create(&module_def);
  if (module == NULL) return NULL;
  step_num_key = PyUnicode_InternFromString("step_num");
  root_key = PyUnicode_InternFromString("_r");
  level_key = PyUnicode_InternFromString("level");
  one = PyLong_FromLong(1);
  trace_type = (PyTypeObject*)PyType_FromSpec(&trace_spec);
  wrap = MakeWrap();
  if (!step_num_key || !root_key || !level_key || !one || !trace_type || !wrap ||
      PyModule_AddObject(module, "Trace", (PyObject*)trace_type) < 0) {
    Py_DECREF(module);
    return NULL;
  }
  Py_INCREF(trace_type);
  return module;
}

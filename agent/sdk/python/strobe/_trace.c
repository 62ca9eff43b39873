/* Defines the type strobe.Trace and the extension module. */
#include "_trace.h"

#include <stddef.h>
#include <structmember.h>

/* The stable ABI has the vectorcall protocol since 3.12; it is the same from 3.9 on. */
typedef PyObject* (*VectorCall)(PyObject* callable, PyObject* const* args, size_t count, PyObject* names);
enum { kHasVectorCall = 1 << 11 };
static const size_t kOffsetFlag = (size_t)1 << (8 * sizeof(size_t) - 1); /* PY_VECTORCALL_ARGUMENTS_OFFSET */

typedef struct {
  PyObject_HEAD
  VectorCall call;    /* CallTrace; NULL in subclasses, which are called by TraceCall. */
  PyObject* name;     /* NULL before __init__. */
  PyObject* metadata; /* What the constructor got: a dict, or NULL if there is none. */
  PyObject* more;     /* What set_metadata got, for one use of the object: a dict or NULL. */
  uint64_t begin;     /* 0 = not recorded. */
  uint64_t told;      /* What begin_step returned for the step that runs; 0 = none. */
  uint32_t level;
  int entered;
  int is_step; /* The constructor had an int as step_num. */
  int bound;   /* __enter__ or __exit__ was looked up, so that a call may be theirs. */
} Trace;

/* The type of the attributes __enter__ and __exit__ of the class. */
typedef struct {
  PyObject_HEAD
  PyObject* method; /* The ordinary method, for subclasses and for lookups in the class itself. */
} Binding;

static PyObject* step_num_key; /* Interned names. */
static PyObject* name_key;
static PyObject* root_key;
static PyObject* one;
static PyTypeObject* trace_type;
static PyObject* wrap; /* The Python function that wraps a decorated function; defined below. */

static const char usage[] = "Trace(name, level=1, /, **metadata): name must be one str";

int StrobeTakeLevel(PyObject* level, uint32_t* to) {
  const long number = PyLong_AsLong(level);
  if (number == -1 && PyErr_Occurred()) return 0;
  if (number < 1 || number > 3) {
    PyErr_SetString(PyExc_ValueError, "the level must be 1 (critical), 2 (info) or 3 (verbose)");
    return 0;
  }
  *to = (uint32_t)number;
  return 1;
}

/* `kwargs` is kept: CPython creates a new dict for every call. */
static int Init(Trace* self, PyObject* args, PyObject* kwargs) {
  const Py_ssize_t count = PyTuple_Size(args);
  PyObject* name = count > 0 ? PyTuple_GetItem(args, 0) : NULL;
  const int by_keyword = name == NULL && kwargs != NULL;
  if (by_keyword) name = PyDict_GetItem(kwargs, name_key);
  if (count > 2 || name == NULL || !PyUnicode_Check(name)) {
    PyErr_SetString(PyExc_TypeError, usage);
    return 0;
  }
  self->level = 1;
  self->is_step = 0;
  if (count == 2 && !StrobeTakeLevel(PyTuple_GetItem(args, 1), &self->level)) return 0;
  Py_INCREF(name);
  Py_XDECREF(self->name);
  self->name = name;
  Py_CLEAR(self->metadata);
  Py_CLEAR(self->more);
  if (kwargs == NULL) return 1;
  if (by_keyword && PyDict_DelItem(kwargs, name_key) < 0) return 0;
  /* "_r" marks a step, by which viewers group a trace. */
  PyObject* step = PyDict_GetItem(kwargs, step_num_key);
  self->is_step = step != NULL && PyLong_Check(step);
  if (step != NULL && PyDict_SetItem(kwargs, root_key, one) < 0) return 0;
  if (PyDict_Size(kwargs) > 0) {
    Py_INCREF(kwargs);
    self->metadata = kwargs;
  }
  return 1;
}

static PyObject* CallTrace(PyObject* object, PyObject* const* args, size_t count, PyObject* names);

/* A Trace itself is complete after this. A subclass may have other arguments, and calls __init__. */
static PyObject* TraceNew(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  if (type != trace_type) return PyType_GenericAlloc(type, 0); /* All members are 0. */
  Trace* self = PyObject_New(Trace, type);
  if (self == NULL) return NULL;
  self->call = CallTrace;
  self->name = self->metadata = self->more = NULL;
  self->begin = 0;
  self->told = 0;
  self->entered = 0;
  self->bound = 0;
  if (!Init(self, args, kwargs)) {
    Py_DECREF(self);
    return NULL;
  }
  return (PyObject*)self;
}

static int TraceInit(PyObject* object, PyObject* args, PyObject* kwargs) {
  if (Py_TYPE(object) == trace_type) return 0;
  return Init((Trace*)object, args, kwargs) ? 0 : -1;
}

static void TraceFree(PyObject* object) {
  Trace* self = (Trace*)object;
  PyTypeObject* type = Py_TYPE(object);
  Py_XDECREF(self->name);
  Py_XDECREF(self->metadata);
  Py_XDECREF(self->more);
  if (type == trace_type)
    PyObject_Free(object);
  else
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(object);
  Py_DECREF(type);
}

/* Tells that this step begins, whether or not a capture runs. */
static void BeginStep(Trace* self) {
  const size_t with_steps = offsetof(strobe_agent_api, end_step) + sizeof strobe_agent->end_step;
  if (strobe_agent->size < with_steps || strobe_agent->begin_step == NULL) return;
  const long long number = PyLong_AsLongLong(PyDict_GetItem(self->metadata, step_num_key));
  PyObject* name = PyUnicode_AsUTF8String(self->name);
  if (name != NULL && !PyErr_Occurred())
    self->told = strobe_agent->begin_step(PyBytes_AsString(name), (size_t)PyBytes_Size(name), number);
  PyErr_Clear(); /* A number beyond 64 bits, or a name with surrogates. */
  Py_XDECREF(name);
}

static PyObject* TraceEnter(PyObject* object, PyObject* unused) {
  (void)unused;
  Trace* self = (Trace*)object;
  if (self->name == NULL) {
    PyErr_SetString(PyExc_RuntimeError, "Trace.__init__ was not called");
    return NULL;
  }
  if (Active(self->level)) {
    PyObject* raised = StrobeNameThread();
    if (raised != NULL) return StrobeRaise(raised);
    self->begin = strobe_agent->now();
  }
  self->entered = 1;
  if (self->is_step) BeginStep(self);
  Py_INCREF(object);
  return object;
}

static PyObject* TraceExit(PyObject* object, PyObject* const* args, Py_ssize_t count) {
  (void)args, (void)count;
  Trace* self = (Trace*)object;
  PyObject* raised = NULL;
  if (self->begin != 0) {
    const uint64_t begin = self->begin, end = strobe_agent->now();
    self->begin = 0;
    Text text;
    raised = StrobeMakeText(self->name, self->metadata, self->more, &text);
    strobe_agent->scope((int)self->level, begin, end, text.bytes, text.size);
    StrobeFreeText(&text);
  }
  if (self->told != 0) strobe_agent->end_step(self->told); /* Its record is complete by now. */
  self->told = 0;
  self->entered = 0;
  Py_CLEAR(self->more);
  if (raised != NULL) return StrobeRaise(raised);
  Py_RETURN_NONE;
}

static PyObject* TraceSetMetadata(PyObject* object, PyObject* args, PyObject* kwargs) {
  Trace* self = (Trace*)object;
  if (PyTuple_Size(args) != 0) {
    PyErr_SetString(PyExc_TypeError, "set_metadata takes keywords only");
    return NULL;
  }
  /* Within a scope that is not recorded there is nothing to keep. */
  if (kwargs == NULL || (self->entered && self->begin == 0)) Py_RETURN_NONE;
  if (self->more == NULL) {
    self->more = PyDict_New();
    if (self->more == NULL) return NULL;
  }
  if (PyDict_Update(self->more, kwargs) < 0) return NULL;
  Py_RETURN_NONE;
}

/* A `with` block over an ordinary object makes and frees two bound methods, which takes half of its
 * time. A Trace is bound to itself instead: a call without arguments enters it, and one with the
 * three of __exit__ leaves it. */
static PyObject* Bind(PyObject* binding, PyObject* object, PyObject* type) {
  PyObject* method = ((Binding*)binding)->method;
  if (object != NULL && Py_TYPE(object) == trace_type) {
    ((Trace*)object)->bound = 1;
    Py_INCREF(object);
    return object;
  }
  if (object != NULL) return PyObject_CallMethod(method, "__get__", "OO", object, type == NULL ? Py_None : type);
  Py_INCREF(method);
  return method;
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

static PyObject* CallTrace(PyObject* object, PyObject* const* args, size_t count, PyObject* names) {
  count &= ~kOffsetFlag;
  if (((Trace*)object)->bound && names == NULL) {
    if (count == 0) return TraceEnter(object, NULL);
    if (count == 3) return TraceExit(object, NULL, 0);
  }
  PyObject* tuple = PyTuple_New((Py_ssize_t)count);
  if (tuple == NULL) return NULL;
  for (size_t i = 0; i < count; ++i) {
    Py_INCREF(args[i]);
    PyTuple_SetItem(tuple, (Py_ssize_t)i, args[i]);
  }
  PyObject* result = TraceCall(object, tuple, names); /* It refuses names, whatever they are. */
  Py_DECREF(tuple);
  return result;
}

static PyMemberDef trace_members[] = {{"__vectorcalloffset__", T_PYSSIZET, offsetof(Trace, call), READONLY, NULL},
                                      {NULL, 0, 0, 0, NULL}};

static PyMethodDef trace_methods[] = {
    {"__enter__", TraceEnter, METH_NOARGS, NULL},
    {"__exit__", (PyCFunction)(void (*)(void))TraceExit, METH_FASTCALL, NULL},
    {"set_metadata", (PyCFunction)(void (*)(void))TraceSetMetadata, METH_VARARGS | METH_KEYWORDS,
     "Adds metadata to the scope that runs or, before `with`, to the next one."},
    {NULL, NULL, 0, NULL}};

static const char trace_doc[] =
    "Trace(name, level=1, /, *, step_num=..., **metadata)\n--\n\n"
    "A scope of the calling thread in a capture's trace: a context manager, or a decorator.\n\n"
    "name: the text that trace viewers show. level: 1 critical, 2 info, 3 verbose; the scope is\n"
    "recorded if the capture's tracers.host is at least this level. step_num: the number of a training\n"
    "step, by which XProf groups a capture. metadata: keys and values, which str() turns into text.\n"
    "This text must not contain '#', and may contain commas only within quotes or brackets. Name and\n"
    "metadata have up to 64 KiB; more is cut, and the capture's report says so. str() is called only\n"
    "while a capture runs, and an error in it goes to sys.unraisablehook. What is no Exception, such as\n"
    "SystemExit, and what a signal handler raises reach the program once the scope is recorded.\n\n"
    ">>> with Trace(\"call\", function_name=\"f\") as call:\n"
    "...     call.set_metadata(in_cache=True)\n"
    ">>> @Trace(\"load\")\n"
    "... def load(): return 1\n"
    ">>> load()\n"
    "1\n";

static PyType_Slot trace_slots[] = {{Py_tp_doc, (void*)trace_doc},     {Py_tp_new, (void*)TraceNew},
                                    {Py_tp_init, (void*)TraceInit},
                                    {Py_tp_dealloc, (void*)TraceFree}, {Py_tp_methods, trace_methods},
                                    {Py_tp_call, (void*)TraceCall},    {Py_tp_members, trace_members},
                                    {0, NULL}};
static PyType_Spec trace_spec = {"strobe.Trace", sizeof(Trace), 0,
                                 Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | kHasVectorCall, trace_slots};

static void BindingFree(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  Py_XDECREF(((Binding*)object)->method);
  PyObject_Free(object);
  Py_DECREF(type);
}

static PyType_Slot binding_slots[] = {{Py_tp_dealloc, (void*)BindingFree}, {Py_tp_descr_get, (void*)Bind}, {0, NULL}};
static PyType_Spec binding_spec = {"strobe._Binding", sizeof(Binding), 0, Py_TPFLAGS_DEFAULT, binding_slots};

/* Puts Bindings in the places of Trace's __enter__ and __exit__. Returns 0 with an exception set on
 * failure. */
static int BindTraceToItself(void) {
  static const char* const names[] = {"__enter__", "__exit__"};
  PyTypeObject* type = (PyTypeObject*)PyType_FromSpec(&binding_spec);
  int done = type != NULL;
  for (int i = 0; done && i < 2; ++i) {
    PyObject* method = PyObject_GetAttrString((PyObject*)trace_type, names[i]);
    Binding* binding = method == NULL ? NULL : PyObject_New(Binding, type);
    if (binding != NULL) binding->method = method;
    done = binding != NULL && PyObject_SetAttrString((PyObject*)trace_type, names[i], (PyObject*)binding) == 0;
    Py_XDECREF(binding);
  }
  Py_XDECREF(type);
  return done;
}

static PyObject* IsActive(PyObject* module, PyObject* args) {
  (void)module;
  int level = 1;
  if (!PyArg_ParseTuple(args, "|i", &level)) return NULL;
  return PyBool_FromLong(level > 0 && Active((uint32_t)level));
}

static PyObject* Attach(PyObject* module, PyObject* unused) {
  (void)module, (void)unused;
  StrobeFindAgent();
  Py_RETURN_NONE;
}

static PyMethodDef module_methods[] = {
    {"attach", Attach, METH_NOARGS, "Looks for the agent again. Call it after setting $STROBE_DIR."},
    {"active", IsActive, METH_VARARGS,
     "active(level=1)\n--\n\nReturns True while a capture records scopes of this level."},
    {"scope", (PyCFunction)(void (*)(void))StrobeScope, METH_VARARGS | METH_KEYWORDS, strobe_scope_doc},
    {NULL, NULL, 0, NULL}};

static struct PyModuleDef module_def = {PyModuleDef_HEAD_INIT, "strobe._trace", NULL, -1, module_methods};

/* `wrap` creates a new Trace for each call, so that recursion and threads do not share one. */
static const char source[] =
    "import functools as _functools\n"
    "import threading as _threading\n"
    "def thread_name():\n"
    "    for thread in _threading.enumerate():\n"
    "        if thread.ident == _threading.get_ident() and thread is not _threading.main_thread():\n"
    "            return thread.name\n"
    "def wrap(Trace, name, metadata, function, level):\n"
    "    keywords = dict(metadata or ())\n"
    "    @_functools.wraps(function)\n"
    "    def traced(*args, **kwargs):\n"
    "        with Trace(name, level, **keywords):\n"
    "            return function(*args, **kwargs)\n"
    "    return traced\n"
    "def wrap_by_scope(scope, function):\n"
    "    @_functools.wraps(function)\n"
    "    def traced(*args, **kwargs):\n"
    "        with scope:\n"
    "            return function(*args, **kwargs)\n"
    "    return traced\n";

static void MakeFunctions(void) {
  PyObject* names = PyDict_New();
  PyObject* code = Py_CompileString(source, "strobe/_trace.c", Py_file_input);
  PyObject* done = NULL;
  if (names != NULL && code != NULL &&
      PyDict_SetItemString(names, "__builtins__", PyEval_GetBuiltins()) == 0)
    done = PyEval_EvalCode(code, names, names);
  if (done != NULL) {
    wrap = PyDict_GetItemString(names, "wrap");
    strobe_name_of_thread = PyDict_GetItemString(names, "thread_name");
    strobe_wrap_by_scope = PyDict_GetItemString(names, "wrap_by_scope");
    Py_XINCREF(wrap);
    Py_XINCREF(strobe_name_of_thread);
    Py_XINCREF(strobe_wrap_by_scope);
  }
  Py_XDECREF(done);
  Py_XDECREF(code);
  Py_XDECREF(names);
}

PyMODINIT_FUNC PyInit__trace(void) {
  StrobeFindAgent();
  PyObject* module = PyModule_Create(&module_def);
  if (module == NULL) return NULL;
  step_num_key = PyUnicode_InternFromString("step_num");
  root_key = PyUnicode_InternFromString("_r");
  name_key = PyUnicode_InternFromString("name");
  one = PyLong_FromLong(1);
  trace_type = (PyTypeObject*)PyType_FromSpec(&trace_spec);
  MakeFunctions();
  if (!step_num_key || !root_key || !name_key || !one || !trace_type || !wrap ||
      !strobe_name_of_thread || !strobe_wrap_by_scope || !StrobeInitScopes() || !BindTraceToItself() ||
      PyModule_AddObject(module, "Trace", (PyObject*)trace_type) < 0) {
    Py_DECREF(module);
    return NULL;
  }
  Py_INCREF(trace_type);
  return module;
}

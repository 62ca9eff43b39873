/* strobe.scope: scopes that are made once and entered often.
 *
 * A `with` block over an ordinary object makes and frees two bound methods, which takes most of its
 * time. A scope therefore has a type of its own, whose __enter__ and __exit__ are functions that
 * know the scope already and need not be bound. While a capture runs, each time that a scope is
 * entered is noted in a list of the thread, so that several threads can use it, and it can be
 * entered within itself. */
#include "_trace.h"

#include <string.h>

typedef struct {
  PyObject_HEAD
  char* text; /* As StrobeMakeText writes it. */
  size_t size;
  uint32_t level;
} Prepared;

/* A scope of this thread that was entered while a capture ran, and has not been left. */
typedef struct Entered {
  struct Entered* outer;
  Prepared* scope; /* A reference: another scope must not get its address meanwhile. */
  uint64_t begin;
} Entered;

static __thread Entered* innermost;
/* How many there are in all threads: while there are none, __exit__ has nothing to look for. */
static uint32_t entered;

static PyTypeObject* prepared_type;
PyObject* strobe_wrap_by_scope;

static void PreparedFree(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  PyMem_Free(((Prepared*)object)->text);
  PyObject_Free(object);
  Py_DECREF(type);
}

/* Out of memory means that this time is not recorded. Returns an exception that the program must get,
 * or NULL. */
static PyObject* Note(Prepared* scope) {
  PyObject* raised = StrobeNameThread();
  Entered* note = raised == NULL ? PyMem_Malloc(sizeof *note) : NULL;
  if (note == NULL) return raised;
  Py_INCREF(scope);
  *note = (Entered){innermost, scope, strobe_agent->now()};
  innermost = note;
  __atomic_fetch_add(&entered, 1, __ATOMIC_RELAXED);
  return NULL;
}

/* Generators may leave scopes in another order than they entered them. */
static void Record(Prepared* scope) {
  Entered** at = &innermost;
  while (*at != NULL && (*at)->scope != scope) at = &(*at)->outer;
  Entered* note = *at;
  if (note == NULL) return;
  *at = note->outer;
  __atomic_fetch_sub(&entered, 1, __ATOMIC_RELAXED);
  strobe_agent->scope((int)scope->level, note->begin, strobe_agent->now(), scope->text, scope->size);
  Py_DECREF(scope);
  PyMem_Free(note);
}

static PyObject* ScopeEnter(PyObject* object, PyObject* unused) {
  (void)unused;
  Prepared* scope = (Prepared*)object;
  PyObject* raised = Active(scope->level) ? Note(scope) : NULL;
  if (raised != NULL) return StrobeRaise(raised);
  Py_RETURN_NONE;
}

static PyObject* ScopeExit(PyObject* object, PyObject* const* args, Py_ssize_t count) {
  (void)args, (void)count;
  if (__atomic_load_n(&entered, __ATOMIC_RELAXED) != 0) Record((Prepared*)object);
  Py_RETURN_NONE;
}

static PyMethodDef enter_method = {"__enter__", ScopeEnter, METH_NOARGS, NULL};
static PyMethodDef exit_method = {"__exit__", (PyCFunction)(void (*)(void))ScopeExit, METH_FASTCALL, NULL};

/* Instances of the new type share the scope. */
static PyObject* MakeObject(PyObject* scope) {
  PyObject* enter = PyCFunction_NewEx(&enter_method, scope, NULL);
  PyObject* leave = PyCFunction_NewEx(&exit_method, scope, NULL);
  PyObject *type = NULL, *object = NULL;
  if (enter != NULL && leave != NULL)
    type = PyObject_CallFunction((PyObject*)&PyType_Type, "s(){s(),ss,sO,sO,sO}", "scope", "__slots__", "__module__", "strobe", "__enter__", enter,
                                 "__exit__", leave, "__call__", strobe_wrap_by_scope);
  if (type != NULL) object = PyObject_CallFunction(type, NULL);
  Py_XDECREF(type);
  Py_XDECREF(leave);
  Py_XDECREF(enter);
  return object;
}

const char strobe_scope_doc[] =
    "scope(name, level=1, /, **metadata)\n--\n\n"
    "A scope that is made once and entered often: a context manager or a decorator. While no capture\n"
    "runs, it costs about a third of a Trace. Any number of threads may use it, also recursively. Leave\n"
    "it in the thread in which it was entered. In coroutines that interleave, use Trace instead.\n\n"
    "name, level, metadata: as for Trace. str() of the metadata is evaluated now. step_num is refused,\n"
    "because a step has another number each time; use Trace for steps.\n\n"
    ">>> forward = scope(\"forward\", part=\"encoder\")\n"
    ">>> for batch in range(3):\n"
    "...     with forward:\n"
    "...         pass\n";

PyObject* StrobeScope(PyObject* module, PyObject* args, PyObject* kwargs) {
  (void)module;
  const Py_ssize_t count = PyTuple_Size(args);
  PyObject* name = count > 0 ? PyTuple_GetItem(args, 0) : NULL;
  if (count > 2 || name == NULL || !PyUnicode_Check(name)) {
    PyErr_SetString(PyExc_TypeError, "scope(name, level=1, /, **metadata): name must be one str");
    return NULL;
  }
  if (kwargs != NULL && PyDict_GetItemString(kwargs, "step_num") != NULL) {
    PyErr_SetString(PyExc_TypeError, "scope() has no step_num, because it is made once: use Trace for a step");
    return NULL;
  }
  uint32_t level = 1;
  if (count == 2 && !StrobeTakeLevel(PyTuple_GetItem(args, 1), &level)) return NULL;
  Prepared* scope = PyObject_New(Prepared, prepared_type);
  if (scope == NULL) return NULL;
  Text text;
  PyObject* raised = StrobeMakeText(name, kwargs, NULL, &text);
  scope->level = level;
  scope->size = text.size;
  scope->text = PyMem_Malloc(text.size);
  if (scope->text != NULL) memcpy(scope->text, text.bytes, text.size);
  StrobeFreeText(&text);
  PyObject* object = NULL;
  if (raised != NULL)
    StrobeRaise(raised);
  else
    object = scope->text == NULL ? PyErr_NoMemory() : MakeObject((PyObject*)scope);
  Py_DECREF(scope);
  return object;
}

static PyType_Slot prepared_slots[] = {{Py_tp_dealloc, (void*)PreparedFree}, {0, NULL}};
static PyType_Spec prepared_spec = {"strobe._Prepared", sizeof(Prepared), 0, Py_TPFLAGS_DEFAULT, prepared_slots};

int StrobeInitScopes(void) {
  prepared_type = (PyTypeObject*)PyType_FromSpec(&prepared_spec);
  return prepared_type != NULL;
}

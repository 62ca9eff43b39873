/* What the files of the extension strobe._trace share. It uses the limited API of CPython 3.9, so
 * that one wheel serves every later version. */
#pragma once
#include <Python.h>

#include "strobe/agent_api.h"

/* The stable ABI has it since 3.10; it is the same in 3.9. */
#ifndef METH_FASTCALL
#define METH_FASTCALL 0x0080
#endif

#define STROBE_INTERNAL __attribute__((visibility("hidden")))

/* ---- agent */

/* The agent of this process; never NULL. */
STROBE_INTERNAL extern const strobe_agent_api* strobe_agent;
/* Loads the agent once $STROBE_DIR is set: the agent reads it only the first time. */
STROBE_INTERNAL void StrobeFindAgent(void);
/* Gives the calling thread its Python name in traces, once. Returns an exception that the program
 * must get, or NULL; see StrobeTakeRaised. */
STROBE_INTERNAL PyObject* StrobeNameThread(void);
/* The Python function that returns the calling thread's name, or None for the main thread. */
STROBE_INTERNAL extern PyObject* strobe_name_of_thread;

static inline int Active(uint32_t level) {
  return __atomic_load_n(strobe_agent->control, __ATOMIC_RELAXED) >= level;
}

/* ---- exceptions */

/* Takes the exception that is set. If the program raised it by a signal handler, or if it is no
 * Exception (such as SystemExit and KeyboardInterrupt), the program must get it: returns it, for
 * StrobeRaise once the record is written. Tells any other to sys.unraisablehook, as one of
 * `object`, and returns NULL. */
STROBE_INTERNAL PyObject* StrobeTakeRaised(PyObject* object);
/* Raises what StrobeTakeRaised returned, and returns NULL. */
STROBE_INTERNAL PyObject* StrobeRaise(PyObject* raised);

/* ---- text */

/* kMaxText is somewhat more than the agent keeps; the agent counts and marks what it cuts. */
enum { kUsualText = 2000, kMaxText = 66 << 10 };

typedef struct {
  char* bytes; /* `usual`, or memory of its own once that is too small. */
  size_t size, room;
  char usual[kUsualText];
} Text;

/* Writes "name#key=value,...#" for an annotation. `metadata` and `more` are dicts or NULL; a key of
 * `more` hides the same key of `metadata`. What str() cannot write becomes "<unprintable>", and its
 * error goes to sys.unraisablehook: the error is reported, but a program does not fail only because
 * it is recorded. Returns an exception that the program must get, or NULL; the text is valid in
 * either case. */
STROBE_INTERNAL PyObject* StrobeMakeText(PyObject* name, PyObject* metadata, PyObject* more,
                                         Text* text);
STROBE_INTERNAL void StrobeFreeText(Text* text);

/* ---- scope() */

/* Reads a level from 1 to 3. Returns 0 with a Python exception set on failure. */
STROBE_INTERNAL int StrobeTakeLevel(PyObject* level, uint32_t* to);
/* The function strobe.scope; see its docstring. */
STROBE_INTERNAL PyObject* StrobeScope(PyObject* module, PyObject* args, PyObject* kwargs);
STROBE_INTERNAL extern const char strobe_scope_doc[];
/* The Python function that wraps a function decorated with a scope. */
STROBE_INTERNAL extern PyObject* strobe_wrap_by_scope;
/* Creates the type of the objects that hold what StrobeScope prepares. Returns 0 with an exception
 * set on failure. */
STROBE_INTERNAL int StrobeInitScopes(void);

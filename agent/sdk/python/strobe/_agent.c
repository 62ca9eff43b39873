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

void StrobeNameThread(void) {
  static __thread int named;
  if (named) return;
  named = 1;
  if (strobe_agent->size < offsetof(strobe_agent_api, name_thread) + sizeof strobe_agent->name_thread) return;
  PyObject* name = PyObject_CallObject(strobe_name_of_thread, NULL);
  PyObject* bytes = name == NULL || name == Py_None ? NULL : PyUnicode_AsUTF8String(name);
  if (bytes != NULL) strobe_agent->name_thread(PyBytes_AsString(bytes), (size_t)PyBytes_Size(bytes));
  PyErr_Clear();
  Py_XDECREF(bytes);
  Py_XDECREF(name);
}

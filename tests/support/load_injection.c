// A library for LD_PRELOAD that loads the agent as CUDA's driver does in cuInit, before the program's main().
#include <dlfcn.h>
#include <stdlib.h>

__attribute__((constructor)) static void Load(void) {
  const char* path = getenv("CUDA_INJECTION64_PATH");
  void* tool = path == NULL ? NULL : dlopen(path, RTLD_NOW);
  int (*initialize)(void) = tool == NULL ? NULL : (int (*)(void))dlsym(tool, "InitializeInjection");
  if (initialize != NULL) initialize();
}

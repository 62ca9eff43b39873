// Starts the agent's threads in the traced program.
#pragma once
#include <pthread.h>
#include <signal.h>

namespace strobe::agent {

// Starts a detached thread that has all signals blocked, so that it never runs the program's
// handlers. False if the thread could not be created. `name` has at most 15 characters.
inline bool StartQuietThread(const char* name, void* (*run)(void*), void* argument) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread;
  const bool started = pthread_create(&thread, nullptr, run, argument) == 0;
  if (started) {
    pthread_setname_np(thread, name);
    pthread_detach(thread);
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return started;
}

}  // namespace strobe::agent

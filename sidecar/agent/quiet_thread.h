// A thread of ours in somebody else's program.
#pragma once
#include <pthread.h>
#include <signal.h>

namespace strobe::agent {

// Detached, and deaf to signals: the program's signals are the program's. Where there is no thread
// to be had the program goes on without. `name` has at most 15 characters.
inline void StartQuietThread(const char* name, void* (*run)(void*), void* argument) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread;
  if (pthread_create(&thread, nullptr, run, argument) == 0) {
    pthread_setname_np(thread, name);
    pthread_detach(thread);
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace strobe::agent

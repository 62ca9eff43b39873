/* The C ABI of libstrobe_agent.so. C++ programs use strobe/trace_me.h instead; this header is for
 * bindings to other languages.
 *
 * Look the library up at run time, never link it, so that a program also runs without it. */
#ifndef STROBE_AGENT_API_H_
#define STROBE_AGENT_API_H_
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct strobe_agent_api {
  uint32_t version; /* It is 1. Later versions only add members behind these. */
  uint32_t size;    /* The size of this struct in the library, in bytes. */
  /* The level up to which scopes are recorded: 0 none, 1 critical, 2 info, 3 verbose. It may change
   * at any time, so read it atomically. The pointer is valid for the life of the process. */
  const uint32_t* control;
  /* Reads the clock that `scope` uses, in ticks of unspecified length. */
  uint64_t (*now)(void);
  /* Records a finished scope of the calling thread. `begin` and `end` are values of `now`. Metadata
   * follows the name: "name#key=value,key=value#". Text beyond 64 KiB is cut, and the capture's
   * report says how often. Never blocks. Do not call it in a signal handler: one that interrupts a
   * call on its own thread would damage the thread's records. */
  void (*scope)(int level, uint64_t begin, uint64_t end, const char* text, size_t size);
  /* A bit mask. Record a scope with a mask only if the two have a bit in common. Read it
   * atomically, like `control`. */
  const uint32_t* filter;
  /* Names the calling thread in traces; UTF-8, cut to 48 bytes. Without a call, a thread has the
   * name that the kernel knows. Call it before the thread's first scope while `control` is not 0;
   * it may take memory for the thread's records. Libraries before 2026-11 lack it; see `size`. */
  void (*name_thread)(const char* name, size_t size);
  /* Tells that a training step begins. Call it also while `control` is 0, so that a capture can
   * begin at a step. `loop` is the name of the step's annotation; the first 48 bytes count, and the
   * first four loops of a process. Returns a number for end_step, or 0. Never blocks. Libraries
   * before 2026-12 lack this and end_step; see `size`. */
  uint64_t (*begin_step)(const char* loop, size_t size, int64_t number);
  /* Tells that the step has ended. 0 is allowed. */
  void (*end_step)(uint64_t step);
} strobe_agent_api;

/* Returns the same pointer each time, never NULL. If the library cannot record, because $STROBE_DIR
 * is not set or has no space, `control` stays 0. This is the library's only symbol for programs. */
const strobe_agent_api* strobe_agent_api_v1(void);

#ifdef __cplusplus
}
#endif
#endif /* STROBE_AGENT_API_H_ */

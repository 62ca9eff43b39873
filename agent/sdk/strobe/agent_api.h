/* What libstrobe_agent.so offers to annotations, as a C ABI. Programs use strobe/trace_me.h; this
 * is for bindings to other languages.
 *
 * The library is found, never linked: a program runs the same without it. */
#ifndef STROBE_AGENT_API_H_
#define STROBE_AGENT_API_H_
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct strobe_agent_api {
  uint32_t version; /* 1. Later versions only add members behind these. */
  uint32_t size;    /* Of this struct in the library. */
  /* 0 while nobody records, else the level up to which is recorded: 1 critical, 2 info, 3 verbose.
   * Read it atomically; it may change at any time. Valid for the life of the process. */
  const uint32_t* control;
  /* The clock of `scope`. */
  uint64_t (*now)(void);
  /* One finished scope of the calling thread. Never blocks; text beyond 2,000 bytes is cut.
   * Metadata stands behind the name: "name#key=value,key=value#". */
  void (*scope)(int level, uint64_t begin, uint64_t end, const char* text, size_t size);
  /* Scopes that were given a mask are recorded only when it meets this one; as `control`. */
  const uint32_t* filter;
} strobe_agent_api;

/* The library's only symbol for programs. Never NULL; the same pointer each time. Where the library
 * cannot record (no $STROBE_DIR, no room) its control stays 0. */
const strobe_agent_api* strobe_agent_api_v1(void);

#ifdef __cplusplus
}
#endif
#endif /* STROBE_AGENT_API_H_ */

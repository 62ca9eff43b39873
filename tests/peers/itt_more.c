// What Intel's reference collector lacks: events, typed counters and markers. Each call becomes a line in the
// file $STROBE_ITT_NOTES. Linked into the reference collector, which hands out all functions by their names.
#include <stdio.h>
#include <stdlib.h>

#define INTEL_NO_MACRO_BODY
#define INTEL_ITTNOTIFY_API_PRIVATE
#include "ittnotify.h"
#include "ittnotify_config.h"

#define EXPORT __attribute__((visibility("default")))
#define NOTE(...)                                        \
  do {                                                   \
    const char* const path = getenv("STROBE_ITT_NOTES"); \
    FILE* const file = path ? fopen(path, "a") : NULL;   \
    if (file) {                                          \
      fprintf(file, __VA_ARGS__);                        \
      fclose(file);                                      \
    }                                                    \
  } while (0)

static char names[64][64];
static int made;

static int Keep(const char* name, int length) {
  const int number = made++ % 64;
  snprintf(names[number], sizeof names[number], "%.*s", length, name);
  return number;
}

EXPORT __itt_event __itt_event_create(const char* name, int length) { return Keep(name, length) + 1; }
EXPORT int __itt_event_start(__itt_event event) {
  NOTE("event_start %s\n", names[event - 1]);
  return 0;
}
EXPORT int __itt_event_end(__itt_event event) {
  NOTE("event_end %s\n", names[event - 1]);
  return 0;
}

EXPORT __itt_counter __itt_counter_create_typed(const char* name, const char* domain, __itt_metadata_type type) {
  char both[64];
  const int length = snprintf(both, sizeof both, "%s/%s/%d", domain, name, type == __itt_metadata_double);
  return (__itt_counter)names[Keep(both, length)];
}
EXPORT void __itt_counter_set_value(__itt_counter counter, void* value) {
  NOTE("counter %s %g\n", (const char*)counter, *(const double*)value);
}

EXPORT void __itt_marker(const __itt_domain* domain, __itt_id id, __itt_string_handle* name, __itt_scope scope) {
  (void)id;
  NOTE("marker %s/%s %d\n", domain->nameA, name->strA, scope);
}

// LD_PRELOAD: adds CLOCK_SHIFT_NS nanoseconds to this process's wall clock, and to nothing else. A
// worker whose clock is wrong, on a machine whose clock is right. (libfaketime breaks JAX.)
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long long shift_ns(void) {
  static long long shift;
  static int read_already;
  if (!read_already) {
    const char* text = getenv("CLOCK_SHIFT_NS");
    shift = text ? atoll(text) : 0;
    read_already = 1;
  }
  return shift;
}

static void add_shift(struct timespec* time) {
  long long nanos = time->tv_nsec + shift_ns() % 1000000000LL;
  time->tv_sec += shift_ns() / 1000000000LL;
  if (nanos >= 1000000000LL) {
    nanos -= 1000000000LL;
    time->tv_sec++;
  } else if (nanos < 0) {
    nanos += 1000000000LL;
    time->tv_sec--;
  }
  time->tv_nsec = nanos;
}

int clock_gettime(clockid_t id, struct timespec* time) {
  int result = (int)syscall(SYS_clock_gettime, id, time);
  if (result == 0 && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) add_shift(time);
  return result;
}

int gettimeofday(struct timeval* restrict time, void* restrict zone) {
  (void)zone;
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  time->tv_sec = now.tv_sec;
  time->tv_usec = now.tv_nsec / 1000;
  return 0;
}

time_t time(time_t* out) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (out) *out = now.tv_sec;
  return now.tv_sec;
}

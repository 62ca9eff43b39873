// A library for LD_PRELOAD that shifts the wall clock of one process, and no other clock: by
// $CLOCK_SHIFT_NS nanoseconds, or by the int64 in the file $CLOCK_SHIFT_FILE, which may change
// while the process runs. It simulates a worker whose clock is wrong or is stepped. libfaketime
// cannot be used, because it breaks JAX.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long long shift_ns(void) {
  static long long fixed;
  static const volatile long long* _Atomic shift;
  if (shift == NULL) {
    const char* text = getenv("CLOCK_SHIFT_NS");
    const char* path = getenv("CLOCK_SHIFT_FILE");
    fixed = text ? atoll(text) : 0;
    const int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void* mapped =
        file < 0 ? MAP_FAILED : mmap(NULL, sizeof(long long), PROT_READ, MAP_SHARED, file, 0);
    if (file >= 0) close(file);
    shift = mapped == MAP_FAILED ? &fixed : mapped;
  }
  return *shift;
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

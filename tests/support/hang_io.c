// A library for LD_PRELOAD that simulates a network file system whose server does not answer: while
// the file $HANG_WHILE exists, calls on files below the directory $HANG_BELOW do not return.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static int below(const char* path) {
  const char* hung = getenv("HANG_BELOW");
  const size_t size = hung ? strlen(hung) : 0;
  return size > 0 && strncmp(path, hung, size) == 0 && (path[size] == '/' || path[size] == 0);
}

static void hang(void) {
  const char* flag = getenv("HANG_WHILE");
  while (flag && access(flag, F_OK) == 0) nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
}

static void look_at_fd(int fd) {
  char link[64], path[4096];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t size = readlink(link, path, sizeof path - 1);
  if (size <= 0) return;
  path[size] = 0;
  if (below(path)) hang();
}

static void look_at(int folder, const char* path) {
  if (path[0] == '/' || folder == AT_FDCWD) {
    if (below(path)) hang();
  } else {
    look_at_fd(folder);
  }
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define MODE(last)                    \
  mode_t mode = 0;                    \
  if (flags & O_CREAT) {              \
    va_list list;                     \
    va_start(list, last);             \
    mode = (mode_t)va_arg(list, int); \
    va_end(list);                     \
  }

int open(const char* path, int flags, ...) {
  MODE(flags)
  look_at(AT_FDCWD, path);
  return REAL(open)(path, flags, mode);
}
int openat(int folder, const char* path, int flags, ...) {
  MODE(flags)
  look_at(folder, path);
  return REAL(openat)(folder, path, flags, mode);
}
int mkdirat(int folder, const char* path, mode_t mode) {
  look_at(folder, path);
  return REAL(mkdirat)(folder, path, mode);
}
int fstatat(int folder, const char* restrict path, struct stat* restrict out, int flags) {
  look_at(folder, path);
  return REAL(fstatat)(folder, path, out, flags);
}
ssize_t write(int fd, const void* bytes, size_t size) {
  look_at_fd(fd);
  return REAL(write)(fd, bytes, size);
}
int fsync(int fd) {
  look_at_fd(fd);
  return REAL(fsync)(fd);
}

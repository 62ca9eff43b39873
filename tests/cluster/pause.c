// Keeps a pod's namespaces alive: sleeps until it receives a signal.
#include <signal.h>
#include <unistd.h>

static void End(int number) {
  (void)number;
  _exit(0);
}

int main(void) {
  signal(SIGTERM, End);
  signal(SIGINT, End);
  for (;;) pause();
}

// Holds a pod's namespaces: sleeps until it is told to end.
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

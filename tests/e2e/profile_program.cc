// profile_program LOGDIR PROGRAMS: records itself with strobe::Profile and prints how that went.
#include <cstdio>
#include <string>
#include <thread>

#include "strobe/profile.h"

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  strobe::ProfileOptions options;
  options.programs = argv[2];
  options.run = "mine";
  strobe::Profile profile(argv[1], options);
  std::printf("recording %d %s\n", profile.recording() ? 1 : 0, profile.error().c_str());
  for (int step = 0; step < 20; ++step) {
    strobe::StepTraceMe train("train", step);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  const bool saved = profile.Stop();
  std::printf("saved %d %s\n", saved ? 1 : 0, profile.error().c_str());
  { strobe::TraceMe late("late"); }
  return saved ? 0 : 1;
}

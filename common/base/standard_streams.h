// The standard streams of a program.
#pragma once
#include <fcntl.h>
#include <unistd.h>

#include <initializer_list>

namespace strobe {

// A file that is opened while a standard stream is closed would take the stream's number, and what
// is printed would be written into it. These take the number, and refuse what is printed.
inline void OccupyClosedStreams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(stream, F_GETFD) < 0)
      (void)open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  }
}

}  // namespace strobe

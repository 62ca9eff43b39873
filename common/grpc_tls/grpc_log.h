// What gRPC logs. By default it writes its errors to standard error, in a form of its own. Here
// they become lines of our log, unless somebody else tells them.
#pragma once
#include <functional>
#include <string>

namespace strobe {

// Calls `failed`, from gRPC's threads, for each connection of this process that ended before
// certificates could be judged: plain text, garbage, no common TLS version. Also keeps
// such failures out of the log. Call it once, before any server or channel is made; `failed` is
// called until the process ends.
void ObserveFailedHandshakes(std::function<void()> failed);

// Collects the errors that gRPC logs on this thread, instead of logging them, for a caller who
// tells its user what failed. From the first one on, gRPC's other errors go to our log.
class GrpcErrors {
 public:
  GrpcErrors();
  ~GrpcErrors();
  GrpcErrors(const GrpcErrors&) = delete;
  GrpcErrors& operator=(const GrpcErrors&) = delete;

  // The system's words for the first error that it caused, such as "Address already in use"; empty
  // if there was none.
  std::string SystemError() const;

 private:
  std::string text_;
};

}  // namespace strobe

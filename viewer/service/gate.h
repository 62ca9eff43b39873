// The one place that every request of the service passes. Behind it there is only what the asker
// may see: nothing there is able to reach more.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "common/base/token_bucket.h"
#include "viewer/service/access.h"
#include "viewer/service/asker.h"

namespace strobe::viewer {

// What the asker may see, by the positions of the logdirs in the configuration.
using VisibleLogdirs = std::vector<std::size_t>;

class Gate {
 public:
  struct Options {
    IdentityHeaders identity{};
    std::vector<std::string> hosts{};       // See ViewerOptions.
    std::vector<std::string> namespaces{};  // Of each logdir.
  };
  using Inside = std::function<Page(const Request& request, const VisibleLogdirs& visible)>;

  // The clock and `access` must outlive the gate.
  Gate(const Clock& clock, Access& access, Options options, Inside inside);

  // Answers any request. All questions are asked for each of them, whatever it asks for, so that
  // the time of an answer does not depend on whether something hidden was named.
  Page Answer(const Request& request);
  // True if the answer waits for the API server.
  bool IsSlow(const Request& request);

 private:
  Page Judged(const Request& request);
  void LogFailure(const absl::Status& why);

  const Clock& clock_;
  Access& access_;
  const Options options_;
  std::vector<std::string> namespaces_{};  // Each once.
  const Inside inside_;
  Mutex mutex_;
  TokenBucket log_lines_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace strobe::viewer

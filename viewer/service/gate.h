// The one place that every request of the service passes. It tells those behind it what the asker
// may see.
#pragma once
#include <atomic>
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
    std::vector<std::string> namespaces{};  // The namespace of each logdir.
    // Tells which requests take long even when their asker is known. At most this many of them are
    // answered at the same time, so that threads are left for those who wait for the API server.
    std::function<bool(const http::Request&)> is_heavy = nullptr;
    int max_heavy = 8;
  };
  using Handler =
      std::function<http::Page(const http::Request& request, const VisibleLogdirs& visible)>;

  // The clock and `access` must outlive the gate.
  Gate(const Clock& clock, Access& access, Options options, Handler inside);

  // Answers any request. Each request asks about all namespaces, whatever it wants, so that the
  // time of an answer does not depend on whether something hidden was named.
  http::Page Answer(const http::Request& request);
  // True if the answer takes long, or waits for the API server.
  bool IsSlow(const http::Request& request);

 private:
  http::Page Judged(const http::Request& request);
  http::Page Inside(const http::Request& request, const VisibleLogdirs& visible);
  void LogFailure(const absl::Status& why);

  const Clock& clock_;
  Access& access_;
  const Options options_;
  std::vector<std::string> namespaces_{};  // Each once.
  const Handler inside_;
  std::atomic<int> heavy_{0};  // Heavy requests that are being answered.
  Mutex mutex_;
  TokenBucket log_lines_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace strobe::viewer

// The one place that every request of the service passes. It tells those behind it what the asker
// may see.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "common/fair/token_bucket.h"
#include "viewer/service/access.h"
#include "viewer/service/asker.h"

namespace strobe::viewer {

// What the asker may see, by the positions of the logdirs in the configuration.
using VisibleLogdirs = std::vector<std::size_t>;

class Gate {
 public:
  struct Options {
    IdentityHeaders identity{};
    std::vector<std::string> hosts{};       // See RouterOptions.
    std::vector<std::string> namespaces{};  // The namespace of each logdir.
    // What an answer takes once its asker is known. Null: it is not known yet what they may see.
    std::function<http::Load(const http::Request&, const VisibleLogdirs*)> load_of = nullptr;
  };
  using Handler =
      std::function<http::Page(const http::Request& request, const VisibleLogdirs& visible)>;

  // The clock and `access` must outlive the gate.
  Gate(const Clock& clock, Access& access, Options options, Handler inside);

  // Answers any request. Each request asks about all namespaces, whatever it wants, so that the
  // time of an answer does not depend on whether something hidden was named.
  http::Page Answer(const http::Request& request);
  // What the answer takes, and who pays: the user, or the address if the request names none. It
  // waits if the API server must be asked.
  http::Work WorkOf(const http::Request& request);

 private:
  http::Page Judged(const http::Request& request);
  // The logdirs of the allowed ones among `namespaces_`.
  VisibleLogdirs LogdirsOf(const std::vector<bool>& allowed) const;
  void LogFailure(const absl::Status& why);

  const Clock& clock_;
  Access& access_;
  const Options options_;
  std::vector<std::string> namespaces_{};  // Each once.
  const Handler inside_;
  Mutex mutex_;
  fair::TokenBucket log_lines_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace strobe::viewer

// HTTP to one API server, whatever library does it. Implementations are safe for concurrent use and
// throw nothing.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"

namespace strobe::kube {

struct HttpRequest {
  std::string method = "GET";
  std::string path{};  // With query, starting with '/'.
  std::string body{};
  std::string content_type = "application/json";
  Nanos timeout = std::chrono::seconds(30);  // Unary: of the whole call. Stream: of each silence.
};

struct HttpResponse {
  int status = 0;
  std::string body{};
  std::optional<Nanos> retry_after{};
};

// Ends streams and waits from another thread; set once.
using Stop = Notification;

class Transport {
 public:
  virtual ~Transport() = default;
  // An answer of any HTTP status is a response; errors are of the transport: Unavailable,
  // DeadlineExceeded, Unauthenticated (our own credentials cannot be read).
  virtual absl::StatusOr<HttpResponse> Unary(const HttpRequest& request) = 0;
  // Blocks until the stream has ended, was stopped (Cancelled) or `chunk` returned false
  // (Cancelled). An answer other than 200 comes back with its body and no chunk.
  virtual absl::StatusOr<HttpResponse> Stream(
      const HttpRequest& request, const Stop& stop,
      const std::function<bool(std::string_view)>& chunk) = 0;
};

}  // namespace strobe::kube

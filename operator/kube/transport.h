// HTTP requests to one API server, independent of the library. Implementations are safe for
// concurrent use and do not throw.
#pragma once
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"

namespace strobe::kube {

struct HttpRequest {
  std::string method = "GET";
  std::string path{};  // Starts with '/'; includes the query.
  std::string body{};
  std::string content_type = "application/json";
  std::map<std::string, std::string> headers{};  // Besides those that every request has.
  // Unary: the limit on the whole call. Stream: the limit on each silence.
  Nanos timeout = std::chrono::seconds(30);
};

struct HttpResponse {
  int status = 0;
  std::string body{};
  std::optional<Nanos> retry_after{};
  std::optional<WallTime> date{};  // The server's time, from the header Date.
};

// Ends streams and waits from another thread. Set once.
using Stop = Notification;

class Transport {
 public:
  virtual ~Transport() = default;
  // Returns a response for every HTTP status. Errors concern the transport: Unavailable,
  // DeadlineExceeded, Unauthenticated (the client's own credentials cannot be read).
  virtual absl::StatusOr<HttpResponse> Unary(const HttpRequest& request) = 0;
  // Like Unary, for a long answer: gives the body of a response 200 to `chunk` piece by piece and
  // leaves it out of the response. Returns Cancelled when `chunk` returns false.
  virtual absl::StatusOr<HttpResponse> Read(const HttpRequest& request,
                                            const std::function<bool(std::string_view)>& chunk) {
    absl::StatusOr<HttpResponse> response = Unary(request);
    if (!response.ok() || response->status != 200) return response;
    if (!chunk(response->body)) return absl::CancelledError("the reader ended the answer");
    response->body.clear();
    return response;
  }
  // Blocks until the stream has ended, or returns Cancelled after `stop` or when `chunk` returns
  // false. A response other than 200 is returned with its body, without calling `chunk`.
  virtual absl::StatusOr<HttpResponse> Stream(
      const HttpRequest& request, const Stop& stop,
      const std::function<bool(std::string_view)>& chunk) = 0;
};

}  // namespace strobe::kube

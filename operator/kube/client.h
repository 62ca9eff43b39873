// Requests to the API server as JSON in, JSON out. Blocking; safe for concurrent use.
#pragma once
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/statusor.h"
#include "operator/kube/transport.h"

namespace strobe::kube {

using Json = nlohmann::json;

// What the server refused, as absl codes: 400/422 InvalidArgument, 401 Unauthenticated, 403
// PermissionDenied, 404 NotFound, 409 AlreadyExists or Aborted (conflict), 410 OutOfRange
// (expired), 429 ResourceExhausted, the rest of 5xx Unavailable. The message is the server's own.
absl::Status ToStatus(const HttpResponse& response);

// Called after each request that got an answer, for metrics.
using RequestObserver = std::function<void(const std::string& method, int status, Nanos took)>;

// How long a call may take in all: waiting for its answer, and for as often as the server asks to
// come back later. A server that asks for more than is left is told to the caller instead.
inline constexpr Nanos kCallLimit = std::chrono::seconds(30);

class Client {
 public:
  Client(const Clock& clock, std::shared_ptr<Transport> transport,
         RequestObserver observer = nullptr);

  absl::StatusOr<Json> Get(const std::string& path, Nanos within = kCallLimit);
  // A list's items one by one, so that only one of them is in memory as JSON; then what is left of
  // the list.
  absl::StatusOr<Json> GetItems(const std::string& path,
                                const std::function<void(const Json&)>& item,
                                Nanos within = kCallLimit);
  absl::StatusOr<Json> Create(const std::string& path, const Json& object,
                              Nanos within = kCallLimit);
  absl::StatusOr<Json> Replace(const std::string& path, const Json& object,
                               Nanos within = kCallLimit);
  // RFC 7386; with metadata.resourceVersion in the patch it fails (Aborted) when the object
  // changed.
  absl::StatusOr<Json> MergePatch(const std::string& path, const Json& patch,
                                  Nanos within = kCallLimit);
  // Server-side apply as this field manager; conflicts are overruled.
  absl::StatusOr<Json> Apply(const std::string& path, const Json& object,
                             Nanos within = kCallLimit);
  absl::StatusOr<Json> ApplyYaml(const std::string& path, const std::string& yaml,
                                 Nanos within = kCallLimit);
  absl::Status Delete(const std::string& path, const Json& options = Json::object(),
                      Nanos within = kCallLimit);

  // From now on no call waits to be repeated, and who waits returns: the process is ending.
  void EndWaits() { ending_.Notify(); }
  Transport& transport() { return *transport_; }

 private:
  absl::StatusOr<std::string> Send(HttpRequest request, Nanos within);
  absl::StatusOr<Json> SendJson(HttpRequest request, Nanos within);

  const Clock& clock_;
  const std::shared_ptr<Transport> transport_;
  const RequestObserver observer_;
  Stop ending_;
};

inline constexpr char kFieldManager[] = "strobe-operator";

// Percent-encodes a query value.
std::string UrlEncode(std::string_view text);

}  // namespace strobe::kube

// Sends requests to the API server, with JSON as input and output. Blocks. Safe for concurrent use.
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "common/text/json.h"
#include "operator/base/admission_seal.h"
#include "operator/kube/transport.h"

namespace strobe::kube {

using Json = nlohmann::json;

// Converts an error response: 400/422 InvalidArgument, 401 Unauthenticated, 403 PermissionDenied,
// 404 NotFound, 409 AlreadyExists or Aborted (conflict), 410 OutOfRange (expired), 429
// ResourceExhausted, other 5xx Unavailable. The message is the server's own.
absl::Status ToStatus(const HttpResponse& response);

// All of an object but metadata.managedFields, which nobody uses: it has an entry for each label.
const JsonParts& UsedParts();

// What GetPages asks for.
struct ListQuery {
  std::string path{};                    // That of the collection.
  std::string selectors{};               // More of the query; empty, or begins with '&'.
  bool cached = false;                   // The server may answer from its cache.
  int limit = 500;                       // Items of one page.
  const JsonParts& parts = UsedParts();  // What is read of each item.
};

// Called after each request that received a response, for metrics.
using RequestObserver = std::function<void(const std::string& method, int status, Nanos took)>;

// The default limit on the total time of a call, including retries that the server asks for. If the
// server asks to wait longer than the remaining time, the call returns the server's error.
inline constexpr Nanos kCallLimit = std::chrono::seconds(30);

class Client {
 public:
  Client(const Clock& clock, std::shared_ptr<Transport> transport,
         RequestObserver observer = nullptr);

  absl::StatusOr<Json> Get(const std::string& path, Nanos within = kCallLimit);
  // Calls `item` for the items of a list one by one while the answer comes, so that only one of
  // them is in memory; it may move the item out. After an error, what it was called for is not the
  // whole list. `parts`: what is read of each item. Returns the list without its items.
  absl::StatusOr<Json> GetItems(const std::string& path, const std::function<void(Json&)>& item,
                                Nanos within = kCallLimit, const JsonParts& parts = UsedParts());
  // Like GetItems, page by page, each within kCallLimit. A server that answers from its cache may
  // send all items as one page.
  absl::Status GetPages(const ListQuery& query, const std::function<void(Json&)>& item);
  absl::StatusOr<Json> Create(const std::string& path, const Json& object,
                              Nanos within = kCallLimit);
  absl::StatusOr<Json> Replace(const std::string& path, const Json& object,
                               Nanos within = kCallLimit);
  // Applies a merge patch (RFC 7386). Aborted if the patch has a metadata.resourceVersion and the
  // object has changed since.
  absl::StatusOr<Json> MergePatch(const std::string& path, const Json& patch,
                                  Nanos within = kCallLimit);
  // Server-side apply as kFieldManager, with force in case of conflicts.
  absl::StatusOr<Json> Apply(const std::string& path, const Json& object,
                             Nanos within = kCallLimit);
  absl::StatusOr<Json> ApplyYaml(const std::string& path, const std::string& yaml,
                                 Nanos within = kCallLimit);
  absl::Status Delete(const std::string& path, const Json& options = Json::object(),
                      Nanos within = kCallLimit);

  // The API server's time, as its last answer told it; none before the first.
  std::optional<WallTime> ServerTime() const;

  // Ends all waits for retries, now and in the future. For the end of the process.
  void EndWaits() { ending_.Notify(); }
  Transport& transport() { return *transport_; }

 private:
  // Without `pieces`, returns the body.
  absl::StatusOr<std::string> Send(HttpRequest request, Nanos within,
                                   const std::function<bool(std::string_view)>& pieces = nullptr);
  absl::StatusOr<Json> SendJson(HttpRequest request, Nanos within);

  const Clock& clock_;
  const std::shared_ptr<Transport> transport_;
  const RequestObserver observer_;
  std::atomic<std::int64_t> server_less_mono_ns_ = 0;  // 0: not known.
  Stop ending_;
};

inline constexpr char kFieldManager[] = "strobe-operator";

// `attributes` are a SubjectAccessReview's resourceAttributes. An error means that the answer is
// not known.
absl::StatusOr<bool> IsAllowed(Client& client, const Requester& user, Json attributes,
                               Nanos within);

}  // namespace strobe::kube

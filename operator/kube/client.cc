#include "operator/kube/client.h"

#include <algorithm>
#include <utility>

#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/text/json.h"
#include "common/text/safe_text.h"
#include "operator/base/json_fields.h"
#include "operator/base/requester_json.h"
#include "operator/kube/list_slicer.h"

namespace strobe::kube {
namespace {

constexpr int kMaxRetries = 10;

std::string MessageIn(const HttpResponse& response, std::string& reason) {
  const Json status = Json::parse(response.body, nullptr, false);
  if (status.is_object()) {
    reason = TextOf(status, "reason");
    if (std::string message = TextOf(status, "message"); !message.empty()) return message;
  }
  return StrCat("HTTP ", response.status, " ", CutUtf8(response.body, 200));
}

absl::Status NoJson(const HttpRequest& request) {
  return absl::DataLossError(StrCat(request.method, " ", request.path, ": the answer is not JSON"));
}

}  // namespace

const JsonParts& UsedParts() {
  static const JsonParts kParts{.keep = [](const std::vector<std::string>& path) {
    return path.size() != 2 || path[1] != "managedFields" || path[0] != "metadata";
  }};
  return kParts;
}

absl::Status ToStatus(const HttpResponse& response) {
  if (response.status >= 200 && response.status < 300) return absl::OkStatus();
  std::string reason;
  const std::string message = MessageIn(response, reason);
  switch (response.status) {
    case 400:
    case 422:
      return absl::InvalidArgumentError(message);
    case 401:
      return absl::UnauthenticatedError(message);
    case 403:
      return absl::PermissionDeniedError(message);
    case 404:
      return absl::NotFoundError(message);
    case 409:
      return reason == "AlreadyExists" ? absl::AlreadyExistsError(message)
                                       : absl::AbortedError(message);
    case 410:
      return absl::OutOfRangeError(message);
    case 429:
      return absl::ResourceExhaustedError(message);
    default:
      return response.status >= 500 ? absl::UnavailableError(message) : absl::UnknownError(message);
  }
}

Client::Client(const Clock& clock, std::shared_ptr<Transport> transport, RequestObserver observer)
    : clock_(clock), transport_(std::move(transport)), observer_(std::move(observer)) {}

absl::StatusOr<std::string> Client::Send(HttpRequest request, Nanos within,
                                         const std::function<bool(std::string_view)>& pieces) {
  const MonoTime deadline = clock_.MonoNow() + within;
  for (int attempt = 0;; ++attempt) {
    const MonoTime began = clock_.MonoNow();
    if (began >= deadline) {
      return absl::DeadlineExceededError(
          StrCat(request.method, " ", request.path, " got no answer in time"));
    }
    request.timeout = std::min<Nanos>(request.timeout, deadline - began);
    absl::StatusOr<HttpResponse> response =
        pieces ? transport_->Read(request, pieces) : transport_->Unary(request);
    if (!response.ok()) return response.status();
    if (response->date) {
      server_less_mono_ns_ =
          ToUnixNanos(*response->date) - clock_.MonoNow().time_since_epoch().count();
    }
    if (observer_) observer_(request.method, response->status, clock_.MonoNow() - began);
    // Retries only if the server sends Retry-After, because only the server knows its load.
    const bool again = (response->status == 429 || response->status >= 500) &&
                       response->retry_after && attempt < kMaxRetries &&
                       clock_.MonoNow() + *response->retry_after < deadline;
    if (again && !ending_.WaitFor(*response->retry_after)) continue;
    if (const absl::Status status = ToStatus(*response); !status.ok()) return status;
    return std::move(response->body);
  }
}

std::optional<WallTime> Client::ServerTime() const {
  const std::int64_t known = server_less_mono_ns_;
  if (known == 0) return std::nullopt;
  return FromUnixNanos(known + clock_.MonoNow().time_since_epoch().count());
}

absl::StatusOr<Json> Client::SendJson(HttpRequest request, Nanos within) {
  ASSIGN_OR_RETURN(const std::string text, Send(request, within));
  Json object = ReadJson(text, UsedParts());
  if (object.is_discarded()) return NoJson(request);
  return object;
}

absl::StatusOr<Json> Client::GetItems(const std::string& path,
                                      const std::function<void(Json&)>& item, Nanos within,
                                      const JsonParts& parts) {
  const HttpRequest request{.method = "GET", .path = path};
  ListSlicer slicer;
  absl::Status bad;
  const auto take = [&](std::string_view text) {
    Json parsed = ReadJson(text, parts);
    if (!parsed.is_object())
      bad.Update(NoJson(request));
    else if (bad.ok())
      item(parsed);
  };
  const absl::StatusOr<std::string> sent = Send(request, within, [&](std::string_view piece) {
    try {
      bad.Update(slicer.Feed(piece, take));
    } catch (const Json::exception& error) {
      bad.Update(
          absl::DataLossError(StrCat(request.path, ": an object cannot be read: ", error.what())));
    }
    return bad.ok();
  });
  RETURN_IF_ERROR(bad);
  RETURN_IF_ERROR(sent.status());
  Json rest = ReadJson(slicer.rest(), parts);
  if (!rest.is_object()) return NoJson(request);
  return rest;
}

absl::Status Client::GetPages(const ListQuery& query, const std::function<void(Json&)>& item) {
  std::string next;
  do {
    std::string path = StrCat(query.path, "?limit=", query.limit, query.selectors);
    // A page after the first is one of the same list, and its token says of which version.
    if (!next.empty())
      path += StrCat("&continue=", UrlEncode(next));
    else if (query.cached)
      path += "&resourceVersion=0";
    ASSIGN_OR_RETURN(const Json list, GetItems(path, item, kCallLimit, query.parts));
    next = TextOf(Member(list, "metadata"), "continue");
  } while (!next.empty());
  return absl::OkStatus();
}

absl::StatusOr<Json> Client::Get(const std::string& path, Nanos within) {
  return SendJson({.method = "GET", .path = path}, within);
}

absl::StatusOr<Json> Client::Create(const std::string& path, const Json& object, Nanos within) {
  return SendJson({.method = "POST", .path = path, .body = JsonText(object)}, within);
}

absl::StatusOr<Json> Client::Replace(const std::string& path, const Json& object, Nanos within) {
  return SendJson({.method = "PUT", .path = path, .body = JsonText(object)}, within);
}

absl::StatusOr<Json> Client::MergePatch(const std::string& path, const Json& patch, Nanos within) {
  return SendJson({.method = "PATCH",
                   .path = StrCat(path, "?fieldManager=", kFieldManager),
                   .body = JsonText(patch),
                   .content_type = "application/merge-patch+json"},
                  within);
}

absl::StatusOr<Json> Client::Apply(const std::string& path, const Json& object, Nanos within) {
  return ApplyYaml(path, JsonText(object), within);
}

absl::StatusOr<Json> Client::ApplyYaml(const std::string& path, const std::string& yaml,
                                       Nanos within) {
  return SendJson({.method = "PATCH",
                   .path = StrCat(path, "?force=true&fieldManager=", kFieldManager),
                   .body = yaml,
                   .content_type = "application/apply-patch+yaml"},
                  within);
}

absl::Status Client::Delete(const std::string& path, const Json& options, Nanos within) {
  return Send({.method = "DELETE", .path = path, .body = JsonText(options)}, within).status();
}

absl::StatusOr<bool> IsAllowed(Client& client, const Requester& user, Json attributes,
                               Nanos within) {
  // A SubjectAccessReview has the fields of a UserInfo, except for the user's name.
  Json spec = RequesterToJson(user);
  spec["user"] = user.username;
  spec.erase("username");
  spec["resourceAttributes"] = std::move(attributes);
  ASSIGN_OR_RETURN(const Json review,
                   client.Create("/apis/authorization.k8s.io/v1/subjectaccessreviews",
                                 {{"apiVersion", "authorization.k8s.io/v1"},
                                  {"kind", "SubjectAccessReview"},
                                  {"spec", std::move(spec)}},
                                 within));
  try {
    return review.value("status", Json::object()).value("allowed", false);
  } catch (const Json::exception& error) {
    return absl::DataLossError(StrCat("SubjectAccessReview: ", error.what()));
  }
}

}  // namespace strobe::kube

#include "operator/request/notifier.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "common/base/enum_names.h"
#include "common/base/guard.h"
#include "common/base/hash.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/text/json.h"
#include "operator/kube/cpprest_transport.h"
#include "operator/objects/capture_event.h"

namespace strobe::request {
namespace {

constexpr Nanos kTryLimit = std::chrono::seconds(5);
constexpr Nanos kStopLimit = std::chrono::seconds(2);
// The waits between them are 1 s to 64 s long, two minutes in all.
constexpr int kMaxTries = 8;

struct UrlParts {
  std::string server{}, path{};
};

absl::StatusOr<UrlParts> SplitUrl(const std::string& url) {
  const bool secure = url.starts_with("https://");
  if (!secure && !url.starts_with("http://"))
    return absl::InvalidArgumentError(
        StrCat("notify.url \"", url, "\" must begin with https:// or http://"));
  const std::size_t host = secure ? 8 : 7;
  const std::size_t path = std::min(url.find('/', host), url.size());
  if (path == host || url.find('@') < path)
    return absl::InvalidArgumentError(
        StrCat("notify.url must name a host, and no user: \"", url, "\""));
  return UrlParts{url.substr(0, path), path == url.size() ? "/" : url.substr(path)};
}

kube::FileOrData IfThere(const std::string& directory, const char* name) {
  std::error_code error;
  const std::string file = StrCat(directory, "/", name);
  if (directory.empty() || !std::filesystem::exists(file, error)) return {};
  return {.file = file};
}

bool IsDelivered(const absl::StatusOr<kube::HttpResponse>& answer) {
  return answer.ok() && answer->status >= 200 && answer->status < 300;
}

std::string Words(const absl::StatusOr<kube::HttpResponse>& answer) {
  return answer.ok() ? StrCat("HTTP ", answer->status) : MessageOf(answer.status());
}

}  // namespace

std::string_view Name(Notified result) {
  static constexpr EnumNames<Notified, 4> kNames({{Notified::kDelivered, "delivered"},
                                                  {Notified::kRefused, "refused"},
                                                  {Notified::kUndelivered, "undelivered"},
                                                  {Notified::kDropped, "dropped"}});
  return kNames.Of(result);
}

std::string WebhookSignature(std::string_view key, std::string_view id, std::int64_t seconds,
                             std::string_view body) {
  constexpr std::string_view kEncoded = "whsec_";
  std::string secret(key);
  if (key.starts_with(kEncoded) &&
      !absl::Base64Unescape(ToAbsl(key.substr(kEncoded.size())), &secret))
    secret = key;
  const std::string code = HmacSha256(secret, StrCat(id, ".", seconds, ".", body));
  return StrCat("v1,", absl::Base64Escape(absl::HexStringToBytes(code)));
}

std::optional<Nanos> RetryDelay(int tries, const absl::StatusOr<kube::HttpResponse>& answer) {
  if (IsDelivered(answer) || tries >= kMaxTries) return std::nullopt;
  const int status = answer.ok() ? answer->status : 0;
  const bool passes =
      status == 0 || status == 408 || status == 425 || status == 429 || status >= 500;
  if (!passes) return std::nullopt;
  const Nanos wait = std::chrono::seconds(1 << (tries - 1));
  return answer.ok() ? std::max(wait, answer->retry_after.value_or(Nanos{0})) : wait;
}

absl::StatusOr<Receiver> MakeReceiver(const Clock& clock, const std::string& url,
                                      const std::string& directory) {
  ASSIGN_OR_RETURN(UrlParts place, SplitUrl(url));
  kube::Credentials credentials;
  credentials.server = place.server;
  credentials.token = IfThere(directory, "token");
  credentials.ca = IfThere(directory, "ca.crt");
  if (!credentials.token.empty() && !place.server.starts_with("https://"))
    return absl::InvalidArgumentError(StrCat("notify.url must begin with https://, because ",
                                             directory, "/token would be sent in the clear"));
  Receiver receiver{.path = std::move(place.path),
                    .signing_key = IfThere(directory, "signing-key")};
  ASSIGN_OR_RETURN(receiver.transport, kube::MakeCpprestTransport(clock, std::move(credentials)));
  return receiver;
}

Notifier::Notifier(const Clock& clock, Receiver receiver, std::string source, OnNotified told)
    : clock_(clock),
      receiver_(std::move(receiver)),
      source_(std::move(source)),
      on_notified_(std::move(told)),
      thread_([this] { RunThread("notify", [this] { Run(); }); }) {}

Notifier::~Notifier() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
    give_up_ = clock_.MonoNow() + kStopLimit;
  }
  thread_.join();
  MutexLock lock(&mutex_);
  for (std::size_t left = queue_.size(); left > 0; --left) on_notified_(Notified::kDropped);
}

void Notifier::NotifyEnd(const objects::ProfileRequest& request,
                         const objects::RequestStatus& status, CaptureEnd end) {
  const auto compose = receiver_.grafana ? objects::GrafanaAnnotation : objects::CaptureEvent;
  Send(request.ns, objects::CaptureEventId(request),
       JsonText(compose(request, status, strobe::request::Name(end), source_, clock_.WallNow())));
}

void Notifier::Send(const std::string& ns, std::string id, std::string body) {
  MutexLock lock(&mutex_);
  if (stopping_ || !queue_.Push(ns, clock_.MonoNow(), {ns, std::move(id), std::move(body)}))
    on_notified_(Notified::kDropped);
}

void Notifier::Run() {
  while (std::optional<Pending> event = Next())
    (void)RunGuarded("notify", [&] { Try(*std::move(event)); });
}

std::optional<Notifier::Pending> Notifier::Next() {
  constexpr Nanos kLong = std::chrono::hours(1);
  MutexLock lock(&mutex_);
  while (true) {
    const MonoTime now = clock_.MonoNow();
    if (stopping_ && (queue_.empty() || now >= give_up_)) return std::nullopt;
    if (std::optional<Pending> event = queue_.Pop(stopping_ ? MonoTime::max() : now)) return event;
    const MonoTime due = queue_.due().value_or(now + kLong);
    const auto is_due = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return stopping_ || queue_.due().value_or(due) < due;
    };
    mutex_.AwaitFor(due - now, is_due);
  }
}

void Notifier::Try(Pending event) {
  ++event.tries;
  kube::HttpRequest post{
      .method = "POST",
      .path = receiver_.path,
      .body = event.body,
      .content_type = receiver_.grafana ? "application/json" : "application/cloudevents+json",
      .timeout = kTryLimit};
  absl::StatusOr<kube::HttpResponse> answer = absl::UnavailableError("");
  const absl::StatusOr<std::string> key = receiver_.signing_key.empty()
                                              ? absl::StatusOr<std::string>("")
                                              : receiver_.signing_key.Read();
  if (key.ok()) {
    const std::int64_t seconds = ToUnixNanos(clock_.WallNow()) / 1'000'000'000;
    const std::string_view trimmed = ToStd(absl::StripTrailingAsciiWhitespace(*key));
    post.headers = {{"webhook-id", event.id}, {"webhook-timestamp", StrCat(seconds)}};
    if (!trimmed.empty())
      post.headers["webhook-signature"] = WebhookSignature(trimmed, event.id, seconds, event.body);
    answer = receiver_.transport->Unary(post);
  } else {
    answer = key.status();  // The Secret may be being replaced, and nothing is sent unsigned.
  }
  if (IsDelivered(answer)) return on_notified_(Notified::kDelivered);
  const std::optional<Nanos> wait = RetryDelay(event.tries, answer);
  if (!wait) {
    LogWarning("the end of a capture was not told to notify.url",
               {{"event", event.id}, {"answer", Words(answer)}, {"tries", StrCat(event.tries)}});
    return on_notified_(RetryDelay(1, answer) ? Notified::kUndelivered : Notified::kRefused);
  }
  MutexLock lock(&mutex_);
  const std::string ns = event.ns;
  if (stopping_ || !queue_.Push(ns, clock_.MonoNow() + *wait, std::move(event)))
    on_notified_(Notified::kDropped);
}

}  // namespace strobe::request

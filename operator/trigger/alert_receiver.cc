#include "operator/trigger/alert_receiver.h"

#include <algorithm>
#include <utility>

#include "common/base/enum_names.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "operator/trigger/alert_payload.h"

namespace strobe::trigger {
namespace {

constexpr char kPath[] = "/alerts";
constexpr char kAuthorization[] = "Authorization";
// Bounds the memory in a storm: bodies, and the alerts of the posts that are decided at once, take
// at most 16 MiB together.
constexpr std::int64_t kMaxBodiesAtOnce = std::int64_t{4} << 20;
constexpr int kDecidingThreads = 2;
constexpr std::size_t kMaxWaiting = 8;
constexpr std::size_t kMaxConnections = 64;
// Shorter than the server's own deadline for an answer, and than the 10 s for which Alertmanager
// waits at least.
constexpr Nanos kDecideAlerts = std::chrono::seconds(8);
// Log lines about refused posts.
constexpr double kLinesPerSecond = 0.1, kLineBurst = 10;

// Alertmanager repeats posts that were answered with 5xx, and no others: not even those with 429.
http::Page TryLater(std::string text) {
  return {.status = 503,
          .body = std::move(text),
          .content_type = "text/plain; charset=utf-8",
          .headers = {{"Retry-After", "1"}}};
}

std::string_view ReasonOf(http::HttpRefusal refusal) {
  static constexpr EnumNames<http::HttpRefusal, 5> kNames(
      {{http::HttpRefusal::kHandshake, "handshake"},
       {http::HttpRefusal::kSlow, "slow"},
       {http::HttpRefusal::kTooLong, "too_long"},
       {http::HttpRefusal::kBusy, "busy"},
       {http::HttpRefusal::kCrowded, "crowded"}});
  return kNames.Of(refusal, "busy");
}

}  // namespace

absl::StatusOr<std::unique_ptr<AlertReceiver>> AlertReceiver::Start(
    const Clock& clock, AlertReceiverOptions options, AlertSink& sink,
    AlertReceiverObserver& observer) {
  std::unique_ptr<AlertReceiver> receiver(
      new AlertReceiver(clock, std::move(options), sink, observer));
  RETURN_IF_ERROR(receiver->Listen());
  return receiver;
}

AlertReceiver::AlertReceiver(const Clock& clock, AlertReceiverOptions options, AlertSink& sink,
                             AlertReceiverObserver& observer)
    : clock_(clock),
      options_(std::move(options)),
      sink_(sink),
      observer_(observer),
      limiter_(clock),
      log_lines_(kLinesPerSecond, kLineBurst, clock.MonoNow()) {}

absl::Status AlertReceiver::Listen() {
  if (options_.token_files.empty() && options_.files.client_authority.empty())
    return absl::InvalidArgumentError(
        "alerts are not received: neither a bearer token nor a client authority is configured, so "
        "anyone who can reach the port could start captures");
  if (!options_.token_files.empty()) {
    ASSIGN_OR_RETURN(tokens_, BearerTokens::Read(options_.token_files));
  }
  ASSIGN_OR_RETURN(files_, IdentityFiles::Read(options_.files));
  ASSIGN_OR_RETURN(
      server_,
      http::Server::Start(ServerOptions(),
                          {{kPath, [this](const http::Request& post) { return Take(post); }}}));
  LogInfo("alerts are received", {{"port", StrCat(server_->port())}});
  return absl::OkStatus();
}

http::ServerOptions AlertReceiver::ServerOptions() {
  http::ServerOptions options;
  options.listen = options_.listen;
  options.max_connections = kMaxConnections;
  options.max_body_bytes = kMaxAlertPostBytes;
  options.max_body_bytes_at_once = kMaxBodiesAtOnce;
  options.threads = 2;
  // The sink may wait for the API server. Refusals must not wait for it.
  options.work_of = [](const http::Request&) { return http::Work{http::Load::kWaits}; };
  options.slow = {.threads = kDecidingThreads, .waiting = kMaxWaiting};
  options.identity = files_->identity() != nullptr ? files_->identity() : options_.identity;
  if (!options_.files.client_authority.empty()) {
    options.client_authorities = [this] { return files_->client_authorities(); };
    options.client_names = options_.client_names;
  }
  options.headers = {kAuthorization};
  options.refuse_head = [this](const http::Request& head) { return RefuseHead(head); };
  options.on_refusal = [this](http::HttpRefusal refusal) { CountRefusal(refusal); };
  return options;
}

void AlertReceiver::ReloadFiles() {
  files_->ReadAgain();
  if (tokens_ == nullptr) return;
  const std::string error = MessageOf(tokens_->ReadAgain());
  if (error == reload_error_) return;
  reload_error_ = error;
  if (!error.empty())
    LogError("the bearer tokens for alerts could not be reloaded and stay unchanged",
             {{"error", error}});
}

// Runs before the body is read, so that strangers cost no memory.
std::optional<http::Page> AlertReceiver::RefuseHead(const http::Request& head) {
  const bool one = head.headers.size() == 1;
  if (tokens_ != nullptr && (!one || !tokens_->Accept(head.headers.front().second))) {
    http::Page page = Refuse(head, 401, "token", "the bearer token is missing or wrong");
    page.headers.emplace_back("WWW-Authenticate", "Bearer");
    return page;
  }
  if (head.path != kPath) return Refuse(head, 404, "malformed", "alerts must be posted to /alerts");
  if (head.method != "POST") return Refuse(head, 405, "malformed", "alerts must be sent by POST");
  if (!head.content_type.starts_with("application/json"))
    return Refuse(head, 415, "malformed", "the body must be application/json");
  return std::nullopt;
}

http::Page AlertReceiver::Take(const http::Request& post) {
  http::Page page = TakeBody(post);
  // Refuse() has already counted the refused posts.
  if (page.status < 400) observer_.Answered(page.status);
  return page;
}

http::Page AlertReceiver::TakeBody(const http::Request& post) {
  observer_.Read(post.body.size());
  // One sender must not keep the others out.
  const std::shared_ptr<void> allowed = limiter_.Enter(post.source);
  if (allowed == nullptr) {
    http::Page page = TryLater("");
    page.body = Refuse(post, page.status, "rate", "too many posts from this address").body;
    return page;
  }
  const absl::StatusOr<AlertPayload> payload = ParseAlerts(post.body);
  if (!payload.ok()) return Refuse(post, 400, "malformed", MessageOf(payload.status()));
  observer_.Dropped("truncated", payload->truncated);
  observer_.Dropped("too_many", payload->too_many);
  observer_.Dropped("invalid", payload->invalid);
  observer_.Dropped("annotation", payload->cut);
  if (payload->alerts.empty() && payload->invalid > 0)
    return Refuse(post, 400, "malformed", payload->why_invalid);
  if (payload->invalid > 0 && MayLog())
    LogWarning("some alerts of a post were ignored", {{"source", post.source},
                                                      {"count", StrCat(payload->invalid)},
                                                      {"first", payload->why_invalid}});
  return Decide(payload->alerts);
}

http::Page AlertReceiver::Decide(const std::vector<Alert>& alerts) {
  const absl::Status decided =
      alerts.empty() ? absl::OkStatus() : sink_.Take(alerts, clock_.MonoNow() + kDecideAlerts);
  if (decided.ok()) {
    const auto firing = static_cast<std::size_t>(std::count_if(
        alerts.begin(), alerts.end(), [](const Alert& alert) { return alert.firing; }));
    observer_.Taken(firing, alerts.size() - firing);
    return {200, "ok\n"};
  }
  const int code = absl::IsUnavailable(decided) || absl::IsDeadlineExceeded(decided) ? 503 : 500;
  observer_.Answered(code);
  if (MayLog())
    LogWarning("alerts could not be processed; Alertmanager is asked to send them again",
               {{"error", MessageOf(decided)}});
  http::Page page = TryLater("try again\n");
  page.status = code;
  return page;
}

void AlertReceiver::CountRefusal(http::HttpRefusal refusal) {
  observer_.Refused(ReasonOf(refusal));
  if (refusal == http::HttpRefusal::kTooLong) observer_.Answered(413);
  if (refusal == http::HttpRefusal::kBusy) observer_.Answered(503);
}

http::Page AlertReceiver::Refuse(const http::Request& post, int code, std::string_view reason,
                                 std::string why) {
  observer_.Refused(reason);
  observer_.Answered(code);
  if (MayLog())
    LogWarning("a post of alerts was refused",
               {{"source", post.source}, {"code", StrCat(code)}, {"reason", why}});
  return {code, std::move(why) + "\n"};
}

bool AlertReceiver::MayLog() {
  MutexLock lock(&mutex_);
  log_lines_.Refill(clock_.MonoNow());
  return log_lines_.Take();
}

}  // namespace strobe::trigger

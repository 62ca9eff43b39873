#include "operator/admission/webhooks.h"

#include <algorithm>
#include <atomic>
#include <memory>

#include "common/base/guard.h"
#include "common/base/log.h"
#include "common/base/strings.h"
#include "operator/admission/review.h"
#include "operator/admission/source_limiter.h"
#include "operator/core/names.h"
#include "operator/objects/json_members.h"
#include "operator/objects/request_json.h"
#include "operator/objects/requester_json.h"

namespace strobe {
namespace {

using Json = nlohmann::json;

// Of a review, between the first and the second time that we are asked.
constexpr Nanos kStampLife = std::chrono::minutes(1);
// Less than the API server waits for us.
constexpr Nanos kJudgeLimit = std::chrono::seconds(4);
constexpr char kRequesterPath[] = "/metadata/annotations/strobe.dev~1requester";

std::string NameOf(const AdmissionRequest& request) {
  const Json metadata = request.object.is_object()
                            ? request.object.value("metadata", Json::object())
                            : Json::object();
  const std::string name = request.name.empty() ? metadata.value("generateName", "") : request.name;
  return StrCat(request.space, "/", name);
}

class Webhooks {
 public:
  Webhooks(const Clock& clock, WebhookOptions options, Gatekeeper& gatekeeper,
           WebhookObserver& observer)
      : clock_(clock),
        options_(std::move(options)),
        gatekeeper_(gatekeeper),
        observer_(observer),
        limiter_(clock) {}

  // A pod is never refused: whatever goes wrong here is no reason not to train.
  AdmissionAnswer InjectPod(const AdmissionRequest& request) {
    Injection injection = Inject(request.object, options_.injection, options_.roots());
    const bool unchanged = injection.patch.empty();
    observer_.Injected(request.space, !injection.skipped.empty() ? "skipped"
                                      : unchanged                ? "unchanged"
                                                                 : "injected");
    if (!injection.skipped.empty() || !unchanged) {
      LogInfo(injection.skipped.empty() ? "injected" : "not injected",
              {{"pod", NameOf(request)}, {"reason", injection.skipped}});
    }
    AdmissionAnswer answer;
    for (const std::string& warning : injection.warnings)
      answer.warnings.push_back("strobe: " + warning);
    answer.patch = std::move(injection.patch);
    return answer;
  }

  AdmissionAnswer CheckPod(const AdmissionRequest& request) {
    AdmissionAnswer answer;
    const std::string damage = InjectionDamage(request.object);
    if (damage.empty()) return answer;
    observer_.InjectionDamaged(request.space, damage.substr(0, damage.find(':')));
    LogWarning("an injection did not survive", {{"pod", NameOf(request)}, {"damage", damage}});
    answer.warnings.push_back(
        StrCat("strobe: the injection is ", damage,
               "; another webhook may have changed it. This pod cannot be profiled."));
    return answer;
  }

  // Nobody but us says who asked: on creation it is the one who creates, later it stays.
  AdmissionAnswer StampRequest(const AdmissionRequest& request) {
    AdmissionAnswer answer;
    const Json now = RequesterAnnotation(request.object);
    Json should;
    if (request.operation == "CREATE") {
      const std::vector<std::string> keys = options_.seal_keys();
      if (keys.empty()) return Refusal(500, "who asks cannot be sealed yet; try again");
      const Requester requester = kube::ParseRequester(request.user);
      // Other webhooks may make the API server ask again.
      if (IsOurStamp(request, requester, keys)) return answer;
      should = kube::SealRequester(request.object, request.space, requester, clock_.WallNow(),
                                   keys.front());
    } else {
      should = RequesterAnnotation(request.old_object);
    }
    if (now == should) return answer;
    const Json metadata = request.object.value("metadata", Json::object());
    if (should.is_null()) {
      answer.patch.push_back({{"op", "remove"}, {"path", kRequesterPath}});
      return answer;
    }
    if (!metadata.contains("annotations") || metadata["annotations"].is_null()) {
      answer.patch.push_back(
          {{"op", "add"}, {"path", "/metadata/annotations"}, {"value", Json::object()}});
    }
    answer.patch.push_back({{"op", "add"}, {"path", kRequesterPath}, {"value", should}});
    return answer;
  }

  AdmissionAnswer CheckRequest(const AdmissionRequest& request) {
    // What can be changed later (cancel, ttlAfterFinished) needs no more than the right to update.
    if (request.operation != "CREATE") return {};
    Json object = request.object;
    object["metadata"]["namespace"] = request.space;
    const absl::StatusOr<ProfileRequest> asked = kube::ParseRequest(object);
    if (!asked.ok()) return Refusal(422, Words(asked.status()));
    if (!asked->invalid.empty()) return Refusal(422, asked->invalid);
    const absl::StatusOr<PolicyVerdict> verdict =
        gatekeeper_.Judge(*asked, kube::ParseRequester(request.user), {}, kJudgeLimit);
    if (!verdict.ok()) {
      LogWarning("a request could not be checked", {{"error", Words(verdict.status())}});
      return Refusal(500, "it could not be checked who may do this; try again");
    }
    if (verdict->kind == PolicyVerdict::Kind::kRefused) return Refusal(403, verdict->message);
    AdmissionAnswer answer;
    if (verdict->kind == PolicyVerdict::Kind::kWait)
      answer.warnings.push_back("it will wait: " + verdict->message);
    return answer;
  }

  // May ask the API server: not everybody may have that done, as often as they like.
  strobe::Page LimitedRespond(const Request& asked, bool fail_open,
                              AdmissionAnswer (Webhooks::*answer)(const AdmissionRequest&)) {
    const std::shared_ptr<void> allowed =
        asked.certified ? std::make_shared<bool>(true) : limiter_.Enter(asked.source);
    const Turn turn(judged_, options_.max_judged_at_once);
    // API servers come again after that, within their own timeout.
    if (allowed == nullptr || !turn.mine())
      return {429, "too many at once\n", "text/plain", {{"Retry-After", "1"}}};
    return Respond(asked, fail_open, answer);
  }

  // One who asks `answer` of a review; errors of ours are as the webhook wants them.
  HttpServer::Handler Page(std::string name, bool fail_open, bool costly,
                           AdmissionAnswer (Webhooks::*answer)(const AdmissionRequest&)) {
    return [this, name = std::move(name), fail_open, costly, answer](const Request& asked) {
      const MonoTime began = clock_.MonoNow();
      observer_.Asked(name);
      strobe::Page page{500, "something went wrong here\n"};
      (void)RunGuarded("webhook", [&] {
        page =
            costly ? LimitedRespond(asked, fail_open, answer) : Respond(asked, fail_open, answer);
      });
      observer_.Answered(name, page.status, clock_.MonoNow() - began);
      return page;
    };
  }

 private:
  // One of the few that may wait for the API server, or none.
  class Turn {
   public:
    Turn(std::atomic<int>& taken, int most) : taken_(taken), mine_(taken_.fetch_add(1) < most) {}
    ~Turn() { --taken_; }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    bool mine() const { return mine_; }

   private:
    std::atomic<int>& taken_;
    const bool mine_;
  };

  static Json RequesterAnnotation(const Json& object) {
    return kube::Member(kube::Member(kube::Member(object, "metadata"), "annotations"),
                        kRequesterAnnotation);
  }

  // Whether the annotation that is there is one that we could write now.
  bool IsOurStamp(const AdmissionRequest& request, const Requester& requester,
                  const std::vector<std::string>& keys) const {
    const std::optional<kube::StampedRequester> stamped =
        kube::RequesterOf(request.object, request.space);
    return stamped &&
           kube::RequesterToJson(stamped->requester) == kube::RequesterToJson(requester) &&
           clock_.WallNow() - stamped->admission.at < kStampLife &&
           SealHolds(keys, stamped->admission, stamped->seal);
  }

  static AdmissionAnswer Refusal(int code, std::string message) {
    AdmissionAnswer answer;
    answer.allowed = false;
    answer.code = code;
    answer.message = std::move(message);
    return answer;
  }

  strobe::Page Respond(const Request& asked, bool fail_open,
                       AdmissionAnswer (Webhooks::*answer)(const AdmissionRequest&)) {
    if (asked.method != "POST") return {405, "POST an AdmissionReview\n"};
    if (!asked.content_type.starts_with("application/json"))
      return {415, "the body must be application/json\n"};
    const absl::StatusOr<AdmissionRequest> request = ParseReview(asked.body);
    if (!request.ok()) return {400, Words(request.status()) + "\n"};
    AdmissionAnswer answered;
    try {
      answered = (this->*answer)(*request);
    } catch (const Json::exception& error) {
      LogError("a review could not be answered", {{"error", error.what()}});
      if (fail_open) {
        observer_.Injected(request->space, "failed");
        answered.warnings.push_back("strobe: this pod could not be read and was left as it is");
      } else {
        answered = Refusal(422, "a field has the wrong type");
      }
    }
    return {200, AnswerReview(request->uid, answered), "application/json"};
  }

  const Clock& clock_;
  const WebhookOptions options_;
  Gatekeeper& gatekeeper_;
  WebhookObserver& observer_;
  SourceLimiter limiter_;
  std::atomic<int> judged_{0};
};

}  // namespace

std::map<std::string, HttpServer::Handler> WebhookPages(const Clock& clock, WebhookOptions options,
                                                        Gatekeeper& gatekeeper,
                                                        WebhookObserver& observer) {
  auto webhooks = std::make_shared<Webhooks>(clock, std::move(options), gatekeeper, observer);
  std::map<std::string, HttpServer::Handler> pages;
  const auto add = [&](const char* path, bool fail_open, bool costly,
                       AdmissionAnswer (Webhooks::*answer)(const AdmissionRequest&)) {
    // The handler keeps them all alive.
    pages[path] = [webhooks, page = webhooks->Page(path, fail_open, costly, answer)](
                      const Request& request) { return page(request); };
  };
  add("/inject", true, false, &Webhooks::InjectPod);
  add("/check-pod", true, false, &Webhooks::CheckPod);
  add("/stamp-request", false, false, &Webhooks::StampRequest);
  add("/check-request", false, true, &Webhooks::CheckRequest);
  return pages;
}

}  // namespace strobe

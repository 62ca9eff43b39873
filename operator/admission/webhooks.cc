#include "operator/admission/webhooks.h"

#include <algorithm>
#include <array>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "common/base/guard.h"
#include "common/base/log.h"
#include "common/base/mutex.h"
#include "common/base/strings.h"
#include "common/http/source_limiter.h"
#include "operator/admission/creator_review.h"
#include "operator/admission/kube_namespace_limits.h"
#include "operator/admission/review.h"
#include "operator/base/json_fields.h"
#include "operator/base/names.h"
#include "operator/base/namespace_bounds.h"
#include "operator/base/requester_json.h"
#include "operator/objects/request.h"

namespace strobe::admission {
namespace {

struct EntryBound {
  const char* field;
  std::size_t most;
};
constexpr std::array<EntryBound, 4> kEntryBounds = {
    {{"labels", kube::kMaxLabels},
     {"annotations", kube::kMaxAnnotations},
     {"finalizers", kube::kMaxFinalizers},
     {"ownerReferences", kube::kMaxOwnerReferences}}};

using Json = nlohmann::json;

// How long an annotation from an earlier call of the webhook for the same review is accepted.
constexpr Nanos kStampLife = std::chrono::minutes(1);
// Shorter than the API server's timeout for the webhook.
constexpr Nanos kJudgeLimit = std::chrono::seconds(4);
// A pod's creation waits for it. The API server's timeout for the webhook is 5 s, and may be 1 s.
constexpr Nanos kLimitsLimit = std::chrono::milliseconds(800);

// How many reviews of large objects are in memory at once, each with up to twenty times the size of
// its text, and how long another one waits for its turn.
constexpr int kMaxBig = 4;
constexpr Nanos kBigWait = std::chrono::milliseconds(800);

std::string NameOf(const AdmissionRequest& request) {
  const Json metadata = request.object.is_object()
                            ? request.object.value("metadata", Json::object())
                            : Json::object();
  const std::string name = request.name.empty() ? metadata.value("generateName", "") : request.name;
  return StrCat(request.ns, "/", name);
}

class Webhooks {
 public:
  Webhooks(const Clock& clock, WebhookOptions options, access::Gatekeeper& gatekeeper,
           WebhookObserver& observer, KubeNamespaceLimits* limits)
      : clock_(clock),
        options_(std::move(options)),
        gatekeeper_(gatekeeper),
        observer_(observer),
        limits_(limits),
        limiter_(clock, LimitsOf(options_)) {}

  // Never refuses a pod: an error here must not keep a job from training.
  Answer InjectPod(const AdmissionRequest& request) {
    Injection injection = InjectWithin(request);
    const bool unchanged = injection.patch.empty();
    observer_.Injected(request.ns, !injection.skipped.empty() ? "skipped"
                                   : unchanged                ? "unchanged"
                                                              : "injected");
    if (!injection.skipped.empty() || !unchanged) {
      LogInfo(injection.skipped.empty() ? "injected" : "not injected",
              {{"pod", NameOf(request)}, {"reason", injection.skipped}});
    }
    Answer answer;
    for (const std::string& warning : injection.warnings)
      answer.warnings.push_back("strobe: " + warning);
    answer.patch = std::move(injection.patch);
    return answer;
  }

  Answer CheckPod(const AdmissionRequest& request) {
    Answer answer;
    const std::string damage = InjectionDamage(request.object);
    if (damage.empty()) return answer;
    observer_.InjectionDamaged(request.ns, damage.substr(0, damage.find(':')));
    LogWarning("the injection of a pod was removed or modified",
               {{"pod", NameOf(request)}, {"damage", damage}});
    answer.warnings.push_back(
        StrCat("strobe: the injection is ", damage,
               "; another webhook may have changed it. This pod cannot be profiled."));
    return answer;
  }

  // Writes the requester's annotation: on creation, the user who creates the object; on update, the
  // old value.
  Answer StampRequest(const AdmissionRequest& request) {
    Json should;
    if (request.operation == "CREATE") {
      const std::vector<std::string> keys = options_.seal_keys();
      if (keys.empty()) return Refusal(500, "the requester cannot be sealed yet; try again");
      const kube::Requester requester = kube::ParseRequester(request.user);
      // Other webhooks may make the API server call again.
      if (IsOurStamp(request, requester, keys)) return {};
      should = kube::SealRequester(request.object, request.ns, requester, clock_.WallNow(),
                                   keys.front());
    } else {
      should = RequesterAnnotation(request.old_object);
    }
    return SetRequesterAnnotation(request.object, should);
  }

  // Fills in the logdir of a request that names none, before the request is stamped and checked.
  Answer DefaultRequest(const AdmissionRequest& request) {
    Answer answer;
    const Json& spec = kube::Member(request.object, "spec");
    // A spec of a wrong type is left to the schema.
    if (request.operation != "CREATE" || !spec.is_object() ||
        !kube::Member(spec, "logdir").is_null())
      return answer;
    const absl::StatusOr<std::string> logdir = gatekeeper_.LogdirFor(request.ns, kJudgeLimit);
    if (absl::IsNotFound(logdir.status()) || absl::IsFailedPrecondition(logdir.status()))
      return Refusal(422, MessageOf(logdir.status()));
    if (!logdir.ok()) {
      LogWarning("the logdir of a request is not known", {{"error", MessageOf(logdir.status())}});
      return Refusal(500, "the default of spec.logdir could not be read; give it, or try again");
    }
    answer.patch.push_back({{"op", "add"}, {"path", "/spec/logdir"}, {"value", *logdir}});
    return answer;
  }

  Answer CheckRequest(const AdmissionRequest& request) {
    // Fields that may change later (cancel, ttlAfterFinished) require only the right to update.
    if (request.operation != "CREATE") return {};
    if (Answer size = CheckSize(request); !size.allowed) return size;
    if (const std::string full = gatekeeper_.WhyNoMoreRequests(request.ns); !full.empty())
      return Refusal(403, full);
    Json object = request.object;
    object["metadata"]["namespace"] = request.ns;
    const absl::StatusOr<objects::ProfileRequest> asked = objects::ParseRequest(object);
    if (!asked.ok()) return Refusal(422, MessageOf(asked.status()));
    if (!asked->invalid.empty()) return Refusal(422, asked->invalid);
    const absl::StatusOr<policy::Verdict> verdict =
        gatekeeper_.Judge(*asked, kube::ParseRequester(request.user), {}, kJudgeLimit);
    if (!verdict.ok()) {
      LogWarning("a request could not be checked", {{"error", MessageOf(verdict.status())}});
      return Refusal(500, "the permission to create it could not be checked; try again");
    }
    if (verdict->kind == policy::Verdict::Kind::kRefused) return Refusal(403, verdict->message);
    Answer answer;
    if (verdict->kind == policy::Verdict::Kind::kWait)
      answer.warnings.push_back("the request will wait: " + verdict->message);
    return answer;
  }

  // Asked about all creations, and about changes after which there is too much.
  Answer CheckSize(const AdmissionRequest& request) {
    const std::string why = WhyTooManyEntries(request.object, request.old_object);
    return why.empty() ? Answer() : Refusal(422, why);
  }

  template <kube::CreatorKind kind>
  Answer Stamp(const AdmissionRequest& request) {
    return StampCreator(kind, request, options_.seal_keys(), clock_.WallNow());
  }

  template <kube::CreatorKind kind>
  Answer Check(const AdmissionRequest& request) {
    if (Answer size = CheckSize(request); !size.allowed) return size;
    return CheckCreator(kind, request, gatekeeper_, kJudgeLimit);
  }

  // Returns a page that answers a review with `answer`. On an internal error it allows the object
  // if `fail_open` is set.
  http::Server::Handler Page(std::string name, bool fail_open, bool costly,
                             Answer (Webhooks::*answer)(const AdmissionRequest&)) {
    return [this, name = std::move(name), fail_open, costly, answer](const http::Request& asked) {
      const MonoTime began = clock_.MonoNow();
      observer_.CountCall(name);
      http::Page page{500, "internal error\n"};
      (void)RunGuarded("webhook", [&] { page = Respond(asked, fail_open, costly, answer); });
      observer_.Answered(name, page.status, clock_.MonoNow() - began);
      return page;
    };
  }

 private:
  static http::SourceLimiter::Limits LimitsOf(const WebhookOptions& options) {
    http::SourceLimiter::Limits limits;
    limits.at_once = limits.all_at_once = options.max_judged_at_once;
    return limits;
  }

  Injection InjectWithin(const AdmissionRequest& request) {
    Injection skipped;
    skipped.skipped = WhyNotInjected(request.object);
    if (!skipped.skipped.empty()) return skipped;
    InjectionContext context{
        .roots = options_.roots(),
        .limits = {},
        .seed = request.uid,
        .enrollment_address = options_.enrollment_address ? options_.enrollment_address() : ""};
    std::string unknown;
    if (limits_ != nullptr) {
      const auto limits = limits_->Read(request.ns, kLimitsLimit, request.caller);
      if (limits.ok())
        context.limits = **limits;
      else
        unknown = MessageOf(limits.status());
    }
    // The warning below reaches only the pod's creator, often a controller, so it is logged too.
    if (!context.limits.users_differ.empty())
      LogWarning("policies disagree", {{"reason", context.limits.users_differ}});
    Injection injection = Inject(request.object, options_.injection, context);
    if (!unknown.empty() && !injection.patch.empty()) {
      LogWarning("the namespace's limits are not known",
                 {{"pod", NameOf(request)}, {"error", unknown}});
      injection.warnings.emplace_back(
          "the namespace's ResourceQuotas, LimitRanges and ProfilePolicies could not be read; if "
          "one of them demands a CPU limit or bounds memory, the pod may be refused, and the "
          "sidecar does not run as the user of a policy");
    }
    return injection;
  }

  // True if the annotation is one that the webhook could write now.
  bool IsOurStamp(const AdmissionRequest& request, const kube::Requester& requester,
                  const std::vector<std::string>& keys) const {
    const std::optional<kube::StampedRequester> stamped =
        kube::RequesterOf(request.object, request.ns);
    return stamped && stamped->creator.empty() &&
           kube::RequesterToJson(stamped->requester) == kube::RequesterToJson(requester) &&
           clock_.WallNow() - stamped->admission.at < kStampLife &&
           kube::SealHolds(keys, stamped->admission, stamped->seal);
  }

  // For webhooks that call the API server: limits the rate and the concurrency per client. All
  // namespaces' objects come from the API server's address, so each has a part of it.
  std::shared_ptr<void> EnterCostly(const http::Request& asked, const std::string& ns) {
    return asked.certified ? limiter_.EnterKnown(ns) : limiter_.Enter(asked.source, ns);
  }

  // API servers retry after this time, within their own timeout.
  static http::Page Later() {
    return {.status = 429,
            .body = "too many at once\n",
            .content_type = "text/plain",
            .headers = {{"Retry-After", "1"}}};
  }

  // Lets few large reviews be in memory at once. Null if there is no turn for it soon.
  std::shared_ptr<void> EnterBig() {
    MutexLock lock(&big_mutex_);
    if (!big_mutex_.AwaitFor(kBigWait, [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(big_mutex_) {
          return big_ < kMaxBig;
        }))
      return nullptr;
    ++big_;
    return std::shared_ptr<void>(this, [this](void*) {
      MutexLock leaving(&big_mutex_);
      --big_;
    });
  }

  http::Page Respond(const http::Request& asked, bool fail_open, bool costly,
                     Answer (Webhooks::*answer)(const AdmissionRequest&)) {
    if (asked.method != "POST") return {405, "POST an AdmissionReview\n"};
    if (!asked.content_type.starts_with("application/json"))
      return {415, "the body must be application/json\n"};
    const bool is_big = asked.body.size() >= kBigReviewBytes;
    const std::shared_ptr<void> entered = is_big ? EnterBig() : nullptr;
    if (is_big && entered == nullptr) return Later();
    absl::StatusOr<AdmissionRequest> request = ParseReview(asked.body);
    if (!request.ok()) return {400, MessageOf(request.status()) + "\n"};
    request->caller = http::NetworkOf(asked.source);
    const std::shared_ptr<void> allowed = costly ? EnterCostly(asked, request->ns) : nullptr;
    if (costly && allowed == nullptr) return Later();
    Answer answered;
    try {
      answered = (this->*answer)(*request);
    } catch (const Json::exception& error) {
      LogError("a review could not be answered", {{"error", error.what()}});
      if (fail_open) {
        observer_.Injected(request->ns, "failed");
        answered.warnings.push_back("strobe: this pod could not be read and was not changed");
      } else {
        answered = Refusal(422, "a field has the wrong type");
      }
    }
    return {200, AnswerReview(request->uid, answered), "application/json"};
  }

  const Clock& clock_;
  const WebhookOptions options_;
  access::Gatekeeper& gatekeeper_;
  WebhookObserver& observer_;
  KubeNamespaceLimits* const limits_;
  http::SourceLimiter limiter_;
  Mutex big_mutex_;
  int big_ ABSL_GUARDED_BY(big_mutex_) = 0;
};

}  // namespace

std::string WhyTooManyEntries(const nlohmann::json& object, const nlohmann::json& before) {
  const nlohmann::json& metadata = kube::Member(object, "metadata");
  const nlohmann::json& former = kube::Member(before, "metadata");
  for (const auto& [field, most] : kEntryBounds) {
    const std::size_t count = kube::Member(metadata, field).size();
    if (count > most && count > kube::Member(former, field).size())
      return StrCat("metadata.", field, " has ", count, " entries, and may have ", most);
  }
  return "";
}

std::map<std::string, http::Server::Handler> WebhookPages(const Clock& clock,
                                                          WebhookOptions options,
                                                          access::Gatekeeper& gatekeeper,
                                                          WebhookObserver& observer,
                                                          KubeNamespaceLimits* limits) {
  auto webhooks =
      std::make_shared<Webhooks>(clock, std::move(options), gatekeeper, observer, limits);
  std::map<std::string, http::Server::Handler> pages;
  struct Review {
    const char* path;
    Answer (Webhooks::*answer)(const AdmissionRequest&);
    bool fail_open = false, costly = false;
  };
  for (const Review& review : {
           Review{.path = "/inject", .answer = &Webhooks::InjectPod, .fail_open = true},
           Review{.path = "/check-pod", .answer = &Webhooks::CheckPod, .fail_open = true},
           Review{.path = "/stamp-request", .answer = &Webhooks::StampRequest},
           Review{.path = "/default-request", .answer = &Webhooks::DefaultRequest, .costly = true},
           Review{.path = "/check-request", .answer = &Webhooks::CheckRequest, .costly = true},
           Review{.path = "/check-size", .answer = &Webhooks::CheckSize},
           Review{.path = "/stamp-schedule",
           .answer = &Webhooks::Stamp<kube::CreatorKind::kSchedule>},
           Review{.path = "/check-schedule",
           .answer = &Webhooks::Check<kube::CreatorKind::kSchedule>,
           .costly = true},
           Review{.path = "/stamp-trigger",
           .answer = &Webhooks::Stamp<kube::CreatorKind::kTrigger>},
           Review{.path = "/check-trigger",
           .answer = &Webhooks::Check<kube::CreatorKind::kTrigger>,
           .costly = true},
       }) {
    // Every handler keeps the webhooks alive.
    pages[review.path] = [webhooks, page = webhooks->Page(review.path, review.fail_open,
                                                          review.costly, review.answer)](
                             const http::Request& request) { return page(request); };
  }
  return pages;
}

}  // namespace strobe::admission

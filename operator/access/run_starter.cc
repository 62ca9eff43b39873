#include "operator/access/run_starter.h"

#include <algorithm>
#include <utility>

#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "operator/base/json_fields.h"
#include "operator/base/names.h"
#include "operator/base/namespace_bounds.h"
#include "operator/base/requester_json.h"
#include "operator/objects/request.h"
#include "operator/objects/run_template.h"

namespace strobe::access {
namespace {

constexpr char kNameTaken[] = "NameTaken";
// How often KeepSealed looks at a creator, which only reads memory. After a key has been replaced
// it holds for about the lifetime of a certificate at least (CheckAuthorityRules); for four months
// by default.
constexpr Nanos kSealCheck = std::chrono::minutes(10);
// All creators' seals become old at once. A creator that has to wait looks again after as long as
// the burst takes to come back.
constexpr double kSealsPerSecond = 1, kSealBurst = 10;
constexpr Nanos kSealWait = std::chrono::seconds(10);

std::string AnnotationOf(const kube::Json& object, const char* name) {
  return kube::TextOf(kube::Member(kube::Member(object, "metadata"), "annotations"), name);
}

// Whether the seal of a creator or run is valid, but by a key that will be given up.
template <typename Stamped>
bool IsSealedByOldKey(const Stamped& stamped, const std::vector<std::string>& keys) {
  return !keys.empty() && !kube::SealHolds({keys.data(), 1}, stamped.admission, stamped.seal) &&
         kube::SealHolds(keys, stamped.admission, stamped.seal);
}

kube::Json StampPatch(const std::string& version, const std::string& stamp) {
  return {{"metadata",
           {{"resourceVersion", version}, {"annotations", {{kube::kRequesterAnnotation, stamp}}}}}};
}

}  // namespace

RunStarter::RunStarter(Dependencies dependencies)
    : deps_(std::move(dependencies)), seals_(kSealsPerSecond, kSealBurst, deps_.clock.MonoNow()) {}

absl::StatusOr<std::optional<kube::Json>> RunStarter::SealAgain(const kube::RunCreator& creator,
                                                                const kube::Json& object) {
  if (deps_.gatekeeper == nullptr) return std::nullopt;
  const std::vector<std::string> keys = deps_.seal_keys();
  if (keys.empty()) return absl::UnavailableError("there are no keys for seals yet");
  if (!IsSealedByOldKey(creator, keys)) return std::nullopt;
  return Seal(creator, object, keys.front());
}

absl::StatusOr<std::optional<kube::Json>> RunStarter::Seal(const kube::RunCreator& creator,
                                                           const kube::Json& object,
                                                           const std::string& key) {
  ASSIGN_OR_RETURN(const std::string why, deps_.gatekeeper->WhyNotAdmitted(creator));
  if (!why.empty()) return std::nullopt;
  return deps_.client.MergePatch(
      objects::CreatorPath(creator.kind, creator.ns, creator.name),
      StampPatch(creator.resource_version, kube::SealAdmitted(creator, object, key)));
}

std::optional<Nanos> RunStarter::KeepSealed(const kube::RunCreator& creator,
                                            kube::WrittenObjects& creators) {
  if (deps_.gatekeeper == nullptr) return std::nullopt;
  // The version that `creator` has is an old one if its status has been written.
  const kube::Object object = creators.Get(StrCat(creator.ns, "/", creator.name));
  if (object == nullptr) return std::nullopt;
  const absl::StatusOr<kube::RunCreator> stored = objects::ParseCreator(creator.kind, *object);
  if (!stored.ok()) return std::nullopt;
  const std::vector<std::string> keys = deps_.seal_keys();
  if (stored->admitted && !IsSealedByOldKey(*stored, keys)) return KeepRunsSealed(*stored, keys);
  if (keys.empty() || !WhyNotAdmitted(*stored).empty()) return kSealCheck;
  if (!MaySeal()) return kSealWait;
  absl::StatusOr<std::optional<kube::Json>> sealed = Seal(*stored, *object, keys.front());
  // It has changed or is gone; the watch tells.
  if (absl::IsAborted(sealed.status()) || absl::IsNotFound(sealed.status())) return kSealWait;
  if (!sealed.ok()) {
    // This is no error of the caller, because runs must be started and statuses written meanwhile.
    LogWarning(StrCat("a ", kube::NounOf(creator.kind), " cannot be sealed again"),
               {{kube::NounOf(creator.kind), StrCat(creator.ns, "/", creator.name)},
                {"error", MessageOf(sealed.status())}});
  } else if (*sealed) {
    creators.Remember(stored->resource_version, **std::move(sealed));
  }
  return kSealCheck;
}

// Kept runs outlive keys too, and what is not proved to be a run is neither counted nor removed.
Nanos RunStarter::KeepRunsSealed(const kube::RunCreator& creator,
                                 const std::vector<std::string>& keys) {
  if (keys.size() < 2) return kSealCheck;
  for (const kube::Object& run : RunsOf(creator)) {
    const std::optional<kube::StampedRequester> stamped = kube::RequesterOf(*run, creator.ns);
    if (!stamped || !IsSealedByOldKey(*stamped, keys)) continue;
    if (!MaySeal()) return kSealWait;
    const kube::Json& metadata = kube::Member(*run, "metadata");
    const absl::Status sealed =
        deps_.client
            .MergePatch(objects::RequestPath(creator.ns, kube::TextOf(metadata, "name")),
                        StampPatch(kube::TextOf(metadata, "resourceVersion"),
                                   kube::Resealed(AnnotationOf(*run, kube::kRequesterAnnotation),
                                                  stamped->admission, keys.front())))
            .status();
    if (!sealed.ok() && !absl::IsAborted(sealed) && !absl::IsNotFound(sealed)) {
      LogWarning("a run cannot be sealed again",
                 {{"request", StrCat(creator.ns, "/", kube::TextOf(metadata, "name"))},
                  {"error", MessageOf(sealed)}});
    }
  }
  return kSealCheck;
}

bool RunStarter::MaySeal() {
  MutexLock lock(&mutex_);
  seals_.Refill(deps_.clock.MonoNow());
  return seals_.Take();
}

std::string RunStarter::CreatorOf(const kube::Json& request, const std::string& claimed) const {
  return deps_.gatekeeper == nullptr ? claimed : kube::SealedCreatorOf(request, deps_.seal_keys());
}

bool RunStarter::IsRunOf(const kube::RunCreator& creator, const kube::Json& request) const {
  return objects::SaysItIsRunOf(request, creator.uid) &&
         CreatorOf(request, creator.uid) == creator.uid;
}

std::vector<kube::Object> RunStarter::RunsOf(const kube::RunCreator& creator) const {
  std::vector<kube::Object> runs = deps_.requests.InNamespace(creator.ns);
  std::erase_if(runs, [&](const kube::Object& request) { return !IsRunOf(creator, *request); });
  return runs;
}

std::string RunStarter::WhyNotAdmitted(const kube::RunCreator& creator) {
  if (deps_.gatekeeper == nullptr || deps_.seal_keys().empty()) return "";
  absl::StatusOr<std::string> why = deps_.gatekeeper->WhyNotAdmitted(creator);
  return why.ok() ? *std::move(why) : "";
}

RunStarter::MaybeRefusal RunStarter::Start(const kube::RunCreator& creator, kube::Json& run,
                                           Nanos within) {
  const MonoTime until = deps_.clock.MonoNow() + within;
  if (std::optional<kube::RunRefusal> refusal = WhyTooMany(creator, run["metadata"]["name"]))
    return refusal;
  if (deps_.gatekeeper == nullptr) return Create(creator, run, until);
  const std::string usual = run["metadata"]["name"];
  while (true) {
    ASSIGN_OR_RETURN(std::optional<kube::RunRefusal> refusal, Admit(creator, until, run));
    if (refusal) return refusal;
    MaybeRefusal created = Create(creator, run, until);
    // After an error the run may have been created all the same, so it stays counted; it is tried
    // again by the same name.
    if (!created.ok() || !*created) return created;
    const std::string name = run["metadata"]["name"];
    deps_.gatekeeper->ForgetRun(creator.ns, name);
    const std::vector<std::string> keys = deps_.seal_keys();
    if ((*created)->reason != kNameTaken || name != usual || keys.empty()) return created;
    run["metadata"]["name"] = kube::OtherRunName(usual, creator, keys.front());
  }
}

// Anybody can label a request as a run, so they are looked at where there are many.
std::size_t RunStarter::OpenRunsIn(const std::string& ns) const {
  const std::size_t labelled = deps_.requests.UseOf(ns).automatic;
  if (labelled < kube::kMaxOpenRuns) return labelled;
  const std::vector<kube::Object> requests = deps_.requests.InNamespace(ns);
  const auto is_open_run = [this](const kube::Object& request) {
    const std::optional<kube::CreatedRun> run = objects::ParseAutomaticRun(*request);
    return run && run->state == kube::RunState::kUnfinished &&
           !CreatorOf(*request, run->name).empty();
  };
  return static_cast<std::size_t>(std::count_if(requests.begin(), requests.end(), is_open_run));
}

// A run that exists was started before, and this is another try.
std::optional<kube::RunRefusal> RunStarter::WhyTooMany(const kube::RunCreator& creator,
                                                       const std::string& name) const {
  const std::string& ns = creator.ns;
  const kube::Object present = deps_.requests.Get(StrCat(ns, "/", name));
  if (present != nullptr && IsRunOf(creator, *present)) return std::nullopt;
  if (const std::size_t open = OpenRunsIn(ns); open >= kube::kMaxOpenRuns) {
    return kube::RunRefusal{"TooManyRuns", StrCat("namespace ", ns, " has ", open,
                                                  " runs of schedules and triggers that have not "
                                                  "finished, which is the maximum")};
  }
  if (deps_.gatekeeper == nullptr) return std::nullopt;
  std::string full = deps_.gatekeeper->WhyNoMoreRequests(ns);
  if (full.empty()) return std::nullopt;
  return kube::RunRefusal{"TooManyRequests", std::move(full)};
}

// Judges and completes the run as the webhooks do for a request: they skip requests that the
// operator creates.
RunStarter::MaybeRefusal RunStarter::Admit(const kube::RunCreator& creator, MonoTime until,
                                           kube::Json& run) {
  const auto left = [&] { return until - deps_.clock.MonoNow(); };
  ASSIGN_OR_RETURN(std::string unknown, deps_.gatekeeper->WhyNotAdmitted(creator));
  if (!unknown.empty() || !creator.requester)
    return kube::RunRefusal{kube::kNotAdmitted, std::move(unknown)};
  if (kube::Member(run["spec"], "logdir").is_null()) {
    absl::StatusOr<std::string> logdir = deps_.gatekeeper->LogdirFor(creator.ns, left());
    if (absl::IsNotFound(logdir.status()) || absl::IsFailedPrecondition(logdir.status()))
      return kube::RunRefusal{"NoLogdir", MessageOf(logdir.status())};
    RETURN_IF_ERROR(logdir.status());
    run["spec"]["logdir"] = *std::move(logdir);
  }
  ASSIGN_OR_RETURN(const objects::ProfileRequest request, objects::ParseRequest(run));
  if (!request.invalid.empty()) return kube::RunRefusal{"InvalidSpec", request.invalid};
  const std::vector<std::string> keys = deps_.seal_keys();
  if (keys.empty()) return absl::UnavailableError("there are no keys for seals yet");
  ASSIGN_OR_RETURN(RunVerdict judged, deps_.gatekeeper->JudgeRun(request, creator, left()));
  if (judged.verdict.kind == policy::Verdict::Kind::kRefused)
    return kube::RunRefusal{"NotAllowed", std::move(judged.verdict.message)};
  if (judged.verdict.kind == policy::Verdict::Kind::kUsedUp)
    return kube::RunRefusal{policy::kPolicyBudget, std::move(judged.verdict.message)};
  if (judged.counted) objects::KeepForBudgets(run);
  run["metadata"]["annotations"][kube::kRequesterAnnotation] = kube::SealRequester(
      run, creator.ns, *creator.requester, deps_.clock.WallNow(), keys.front(), creator.uid);
  return std::nullopt;
}

RunStarter::MaybeRefusal RunStarter::Create(const kube::RunCreator& creator, const kube::Json& run,
                                            MonoTime until) {
  const auto left = [&] { return until - deps_.clock.MonoNow(); };
  const absl::Status created =
      deps_.client.Create(objects::RequestsPath(creator.ns), run, left()).status();
  if (created.ok()) return std::nullopt;
  const std::string name = run["metadata"]["name"];
  if (absl::IsAlreadyExists(created)) {
    ASSIGN_OR_RETURN(const kube::Json present,
                     deps_.client.Get(objects::RequestPath(creator.ns, name), left()));
    if (IsRunOf(creator, present) && AnnotationOf(present, kube::kTriggeredJobAnnotation) ==
                                         AnnotationOf(run, kube::kTriggeredJobAnnotation))
      return std::nullopt;
    return kube::RunRefusal{kNameTaken, StrCat("there is another ProfileRequest ", name)};
  }
  // Another try would fail too: the schema, a quota or the operator's rights forbid the run.
  if (absl::IsInvalidArgument(created) || absl::IsPermissionDenied(created) ||
      absl::IsNotFound(created))
    return kube::RunRefusal{"CreateFailed", MessageOf(created)};
  return created;
}

absl::Status RunStarter::Delete(const kube::RunCreator& creator, const kube::CreatedRun& run) {
  const absl::Status status = deps_.client.Delete(objects::RequestPath(creator.ns, run.name),
                                                  {{"preconditions", {{"uid", run.uid}}}});
  return absl::IsNotFound(status) ? absl::OkStatus() : status;
}

void RunStarter::RecordEvent(const kube::RunCreator& creator, bool warning,
                             const std::string& reason, const std::string& action,
                             const std::string& note) {
  deps_.events.Record(
      {{kube::kApiVersion, objects::KindName(creator.kind), creator.ns, creator.name, creator.uid},
       warning,
       reason,
       action,
       note});
}

}  // namespace strobe::access

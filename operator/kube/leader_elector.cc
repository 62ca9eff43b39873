#include "operator/kube/leader_elector.h"

#include <algorithm>
#include <chrono>
#include <random>
#include <utility>

#include "common/base/guard.h"
#include "common/base/log.h"
#include "common/base/strings.h"
#include "common/text/json.h"

namespace strobe::kube {
namespace {

constexpr double kJitter = 1.2;
constexpr Nanos kReleaseLimit = std::chrono::seconds(5);

Nanos Jittered(Nanos period) {
  static thread_local std::mt19937_64 random{std::random_device{}()};
  return period + Nanos{std::uniform_int_distribution<Nanos::rep>(
                      0, static_cast<Nanos::rep>(static_cast<double>(period.count()) *
                                                 (kJitter - 1)))(random)};
}

}  // namespace

absl::Status CheckLeaseOptions(const LeaseOptions& options) {
  if (options.identity.empty()) return absl::InvalidArgumentError("the lease needs an identity");
  if (options.duration <= options.renew_deadline)
    return absl::InvalidArgumentError("lease.duration must be longer than lease.renewDeadline");
  if (options.renew_deadline * 5 <= options.retry_period * 6)
    return absl::InvalidArgumentError(
        "lease.renewDeadline must be longer than 1.2 x lease.retryPeriod");
  if (options.retry_period <= Nanos{0})
    return absl::InvalidArgumentError("lease.retryPeriod must be positive");
  return absl::OkStatus();
}

LeaderElector::LeaderElector(const Clock& clock, Client& client, LeaseOptions options,
                             std::function<void()> lead, std::function<void()> lost)
    : clock_(clock),
      client_(client),
      options_(std::move(options)),
      path_(StrCat("/apis/coordination.k8s.io/v1/namespaces/", options_.ns, "/leases")),
      lead_(std::move(lead)),
      lost_(std::move(lost)) {}

LeaderElector::~LeaderElector() {
  stop_.Notify();
  leads_or_stops_.Notify();
  if (thread_.joinable()) thread_.join();
  if (watchdog_.joinable()) watchdog_.join();
}

void LeaderElector::Start() {
  thread_ = std::thread([this] { RunThread("lease", [this] { Run(); }); });
  watchdog_ = std::thread([this] { RunThread("lease.watchdog", [this] { WatchRenewals(); }); });
}

void LeaderElector::Run() {
  while (!stop_.is_set()) {
    const MonoTime began = clock_.MonoNow();
    const absl::Status renewed = RunGuarded("lease", [this] {
      return TryOnce() ? absl::OkStatus() : absl::UnavailableError("not the leader");
    });
    if (renewed.ok()) {
      renewed_at_ = began.time_since_epoch().count();
      if (!leading_.exchange(true)) {
        LogInfo("leading", {{"identity", options_.identity}});
        leads_or_stops_.Notify();
        lead_();
      }
    }
    // Candidates wait with jitter, so that they do not all compete at the same moment.
    stop_.WaitFor(leading_ ? options_.retry_period : Jittered(options_.retry_period));
  }
}

// Runs on a thread of its own, so that a hanging renewal cannot hide the loss of the lease. It is
// also the first to notice if the whole process was suspended.
void LeaderElector::WatchRenewals() {
  leads_or_stops_.Wait();
  while (!stop_.WaitFor(options_.retry_period / 8)) {
    if (!leading_) continue;
    const MonoTime renewed{Nanos{renewed_at_}};
    if (clock_.MonoNow() - renewed > options_.renew_deadline) {
      LogError("leadership lost: the lease could not be renewed in time",
               {{"identity", options_.identity}});
      lost_();
    }
  }
}

Json LeaderElector::Record(const Json& metadata, int transitions, bool acquired) const {
  const std::string now = FormatRfc3339(clock_.WallNow(), 6);
  Json spec = {{"holderIdentity", options_.identity},
               {"leaseDurationSeconds",
                std::max<std::int64_t>(1, options_.duration / std::chrono::seconds(1))},
               {"renewTime", now},
               {"leaseTransitions", transitions}};
  if (acquired || !lease_.contains("spec"))
    spec["acquireTime"] = now;
  else
    spec["acquireTime"] = lease_["spec"].value("acquireTime", now);
  return {{"apiVersion", "coordination.k8s.io/v1"},
          {"kind", "Lease"},
          {"metadata", metadata},
          {"spec", std::move(spec)}};
}

Nanos LeaderElector::CallLimit() const {
  constexpr Nanos kMinDeadline = std::chrono::seconds(1);
  return std::max(options_.renew_deadline / 2, std::min(options_.renew_deadline, kMinDeadline));
}

bool LeaderElector::TryOnce() {
  const auto took = [this](absl::StatusOr<Json> written) {
    if (!written.ok()) return false;
    lease_ = *std::move(written);
    seen_record_ = JsonText(lease_["spec"]);
    changed_at_ = clock_.MonoNow();
    return true;
  };
  const std::string object_path = StrCat(path_, "/", options_.name);
  // The leader's fast path: replaces the version that it remembers, without reading first.
  if (leading_ && lease_.is_object()) {
    if (took(client_.Replace(object_path,
                             Record(lease_["metadata"], lease_["spec"].value("leaseTransitions", 0),
                                    /*acquired=*/false),
                             CallLimit())))
      return true;
  }
  absl::StatusOr<Json> found = client_.Get(object_path, CallLimit());
  if (absl::IsNotFound(found.status())) {
    return took(client_.Create(
        path_, Record({{"name", options_.name}, {"namespace", options_.ns}}, 0, /*acquired=*/true),
        CallLimit()));
  }
  if (!found.ok()) {
    LogWarning("the lease cannot be read", {{"error", MessageOf(found.status())}});
    return false;
  }
  lease_ = *std::move(found);
  const Json spec = lease_.value("spec", Json::object());
  if (JsonText(spec) != seen_record_) {
    seen_record_ = JsonText(spec);
    changed_at_ = clock_.MonoNow();
  }
  const Json holder_value = spec.value("holderIdentity", Json());
  const std::string holder = holder_value.is_string() ? holder_value.get<std::string>() : "";
  const bool ours = holder == options_.identity;
  // The holder's own lease duration applies, measured on this process's clock.
  const Nanos promised = std::chrono::seconds(spec.value("leaseDurationSeconds", 15));
  if (!holder.empty() && !ours && clock_.MonoNow() - changed_at_ < promised) {
    if (leading_) {
      LogError("leadership lost: another process holds the lease", {{"holder", holder}});
      lost_();
    }
    return false;
  }
  const int transitions = spec.value("leaseTransitions", 0) + (ours ? 0 : 1);
  return took(
      client_.Replace(object_path, Record(lease_["metadata"], transitions, !ours), CallLimit()));
}

void LeaderElector::Release() {
  stop_.Notify();
  leads_or_stops_.Notify();
  if (thread_.joinable()) thread_.join();
  if (watchdog_.joinable()) watchdog_.join();
  if (!leading_ || !lease_.is_object()) return;
  Json record =
      Record(lease_["metadata"], lease_["spec"].value("leaseTransitions", 0), /*acquired=*/false);
  record["spec"]["holderIdentity"] = "";
  // A lease without a holder is free; the short duration is for clients that look only at the
  // duration.
  record["spec"]["leaseDurationSeconds"] = 1;
  const absl::StatusOr<Json> released =
      client_.Replace(StrCat(path_, "/", options_.name), record, kReleaseLimit);
  leading_ = false;
  if (!released.ok())
    LogWarning("the lease could not be released", {{"error", MessageOf(released.status())}});
}

}  // namespace strobe::kube

#include "operator/trigger/trigger_keeper.h"

#include <utility>

#include "common/base/log.h"
#include "common/base/strings.h"
#include "operator/base/json_fields.h"
#include "operator/base/names.h"
#include "operator/trigger/trigger.h"

namespace strobe::trigger {
namespace {

// They only write statuses, which are few.
constexpr int kStatusThreads = 2;

}  // namespace

Keeper::Keeper(access::RunStarter::Dependencies dependencies, const std::string& ns,
               Nanos watch_timeout, kube::WorkQueue& queue, Metrics& metrics,
               std::function<bool()> leads)
    : clock_(dependencies.clock),
      queue_(queue),
      requests_(dependencies.requests),
      cluster_(dependencies, cache_),
      sink_({clock_, cluster_, table_, notebook_, metrics,
             [this](const std::string& key) { queue_.AddAfter(key, kTriggerStatusDelay); }}),
      signs_(clock_, cluster_, table_, sink_, metrics),
      reconciler_(clock_, cluster_, notebook_, std::move(leads)),
      reflector_(clock_, dependencies.client,
                 {objects::CreatorsPath(kube::CreatorKind::kTrigger, ns), watch_timeout,
                  [this] { sink_.Open(); }},
                 cache_, [this](const std::string& key) { TriggerChanged(key); }) {
  if (ns.empty()) queue_.ShareAmong(kStatusThreads);
}

void Keeper::Start() {
  threads_ = std::make_unique<kube::ReconcileThreads>(
      clock_, kStatusThreads, queue_,
      [this](const std::string& key) { return reconciler_.Reconcile(key); },
      [](const std::string&, Nanos) {});
  reflector_.Start();
}

void Keeper::ReconcileAll() {
  for (const std::string& key : cache_.Keys()) queue_.Add(key);
}

void Keeper::RequestChanged(const std::string& key) {
  const kube::Object request = requests_.Get(key);
  if (request == nullptr) return;
  const std::string trigger =
      kube::TextOf(kube::Member(kube::Member(*request, "metadata"), "labels"), kube::kTriggerLabel);
  if (!trigger.empty())
    queue_.AddAfter(StrCat(key.substr(0, key.find('/') + 1), trigger), kTriggerStatusDelay);
}

void Keeper::Stop() {
  sink_.Close();
  threads_.reset();
}

void Keeper::TriggerChanged(const std::string& key) {
  const kube::Object object = cache_.Get(key);
  absl::StatusOr<ProfileTrigger> trigger =
      object == nullptr ? absl::NotFoundError("") : ParseTrigger(*object);
  if (trigger.ok()) {
    table_.Put(*std::move(trigger));
  } else {
    table_.Remove(key);
    if (object != nullptr) {
      LogWarning("a trigger cannot be read",
                 {{"trigger", key}, {"error", MessageOf(trigger.status())}});
    }
  }
  queue_.AddAfter(key, kTriggerStatusDelay);
}

}  // namespace strobe::trigger

#include "operator/schedule/schedule_keeper.h"

#include <utility>

#include "common/base/strings.h"
#include "operator/objects/run_template.h"

namespace strobe::schedule {
namespace {

// Many schedules are due at the same minute, and each start waits for the API server.
constexpr int kThreads = 4;

}  // namespace

Keeper::Keeper(access::RunStarter::Dependencies dependencies, const std::string& ns,
               Nanos watch_timeout, kube::WorkQueue& queue, Metrics& metrics)
    : clock_(dependencies.clock),
      queue_(queue),
      cluster_(dependencies, cache_),
      reconciler_(clock_, cluster_, metrics),
      reflector_(clock_, dependencies.client,
                 {objects::CreatorsPath(kube::CreatorKind::kSchedule, ns), watch_timeout, nullptr},
                 cache_, [this](const std::string& key) { queue_.Add(key); }) {
  if (ns.empty()) queue_.ShareAmong(kThreads);
}

void Keeper::Start() {
  threads_ = std::make_unique<kube::ReconcileThreads>(
      clock_, kThreads, queue_,
      [this](const std::string& key) { return reconciler_.Reconcile(key); },
      [](const std::string&, Nanos) {});
  reflector_.Start();
}

std::string ScheduleKeyOfRun(const std::string& request_key) {
  const std::size_t slash = request_key.find('/');
  const std::string schedule = ScheduleOfRun(std::string_view(request_key).substr(slash + 1));
  return schedule.empty() ? "" : StrCat(request_key.substr(0, slash + 1), schedule);
}

}  // namespace strobe::schedule

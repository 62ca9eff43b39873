#include "cli/report/worker_sum.h"

#include <algorithm>
#include <utility>

#include "common/base/saturated.h"

namespace strobe {
namespace {

void AddTo(WorkerSum& sum, std::int64_t span_ns, const Breakdown& time, const HostTime& host) {
  sum.span_ns = AddSaturated(sum.span_ns, span_ns);
  for (auto [to, from] :
       {std::pair(&sum.time.compute_ns, time.compute_ns),
        std::pair(&sum.time.communication_ns, time.communication_ns),
        std::pair(&sum.time.exposed_communication_ns, time.exposed_communication_ns),
        std::pair(&sum.time.exposed_copies_ns, time.exposed_copies_ns),
        std::pair(&sum.time.idle_ns, time.idle_ns),
        std::pair(&sum.host.input_stall_ns, host.input_stall_ns),
        std::pair(&sum.host.garbage_collection_ns, host.garbage_collection_ns),
        std::pair(&sum.host.host_bound_ns, host.host_bound_ns)})
    *to = AddSaturated(*to, from);
}

}  // namespace

WorkerSum SumOf(const Digest& digest, std::string_view loop) {
  WorkerSum sum;
  bool any_followed = false;
  for (const DigestStep& step : digest.steps) {
    if (digest.names[step.loop] != loop) continue;
    sum.first = sum.steps == 0 ? step.number : std::min(sum.first, step.number);
    sum.last = sum.steps == 0 ? step.number : std::max(sum.last, step.number);
    ++sum.steps;
    if (step.followed && !std::exchange(any_followed, true)) sum.lengths_ns.clear();
    if (step.followed || !any_followed) sum.lengths_ns.push_back(step.end_ns - step.begin_ns);
    AddTo(sum, step.end_ns - step.begin_ns, step.time, step.host);
  }
  if (sum.steps == 0) AddTo(sum, digest.end_ns - digest.begin_ns, digest.time, digest.host_time);
  return sum;
}

}  // namespace strobe

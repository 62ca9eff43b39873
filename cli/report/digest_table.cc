#include "cli/report/digest_table.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "collector/trace/digest/device_lines.h"
#include "collector/trace/digest/digest_json.h"
#include "collector/trace/report/run_summary.h"
#include "common/base/duration.h"
#include "common/base/saturated.h"
#include "common/base/strings.h"

namespace strobe::cli {
namespace {

void AddTo(WorkerSum& sum, std::int64_t span_ns, const digest::Breakdown& time,
           const digest::HostTime& host) {
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

std::string MedianOf(std::vector<std::int64_t> lengths_ns) {
  if (lengths_ns.empty()) return "-";
  const auto middle = lengths_ns.begin() + static_cast<std::ptrdiff_t>(lengths_ns.size() / 2);
  std::nth_element(lengths_ns.begin(), middle, lengths_ns.end());
  return FormatDuration(Nanos{*middle});
}

std::string Share(bool known, std::int64_t part_ns, std::int64_t whole_ns) {
  if (!known || whole_ns <= 0) return "-";
  return absl::StrFormat("%.1f%%",
                         100 * static_cast<double>(part_ns) / static_cast<double>(whole_ns));
}

std::string Heading(std::span<const digest::Digest> digests, const std::vector<WorkerSum>& sums,
                    std::string_view loop) {
  std::string text = StrCat(digests.size(), digests.size() == 1 ? " worker, " : " workers, ");
  if (loop.empty()) return text + "no training step was found";
  std::int64_t first = std::numeric_limits<std::int64_t>::max();
  std::int64_t last = std::numeric_limits<std::int64_t>::min();
  std::vector<std::int64_t> lengths;
  for (const WorkerSum& sum : sums) {
    if (sum.steps == 0) continue;
    first = std::min(first, sum.first);
    last = std::max(last, sum.last);
    lengths.insert(lengths.end(), sum.lengths_ns.begin(), sum.lengths_ns.end());
  }
  return StrCat(text, "steps ", first, " to ", last, " of ", loop, ", median ", MedianOf(lengths));
}

Row WorkerRow(const digest::Digest& digest, const WorkerSum& sum) {
  const digest::Knows& knows = digest.knows;
  return {digest.worker,
          digest.rank ? StrCat(*digest.rank) : "-",
          StrCat(sum.steps),
          MedianOf(sum.lengths_ns),
          Share(knows.device, sum.time.compute_ns, sum.span_ns),
          Share(knows.device, sum.time.exposed_communication_ns, sum.span_ns),
          Share(knows.device, sum.time.exposed_copies_ns, sum.span_ns),
          Share(knows.device, sum.time.idle_ns, sum.span_ns),
          Share(knows.input, sum.host.input_stall_ns, sum.span_ns),
          Share(knows.launches, sum.host.host_bound_ns, sum.span_ns)};
}

struct OpTotal {
  std::uint64_t count = 0;
  std::int64_t total_ns = 0, self_ns = 0;
};

// The operations with the most self time: on devices or, if no worker tells of devices, of all.
std::vector<Row> TopOps(std::span<const digest::Digest> digests, std::size_t top) {
  const bool devices = std::any_of(digests.begin(), digests.end(),
                                   [](const digest::Digest& d) { return d.knows.device; });
  std::map<std::pair<std::string_view, digest::WorkKind>, OpTotal> totals;
  std::int64_t all_ns = 0;
  for (const digest::Digest& digest : digests) {
    for (const digest::Op& op : digest.ops) {
      const bool of_device = op.kind == digest::WorkKind::kCompute ||
                             op.kind == digest::WorkKind::kCommunication ||
                             op.kind == digest::WorkKind::kCopy;
      if (devices && !of_device) continue;
      OpTotal& total = totals[{digest.names[op.name], op.kind}];
      total.count += op.count;
      total.total_ns = AddSaturated(total.total_ns, op.total_ns);
      total.self_ns = AddSaturated(total.self_ns, op.self_ns);
      all_ns = AddSaturated(all_ns, op.self_ns);
    }
  }
  std::vector<std::pair<std::pair<std::string_view, digest::WorkKind>, OpTotal>> order(
      totals.begin(), totals.end());
  std::stable_sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
    return a.second.self_ns > b.second.self_ns;
  });
  std::vector<Row> rows = {{"SELF", "SHARE", "COUNT", "AVERAGE", "KIND", "OPERATION"}};
  for (std::size_t i = 0; i < std::min(top, order.size()); ++i) {
    const auto& [key, total] = order[i];
    const auto count = static_cast<std::int64_t>(std::max<std::uint64_t>(total.count, 1));
    rows.push_back({FormatDuration(Nanos{total.self_ns}),
                    Share(/*known=*/true, total.self_ns, all_ns), StrCat(total.count),
                    FormatDuration(Nanos{total.total_ns / count}),
                    std::string(digest::NameOf(key.second)), std::string(key.first)});
  }
  return rows;
}

// See agent/cupti/activity.cc.
bool HasWholeGraphs(const digest::Digest& digest) {
  return std::any_of(digest.ops.begin(), digest.ops.end(), [&](const digest::Op& op) {
    return op.name < digest.names.size() && digest.names[op.name] == "CUDA graph";
  });
}

bool LacksLaunches(const digest::Digest& digest) {
  return digest.knows.device && !digest.knows.launches &&
         std::any_of(digest.devices.begin(), digest.devices.end(),
                     [](const digest::Device& device) {
                       return digest::PlaneKindOf(device.name) == digest::PlaneKind::kGpu;
                     });
}

// What the numbers do not include.
std::vector<std::string> Remarks(std::span<const digest::Digest> digests) {
  std::vector<std::string> remarks;
  const auto any = [&](auto is) { return std::any_of(digests.begin(), digests.end(), is); };
  if (any([](const digest::Digest& d) { return d.knows.host_device; }))
    remarks.emplace_back("Without a device, operations on the host's threads count as its work.");
  if (any([](const digest::Digest& d) { return d.knows.device_untold; }))
    remarks.emplace_back(
        "Some traces have a device, but not what ran on it: how it spent its time is not "
        "known.");
  if (any([](const digest::Digest& d) { return !d.knows.device && !d.knows.device_untold; }))
    remarks.emplace_back(
        "Some traces show no work, neither of a device nor in operations on the host.");
  if (any([](const digest::Digest& d) {
        return std::any_of(d.devices.begin(), d.devices.end(),
                           [](const digest::Device& device) { return device.coarse; });
      }))
    remarks.emplace_back(
        "Some devices report only whole programs; all of their time counts as compute.");
  if (any(HasWholeGraphs))
    remarks.emplace_back(
        "Some traces have each run of a CUDA graph as one event (tracers.device: Graphs); all of "
        "its time counts as compute, also that of collectives within it.");
  if (any(LacksLaunches))
    remarks.emplace_back(
        "Some traces do not show which calls launched their GPUs' work, as with tracers.device "
        "Kernels: for how long GPUs waited for the host is not known.");
  return remarks;
}

}  // namespace

WorkerSum SumOf(const digest::Digest& digest, std::string_view loop) {
  WorkerSum sum;
  bool any_followed = false;
  for (const digest::Step& step : digest.steps) {
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

std::vector<DocumentSection> DigestSections(std::span<const digest::Digest> digests,
                                            std::size_t top, std::span<const std::uint32_t> shown) {
  using enum Column;
  const std::string_view loop = report::MainLoop(digests);
  std::vector<WorkerSum> sums;
  for (const digest::Digest& digest : digests) sums.push_back(SumOf(digest, loop));
  DocumentSection workers{.heading = "Workers",
                          .lines = {Heading(digests, sums, loop)},
                          .columns = {kName, kNumber, kNumber, kNumber, kNumber, kNumber, kNumber,
                                      kNumber, kNumber, kNumber},
                          .rows = {{"WORKER", "RANK", "STEPS", "STEP", "COMPUTE", "EXPOSED COMM.",
                                    "EXPOSED COPIES", "IDLE", "INPUT", "HOST-BOUND"}}};
  for (const std::uint32_t i : shown) workers.rows.push_back(WorkerRow(digests[i], sums[i]));
  if (shown.size() < digests.size())
    workers.notes.push_back(StrCat(digests.size() - shown.size(),
                                   " more workers, which take no longer, are not shown"));
  std::vector<DocumentSection> sections = {std::move(workers)};
  if (std::vector<Row> rows = TopOps(digests, top); rows.size() > 1)
    sections.push_back({.heading = "Operations of all workers",
                        .columns = {kNumber, kNumber, kNumber, kNumber, kText, kName},
                        .rows = std::move(rows)});
  for (std::string& remark : Remarks(digests)) sections.push_back({.lines = {std::move(remark)}});
  return sections;
}

}  // namespace strobe::cli

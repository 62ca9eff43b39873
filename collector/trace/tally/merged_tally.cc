#include "collector/trace/tally/merged_tally.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "collector/trace/report/robust.h"
#include "common/base/saturated.h"
#include "common/base/strings.h"

namespace strobe::tally {
namespace {

constexpr double kOddDeviations = 6, kOddShare = 0.1;

// Adds what one worker has of a row.
void AddRow(const TallyRow& from, TallyRow& to) {
  to.count += from.count;
  to.total_ps = AddSaturated(to.total_ps, from.total_ps);
  to.self_ps = AddSaturated(to.self_ps, from.self_ps);
  to.max_ps = std::max(to.max_ps, from.max_ps);
  to.device_ps = AddSaturated(to.device_ps, from.device_ps);
  to.device_self_ps = AddSaturated(to.device_self_ps, from.device_self_ps);
  to.launches_differ = to.launches_differ || from.launches_differ || to.launch != from.launch;
  to.occupancy_ps += from.occupancy_ps;
  to.occupancy_of_ps += from.occupancy_of_ps;
  to.launchers_differ =
      to.launchers_differ || from.launchers_differ || to.launched_by != from.launched_by;
  if (to.category.empty()) to.category = from.category;
  to.flops += from.flops;
  to.accessed_bytes += from.accessed_bytes;
  to.shapes_differ = to.shapes_differ || from.shapes_differ || to.shapes != from.shapes;
  to.bytes += from.bytes;
  if (to.exposed_ps && from.exposed_ps)
    to.exposed_ps = AddSaturated(*to.exposed_ps, *from.exposed_ps);
  else
    to.exposed_ps.reset();
  // The worker that arrives last waits for nobody, so that its time is that of the transfer.
  to.bytes_per_s = std::max(to.bytes_per_s, from.bytes_per_s);
  to.ranks = std::max(to.ranks, from.ranks);
}

}  // namespace

std::optional<OddWorker> FindOdd(const std::vector<std::optional<std::int64_t>>& values) {
  const auto having = static_cast<std::size_t>(
      std::ranges::count_if(values, [](const auto& value) { return value.has_value(); }));
  if (values.size() < 3 || having * 2 <= values.size()) return std::nullopt;
  std::vector<double> times;
  for (const auto& value : values) times.push_back(static_cast<double>(value.value_or(0)));
  std::vector<double> sorted = times;
  const double median = report::Median(sorted);
  const double deviation = report::RobustDeviation(times, median);
  const auto farthest =
      std::ranges::max_element(times, {}, [&](double time) { return std::fabs(time - median); });
  const double distance = std::fabs(*farthest - median);
  if (distance <= kOddDeviations * deviation || distance <= kOddShare * median) return std::nullopt;
  return OddWorker{.worker = static_cast<std::uint32_t>(farthest - times.begin()),
                   .total_ps = static_cast<std::int64_t>(*farthest),
                   .median_ps = static_cast<std::int64_t>(median)};
}

void Merger::AddTable(std::uint32_t worker, const TallyTable& from, Table& to) const {
  to.left_out = std::max(to.left_out, from.left_out);
  for (const TallyRow& row : from.rows) {
    std::string key = StrCat(row.kind, "\n", row.name, "\n", row.group);
    const auto found = to.numbers.find(key);
    std::size_t number = to.rows.size();
    if (found != to.numbers.end()) {
      number = found->second;
      AddRow(row, to.rows[number].sum);
    } else {
      if (number >= kMaxMerged || (number + 1) * workers_ > kMaxTimes) {
        ++to.left_out;
        continue;
      }
      to.numbers.emplace(std::move(key), number);
      to.rows.push_back({.sum = row});
      to.times.emplace_back(workers_);
    }
    ++to.rows[number].workers;
    if (worker < workers_) to.times[number][worker] = row.total_ps;
  }
}

void Merger::Add(std::uint32_t worker, const Tally& tally) {
  AddTable(worker, tally.kernels, kernels_);
  AddTable(worker, tally.operators, operators_);
  AddTable(worker, tally.modules, modules_);
  AddTable(worker, tally.communication, communication_);
  device_ps_ = AddSaturated(device_ps_, tally.device_ps);
  joins_launches_ = joins_launches_ || tally.joins_launches;
}

MergedTable Merger::FinishTable(Table&& table) {
  MergedTable merged{.rows = std::move(table.rows), .left_out = table.left_out};
  for (std::size_t i = 0; i < merged.rows.size(); ++i) merged.rows[i].odd = FindOdd(table.times[i]);
  std::ranges::sort(merged.rows, [](const MergedRow& a, const MergedRow& b) {
    if (a.sum.self_ps != b.sum.self_ps) return a.sum.self_ps > b.sum.self_ps;
    return a.sum.name != b.sum.name ? a.sum.name < b.sum.name : a.sum.group < b.sum.group;
  });
  if (merged.rows.size() > kMaxRows) {
    merged.left_out += merged.rows.size() - kMaxRows;
    merged.rows.resize(kMaxRows);
  }
  return merged;
}

MergedTally Merger::Finish() && {
  return {.kernels = FinishTable(std::move(kernels_)),
          .operators = FinishTable(std::move(operators_)),
          .modules = FinishTable(std::move(modules_)),
          .communication = FinishTable(std::move(communication_)),
          .device_ps = device_ps_,
          .joins_launches = joins_launches_};
}

}  // namespace strobe::tally

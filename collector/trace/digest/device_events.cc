#include "collector/trace/digest/device_events.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <map>
#include <utility>

#include "collector/trace/digest/device_lines.h"
#include "collector/trace/digest/work_line.h"
#include "collector/trace/xplane/flows.h"
#include "collector/trace/xplane/names.h"
#include "common/base/status_macros.h"

namespace strobe::digest {
namespace {

using xplane::Line;
using xplane::Plane;

class DeviceReader;

// A stat's number; 0 if it has none. XProf's JSON has numbers as text.
std::uint64_t NaturalOf(const Plane& plane, const RawStat& stat) {
  if (stat.is_integer) return static_cast<std::uint64_t>(std::max<std::int64_t>(stat.value, 0));
  const std::string_view text = TextOfStat(plane, stat);
  std::int64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, number);
  if (read.ec != std::errc() || read.ptr != end || number < 0) return 0;
  return static_cast<std::uint64_t>(number);
}

// The events of a line as work. Most profilers write them sorted; otherwise all are read at once.
class LineSource : public WorkSource {
 public:
  LineSource(DeviceReader& reader, const Line& line, LineRole role)
      : reader_(reader), line_(line), role_(role), origin_ps_(OriginOf(line)), bytes_(line.bytes) {}

  bool Next(Work& work) override;
  // Begins again; what was counted before is not counted again. DataLoss if the line is damaged.
  absl::Status Restart();
  // Whether an event began before the one that precedes it in the line.
  bool unsorted() const { return unsorted_; }
  const absl::Status& status() const { return status_; }
  Overlap overlap() const {
    return role_ == LineRole::kNestedWork ? Overlap::kNested : Overlap::kParallel;
  }

 private:
  bool Read(Work& work);

  DeviceReader& reader_;
  const Line& line_;
  const LineRole role_;
  const std::int64_t origin_ps_;
  wire::Reader bytes_;
  Nesting nesting_{};
  std::uint64_t read_ = 0, counted_ = 0;
  std::int64_t last_begin_ps_ = std::numeric_limits<std::int64_t>::min();
  bool unsorted_ = false, all_read_ = false;
  std::vector<Work> sorted_{};  // If all are read at once; the next one is at the end.
  absl::Status status_;
};

class DeviceReader {
 public:
  DeviceReader(const Plane& plane, std::uint32_t number, Gathered& gathered, Device& device)
      : plane_(plane),
        lines_(plane),
        number_(number),
        gathered_(gathered),
        device_(device),
        kinds_(plane),
        scopes_(plane),
        stats_(plane),
        category_id_(plane.StatId("hlo_category")),
        flops_id_(plane.StatId("flops")),
        bytes_id_(plane.StatId("bytes_accessed")),
        allocated_id_(plane.StatId("Total Allocated")),
        correlation_(plane.StatId("correlation_id")),
        process_(xplane::ProcessOf(plane.name)) {}

  absl::StatusOr<TimeSweep> Run(const SweepPlan& plan);

  // Valid until the next call.
  const EventKind& KindOf(const Line& line, const xplane::Event& event) {
    const EventKind& kind = kinds_.Find(
        event.name_id, [&](const xplane::EventName* name) { return MakeKind(name, line, event); });
    return kind.events_tell ? AsEventTells(kind, event) : kind;
  }
  // Adds an event to all sums but those of the sweep.
  absl::Status Count(const xplane::Event& event, const EventKind& kind, const Times& times,
                     const Line& line, LineRole role, Nesting& nesting);

 private:
  EventKind MakeKind(const xplane::EventName* name, const Line& line, const xplane::Event& first);
  const EventKind& AsEventTells(const EventKind& kind, const xplane::Event& event);
  void Classify(std::string_view shown, std::string_view category, EventKind& kind);
  absl::StatusOr<TimeSweep> SweepOnce(const SweepPlan& plan);
  bool LaunchedLate(const Work& work, const TimeSweep& sweep) const;
  absl::Status ReadScopes(const Line& line);
  absl::Status ReadCounters(const Line& line);
  absl::Status ReadPlaneStats();

  const Plane& plane_;
  const DeviceLines lines_;
  const std::uint32_t number_;
  Gathered& gathered_;
  Device& device_;
  EventKinds kinds_, scopes_;
  EventKind newest_own_{};  // That of the newest event which told its own.
  // Events of one name may tell different categories: in JSON, programs share the names.
  std::map<std::pair<std::int64_t, std::string_view>, EventKind> by_category_{};
  const CollectiveStats stats_;
  // Ids of stats.
  const std::int64_t category_id_, flops_id_, bytes_id_, allocated_id_, correlation_;
  const std::uint64_t process_;
  std::vector<std::unique_ptr<LineSource>> sources_{};
  Times range_{kMaxPs, -kMaxPs};  // Spans its work.
};

bool LineSource::Read(Work& work) {
  while (bytes_.Next()) {
    if (bytes_.field() != 4 || !bytes_.is_bytes()) continue;
    xplane::Event event;
    status_.Update(xplane::ParseEvent(bytes_.bytes(), event));
    if (!status_.ok()) return false;
    const EventKind& kind = reader_.KindOf(line_, event);
    const Times times = TimesOf(origin_ps_, event);
    if (++read_ > counted_)
      status_.Update(reader_.Count(event, kind, times, line_, role_, nesting_));
    if (event.occurrences != 0) continue;
    work = {times, kind.work.kind, event.bytes};
    return status_.ok();
  }
  status_.Update(bytes_.status());
  return false;
}

bool LineSource::Next(Work& work) {
  if (all_read_) {
    if (sorted_.empty()) return false;
    work = sorted_.back();
    sorted_.pop_back();
    return true;
  }
  if (!Read(work)) return false;
  if (work.times.begin_ps < last_begin_ps_) {
    unsorted_ = true;
    return false;
  }
  last_begin_ps_ = work.times.begin_ps;
  return true;
}

absl::Status LineSource::Restart() {
  counted_ = read_;
  read_ = 0;
  bytes_ = wire::Reader(line_.bytes);
  last_begin_ps_ = std::numeric_limits<std::int64_t>::min();
  if (!unsorted_) return absl::OkStatus();
  all_read_ = true;
  for (Work work; Read(work);) sorted_.push_back(work);
  // What comes first is at the end; of equal begins, longer work comes first.
  std::stable_sort(sorted_.begin(), sorted_.end(), [](const Work& a, const Work& b) {
    return a.times.begin_ps != b.times.begin_ps ? a.times.begin_ps > b.times.begin_ps
                                                : a.times.end_ps < b.times.end_ps;
  });
  return status_;
}

// `first`: the first event of the name, which stands for all of them.
EventKind DeviceReader::MakeKind(const xplane::EventName* name, const Line& line,
                                 const xplane::Event& first) {
  EventKind kind{.name = name};
  std::string_view category;
  bool told = false;
  if (name != nullptr) {
    // A damaged stat of a name tells nothing; the events themselves can be read.
    (void)plane_.ForEachKindStat(*name, [&](const xplane::Stat& stat) {
      const std::int64_t natural = std::max<std::int64_t>(stat.Integer().value_or(0), 0);
      if (stat.name_id == 0) return;
      told |=
          stat.name_id == flops_id_ || stat.name_id == bytes_id_ || stat.name_id == category_id_;
      if (stat.name_id == flops_id_) kind.flops = static_cast<std::uint64_t>(natural);
      if (stat.name_id == bytes_id_) kind.bytes_accessed = static_cast<std::uint64_t>(natural);
      const auto* text = std::get_if<std::string_view>(&stat.value);
      if (stat.name_id == category_id_ && text != nullptr) category = *text;
    });
  }
  kind.events_tell = !told && (flops_id_ != 0 || bytes_id_ != 0 || category_id_ != 0);
  const std::string_view shown = name == nullptr ? std::string_view("?") : name->shown();
  if (!lines_.coarse() && !lines_.is_hlo() &&
      ClassifyDeviceWork(shown, category, /*is_hlo=*/false).kind == WorkKind::kCompute)
    kind.by_stats = ClassifyByStats(plane_, line, first);
  Classify(shown, category, kind);
  return kind;
}

void DeviceReader::Classify(std::string_view shown, std::string_view category, EventKind& kind) {
  if (!lines_.coarse()) kind.work = ClassifyDeviceWork(shown, category, lines_.is_hlo());
  if (kind.work.kind == WorkKind::kCompute && kind.by_stats.kind != WorkKind::kCompute)
    kind.work = kind.by_stats;
  if (kind.work.contains_others) kind.flops = kind.bytes_accessed = 0;
  kind.op = gathered_.ops.Find(shown, kind.work.kind);
}

// Returns the kind of an event whose name tells nothing of the work.
const EventKind& DeviceReader::AsEventTells(const EventKind& kind, const xplane::Event& event) {
  std::string_view category;
  std::uint64_t flops = 0, bytes_accessed = 0;
  const auto wanted = [&](std::int64_t id) {
    return id != 0 && (id == category_id_ || id == flops_id_ || id == bytes_id_);
  };
  xplane::Event ignored;
  // A damaged event is reported when it is counted.
  (void)ReadEvent(event.bytes, ignored, wanted, [&](const RawStat& stat) {
    if (stat.name_id == category_id_) category = TextOfStat(plane_, stat);
    if (stat.name_id == flops_id_) flops = NaturalOf(plane_, stat);
    if (stat.name_id == bytes_id_) bytes_accessed = NaturalOf(plane_, stat);
  });
  if (category.empty() && flops == 0 && bytes_accessed == 0) return kind;
  newest_own_ = kind;
  if (!category.empty()) {
    const auto [found, added] = by_category_.try_emplace({event.name_id, category}, kind);
    if (added)
      Classify(kind.name == nullptr ? std::string_view("?") : kind.name->shown(), category,
               found->second);
    newest_own_ = found->second;
  }
  if (!newest_own_.work.contains_others) {
    newest_own_.flops = flops;
    newest_own_.bytes_accessed = bytes_accessed;
  }
  return newest_own_;
}

absl::Status DeviceReader::Count(const xplane::Event& event, const EventKind& kind,
                                 const Times& times, const Line& line, LineRole role,
                                 Nesting& nesting) {
  OpSums& ops = gathered_.ops;
  RETURN_IF_ERROR(gathered_.CheckStop());
  const std::int64_t length = times.end_ps - times.begin_ps;
  if (event.occurrences != 0) {
    OpSum& sum = ops[kind.op];
    sum.count += static_cast<std::uint64_t>(std::max<std::int64_t>(event.occurrences, 0));
    sum.total_ps = AddSaturated(sum.total_ps, length);
    sum.self_ps = AddSaturated(sum.self_ps, length);
    return absl::OkStatus();
  }
  gathered_.Extend(times);
  range_.begin_ps = std::min(range_.begin_ps, times.begin_ps);
  range_.end_ps = std::max(range_.end_ps, times.end_ps);
  ops.Count(kind.op, length);
  if (role == LineRole::kNestedWork) {
    nesting.Add(times.begin_ps, times.end_ps, kind.op,
                [&](std::uint32_t op, std::int64_t change) { ops.AddSelf(op, change); });
  } else {
    ops.AddSelf(kind.op, length);
  }
  ops[kind.op].flops += kind.flops;
  ops[kind.op].bytes_accessed += kind.bytes_accessed;
  device_.flops += kind.flops;
  device_.bytes_accessed += kind.bytes_accessed;
  if (kind.work.kind != WorkKind::kCommunication) return absl::OkStatus();
  WorkClass work = kind.work;
  if (DeviceLines::IsAsync(line.name))
    work.phase = WorkClass::kWhole;
  else if (work.phase != WorkClass::kWhole && lines_.has_async())
    return absl::OkStatus();  // The other line shows all of it.
  ASSIGN_OR_RETURN(const CollectiveStats::Values told, stats_.Read(event.bytes));
  if (kind.name == nullptr) return absl::OkStatus();
  const std::string_view hlo = told.long_name.empty() ? kind.name->name : told.long_name;
  gathered_.collectives.Add(kind.name->shown(), hlo, work, told, number_, times);
  return absl::OkStatus();
}

// Did the host launch this work only after the device had become idle?
bool DeviceReader::LaunchedLate(const Work& work, const TimeSweep& sweep) const {
  if (!sweep.idle() || work.times.begin_ps <= sweep.idle_since_ps() || correlation_ == 0 ||
      work.kind == WorkKind::kInput)
    return false;
  std::int64_t correlation = 0;
  // A damaged event is reported when it is read.
  (void)xplane::ForEachInteger({.bytes = work.event}, [&](std::int64_t id, std::int64_t value) {
    if (id == correlation_) correlation = value;
  });
  if (correlation == 0) return false;
  const std::optional<std::int64_t> launch =
      gathered_.launches.BeginOf(process_, correlation, work.times.begin_ps);
  return launch && *launch > sweep.idle_since_ps();
}

absl::StatusOr<TimeSweep> DeviceReader::SweepOnce(const SweepPlan& plan) {
  TimeSweep sweep(plan);
  std::vector<WorkLine> lines;
  lines.reserve(sources_.size());
  for (const auto& source : sources_) lines.emplace_back(*source, source->overlap());
  SweepLines(lines, sweep, [&](std::size_t, const Work& work) {
    if (LaunchedLate(work, sweep)) sweep.BlameHost(work.times.begin_ps);
  });
  for (const auto& source : sources_) RETURN_IF_ERROR(source->status());
  sweep.Finish();
  return sweep;
}

absl::StatusOr<TimeSweep> DeviceReader::Run(const SweepPlan& plan) {
  for (const Line& line : plane_.lines) {
    const LineRole role = lines_.RoleOf(line.name);
    if (role == LineRole::kScopes)
      RETURN_IF_ERROR(ReadScopes(line));
    else if (role != LineRole::kNone)
      sources_.push_back(std::make_unique<LineSource>(*this, line, role));
    else if (line.name == xplane::kCounterLine)
      RETURN_IF_ERROR(ReadCounters(line));
  }
  RETURN_IF_ERROR(ReadPlaneStats());
  ASSIGN_OR_RETURN(TimeSweep sweep, SweepOnce(plan));
  const bool unsorted = std::any_of(sources_.begin(), sources_.end(),
                                    [](const auto& source) { return source->unsorted(); });
  if (unsorted) {
    for (const auto& source : sources_) RETURN_IF_ERROR(source->Restart());
    ASSIGN_OR_RETURN(sweep, SweepOnce(plan));
  }
  device_.coarse = lines_.coarse();
  gathered_.joins_launches |= correlation_ != 0 && gathered_.launches.Knows(process_);
  if (range_.begin_ps <= range_.end_ps) {
    device_.first_ns = range_.begin_ps / 1000;
    device_.last_ns = range_.end_ps / 1000;
  }
  return sweep;
}

absl::Status DeviceReader::ReadScopes(const Line& line) {
  const std::int64_t origin = OriginOf(line);
  Nesting nesting;
  return ForEachEvent(line, [&](const xplane::Event& event) {
    if (event.occurrences != 0) return;
    const EventKind& kind = scopes_.Find(event.name_id, [&](const xplane::EventName* name) {
      const std::string_view text = name == nullptr ? std::string_view("?") : name->shown();
      return EventKind{.op = gathered_.ops.Find(text, WorkKind::kScope), .name = name};
    });
    const Times times = TimesOf(origin, event);
    gathered_.Extend(times);
    gathered_.ops.Count(kind.op, times.end_ps - times.begin_ps);
    nesting.Add(times.begin_ps, times.end_ps, kind.op,
                [&](std::uint32_t op, std::int64_t change) { gathered_.ops.AddSelf(op, change); });
  });
}

// PyTorch's memory in use; collector/trace/kineto makes these counters.
absl::Status DeviceReader::ReadCounters(const Line& line) {
  if (allocated_id_ == 0) return absl::OkStatus();
  absl::Status status;
  RETURN_IF_ERROR(ForEachEvent(line, [&](const xplane::Event& event) {
    if (plane_.NameOf(event) != "Total Allocated") return;
    status.Update(xplane::ForEachInteger(event, [&](std::int64_t id, std::int64_t value) {
      if (id != allocated_id_ || value < 0) return;
      device_.peak_memory_bytes =
          std::max(device_.peak_memory_bytes.value_or(0), static_cast<std::uint64_t>(value));
    }));
  }));
  return status;
}

absl::Status DeviceReader::ReadPlaneStats() {
  // 0 if the stat is not a number, or its number is too large for a device.
  const auto natural = [](const xplane::Stat& stat, double unit) -> std::uint64_t {
    const double value = stat.Number().value_or(0) * unit;
    return value > 0 && value < 1e18 ? static_cast<std::uint64_t>(value) : 0;
  };
  return plane_.ForEachStat([&](const xplane::Stat& stat) {
    const std::string_view name = plane_.NameOf(stat);
    if (name == "peak_teraflops_per_second") device_.peak_flops = natural(stat, 1e12);
    if (name == "peak_hbm_bw_gigabytes_per_second") device_.peak_bytes = natural(stat, 1e9);
    if (name == "memory_size" && natural(stat, 1) > 0) device_.memory_bytes = natural(stat, 1);
  });
}

// The work of one thread of a runtime on the host.
class HostWorkSource : public WorkSource {
 public:
  explicit HostWorkSource(const std::vector<HostWork>& work) : work_(work) {}
  bool Next(Work& work) override {
    if (next_ == work_.size()) return false;
    work = {work_[next_].times(), work_[next_].kind(), {}};
    ++next_;
    return true;
  }

 private:
  const std::vector<HostWork>& work_;
  std::size_t next_ = 0;
};

}  // namespace

absl::StatusOr<TimeSweep> ReadDevice(const Plane& plane, std::uint32_t number, Gathered& gathered,
                                     const SweepPlan& plan, Device& device) {
  device.name = plane.name;
  DeviceReader reader(plane, number, gathered, device);
  return reader.Run(plan);
}

TimeSweep ReadHostWork(const std::vector<std::vector<HostWork>>& lines, const SweepPlan& plan,
                       Device& device) {
  TimeSweep sweep(plan);
  std::vector<std::unique_ptr<HostWorkSource>> sources;
  std::vector<WorkLine> work_lines;
  Times range{kMaxPs, -kMaxPs};
  for (const std::vector<HostWork>& line : lines) {
    sources.push_back(std::make_unique<HostWorkSource>(line));
    work_lines.emplace_back(*sources.back(), Overlap::kNested);
    for (const HostWork& work : line) {
      range.begin_ps = std::min(range.begin_ps, work.times().begin_ps);
      range.end_ps = std::max(range.end_ps, work.times().end_ps);
    }
  }
  SweepLines(work_lines, sweep, [](std::size_t, const Work&) {});
  sweep.Finish();
  device.name = xplane::kHostPlane;
  if (range.begin_ps <= range.end_ps) {
    device.first_ns = range.begin_ps / 1000;
    device.last_ns = range.end_ps / 1000;
  }
  return sweep;
}

}  // namespace strobe::digest

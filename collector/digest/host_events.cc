#include "collector/digest/host_events.h"

#include <algorithm>

#include "collector/xplane/names.h"
#include "common/base/status_macros.h"

namespace strobe::digest {

struct HostEvents::Ids {
  explicit Ids(const xplane::Plane& plane)
      : step(plane.StatId("step_num")),
        correlation(plane.StatId("correlation_id")),
        flops(plane.StatId("flops")),
        hlo_op(plane.StatId("hlo_op")),
        category(plane.StatId("cat")),
        cpu_op(plane.StatId("cpu_op")) {}
  std::int64_t step, correlation, flops, hlo_op, category;
  std::int64_t cpu_op;  // The text, to which values of `category` refer.
  bool any() const { return (step | correlation | flops | hlo_op | category) != 0; }
};

namespace {

// What the stats of an event on the host say.
struct HostStats {
  std::optional<std::int64_t> step{};
  std::int64_t correlation = 0, flops = 0;
  bool is_hlo = false, is_cpu_op = false;
};

EventKind KindOfHostEvent(const xplane::EventName* name, OpSums& ops) {
  EventKind kind{.name = name};
  const std::string_view text = name == nullptr ? std::string_view("?") : name->name;
  kind.work.kind = ClassifyHostEvent(text);
  kind.work.collective = CollectiveKind::kOther;
  if (kind.work.kind == WorkKind::kCommunication) kind.work.collective = CollectiveKindOf(text);
  kind.op = ops.Find(text, kind.work.kind);
  return kind;
}

}  // namespace

void HostEvents::SpansOfLines::EndLine(bool has_steps) {
  Unite(line);
  Spans& to = has_steps ? with_steps : all;
  const std::size_t room = kMaxSpans - std::min(kMaxSpans, to.size());
  to.insert(to.end(), line.begin(),
            line.begin() + static_cast<std::ptrdiff_t>(std::min(room, line.size())));
  line.clear();
}

void HostEvents::SpansOfLines::Finish(bool any_steps) {
  if (any_steps) all = std::move(with_steps);
  Unite(all);
}

absl::Status HostEvents::Read(const xplane::Plane& plane) {
  const Ids ids(plane);
  EventKinds kinds(plane);
  for (const xplane::Line& line : plane.lines) {
    if (line.name == xplane::kCounterLine) continue;
    RETURN_IF_ERROR(ReadLine(plane, ids, line, kinds));
    ++lines_;
  }
  return absl::OkStatus();
}

absl::Status HostEvents::ReadLine(const xplane::Plane& plane, const Ids& ids,
                                  const xplane::Line& line, EventKinds& kinds) {
  const std::int64_t origin = OriginOf(line);
  const std::uint64_t process = ProcessOf(plane.name);
  const std::size_t steps_before = steps_.size();
  std::vector<HostWork> work;
  nesting_.Clear();
  const auto make = [&](const xplane::EventName* name) {
    return KindOfHostEvent(name, gathered_.ops);
  };
  const auto self = [&](std::uint32_t op, std::int64_t change) {
    gathered_.ops.AddSelf(op, change);
  };
  absl::Status status;
  RETURN_IF_ERROR(ForEachEvent(line, [&](const xplane::Event& event) {
    const EventKind& kind = kinds.Find(event.name_id, make);
    if (event.occurrences != 0) {
      OpSum& sum = gathered_.ops[kind.op];
      sum.count += static_cast<std::uint64_t>(std::max<std::int64_t>(event.occurrences, 0));
      sum.total_ps = AddSaturated(sum.total_ps, CutPs(event.duration_ps));
      sum.self_ps = AddSaturated(sum.self_ps, CutPs(event.duration_ps));
      return;
    }
    const Times times = TimesOf(origin, event);
    gathered_.Extend(times);
    gathered_.ops.Count(kind.op, times.end_ps - times.begin_ps);
    nesting_.Add(times.begin_ps, times.end_ps, kind.op, self);
    if (kind.work.kind == WorkKind::kInput && input_.line.size() < kMaxSpans)
      input_.line.emplace_back(times.begin_ps, times.end_ps);
    if (kind.work.kind == WorkKind::kGarbageCollection && collection_.line.size() < kMaxSpans)
      collection_.line.emplace_back(times.begin_ps, times.end_ps);
    HostStats told;
    if (ids.any()) {
      status.Update(ScanStats(event.bytes, [&](const RawStat& stat) {
        if (stat.name_id == 0) return;
        if (stat.name_id == ids.step && stat.is_integer) told.step = stat.value;
        if (stat.name_id == ids.correlation) told.correlation = stat.value;
        if (stat.name_id == ids.flops) told.flops = stat.value;
        if (stat.name_id == ids.hlo_op) told.is_hlo = true;
        if (stat.name_id == ids.category && stat.is_reference)
          told.is_cpu_op = stat.value == ids.cpu_op && ids.cpu_op != 0;
      }));
    }
    if (told.correlation != 0) gathered_.launches.Add(process, told.correlation, times.begin_ps);
    if (told.flops > 0) gathered_.ops[kind.op].flops += static_cast<std::uint64_t>(told.flops);
    if (told.step) {
      if (steps_.size() < kMaxSteps)
        steps_.push_back({plane.NameOf(event), *told.step, times, lines_});
      else
        ++steps_left_out_;
    }
    const bool is_work =
        told.is_hlo || told.is_cpu_op || kind.work.kind == WorkKind::kCommunication;
    if (computes_ && is_work) AddWork(plane, event, kind, times, told.is_hlo, work);
  }));
  RETURN_IF_ERROR(status);
  EndLine(std::move(work), steps_before);
  return absl::OkStatus();
}

void HostEvents::AddWork(const xplane::Plane& plane, const xplane::Event& event,
                         const EventKind& kind, const Times& times, bool is_hlo,
                         std::vector<HostWork>& work) {
  const std::string_view name = plane.NameOf(event);
  WorkClass what = kind.work;
  if (is_hlo)
    what = ClassifyDeviceWork(name, "", /*is_hlo=*/true);
  else if (what.kind != WorkKind::kCommunication)
    what.kind = WorkKind::kCompute;
  // PyTorch's own operators only hand communication over to another thread.
  if (name.starts_with("c10d::") || name == "record_param_comms") return;
  if (what.kind == WorkKind::kInput) return;
  gathered_.ops[kind.op].kind = what.kind;
  if (what.kind == WorkKind::kCommunication)
    gathered_.collectives.Add(name, "", what, {}, kNoDevice, times);
  // Work within work of the same kind adds nothing.
  if (!work.empty() && work.back().kind() == what.kind &&
      work.back().times().begin_ps <= times.begin_ps && times.end_ps <= work.back().times().end_ps)
    return;
  work.emplace_back(times, what.kind);
}

void HostEvents::EndLine(std::vector<HostWork> work, std::size_t steps_before) {
  if (!work.empty()) {
    std::sort(work.begin(), work.end());
    // What a thread computes while it loads input is a part of loading.
    Unite(input_.line);
    std::erase_if(work, [&](const HostWork& one) {
      const Times times = one.times();
      const auto around =
          std::partition_point(input_.line.begin(), input_.line.end(),
                               [&](const auto& span) { return span.second < times.end_ps; });
      return around != input_.line.end() && around->first <= times.begin_ps;
    });
    work.shrink_to_fit();
    work_.push_back(std::move(work));
  }
  const bool has_steps = steps_.size() > steps_before;
  input_.EndLine(has_steps);
  collection_.EndLine(has_steps);
}

void HostEvents::Finish() {
  input_.Finish(!steps_.empty());
  collection_.Finish(!steps_.empty());
  std::stable_sort(steps_.begin(), steps_.end(), [](const FoundStep& a, const FoundStep& b) {
    return a.times.begin_ps < b.times.begin_ps;
  });
  gathered_.launches.Sort();
}

}  // namespace strobe::digest

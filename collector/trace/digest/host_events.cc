#include "collector/trace/digest/host_events.h"

#include <algorithm>
#include <array>
#include <iterator>

#include "collector/trace/xplane/flows.h"
#include "collector/trace/xplane/names.h"
#include "common/base/status_macros.h"

namespace strobe::digest {

namespace {

// What the stats of an event on the host say.
struct HostStats {
  std::optional<std::int64_t> step{};
  std::int64_t correlation = 0, flops = 0;
  bool is_hlo = false, is_cpu_op = false;
  Batch batch{};  // Its `running_before` holds the requests that run.
};

// The stats of annotations of inference servers; see kineto/engine_names.h.
struct BatchStat {
  std::string_view name;
  std::int64_t Batch::*member;
};
constexpr std::array<BatchStat, 5> kBatchStats = {{{"prefill_requests", &Batch::prefill_requests},
                                                   {"prefill_tokens", &Batch::prefill_tokens},
                                                   {"decode_requests", &Batch::decode_requests},
                                                   {"decode_tokens", &Batch::decode_tokens},
                                                   {"running", &Batch::running_before}}};
constexpr std::string_view kPlanning = "engine.schedule";
// A trace may tell any number, and sums of many must not overflow.
constexpr std::int64_t kMaxBatch = std::int64_t{1} << 40;

}  // namespace

struct HostEvents::Ids {
  explicit Ids(const xplane::Plane& plane)
      : step(plane.StatId("step_num")),
        correlation(plane.StatId("correlation_id")),
        flops(plane.StatId("flops")),
        hlo_op(plane.StatId("hlo_op")),
        category(plane.StatId("cat")),
        cpu_op(plane.StatId("cpu_op")) {
    for (std::size_t i = 0; i < batch.size(); ++i) {
      batch[i] = plane.StatId(kBatchStats[i].name);
      batches = batches || batch[i] != 0;
    }
  }
  std::int64_t step, correlation, flops, hlo_op, category;
  std::int64_t cpu_op;  // The text, to which values of `category` refer.
  std::array<std::int64_t, kBatchStats.size()> batch{};
  bool batches = false;  // The plane has any of these.

  bool Has(std::int64_t id) const {
    return id != 0 &&
           (id == category || id == correlation || id == step || id == flops || id == hlo_op ||
            (batches && std::find(batch.begin(), batch.end(), id) != batch.end()));
  }
  void Read(const RawStat& stat, HostStats& told) const {
    if (stat.name_id == step && stat.is_integer) told.step = stat.value;
    if (stat.name_id == correlation) told.correlation = stat.value;
    if (stat.name_id == flops) told.flops = stat.value;
    if (stat.name_id == hlo_op) told.is_hlo = true;
    if (stat.name_id == category && stat.is_reference)
      told.is_cpu_op = stat.value == cpu_op && cpu_op != 0;
    for (std::size_t i = 0; batches && stat.is_integer && i < batch.size(); ++i) {
      if (stat.name_id == batch[i])
        told.batch.*kBatchStats[i].member = std::clamp<std::int64_t>(stat.value, 0, kMaxBatch);
    }
  }
};

namespace {

EventKind KindOfHostEvent(const xplane::EventName* name, OpSums& ops) {
  EventKind kind{.name = name};
  const std::string_view text = name == nullptr ? std::string_view("?") : name->name;
  kind.work.kind = ClassifyHostEvent(text);
  kind.work.collective = CollectiveKind::kOther;
  if (kind.work.kind == WorkKind::kCommunication) kind.work.collective = CollectiveKindOf(text);
  kind.op = ops.Find(text, kind.work.kind);
  return kind;
}

// PyTorch's own operators only hand communication over to another thread, and may wait for it.
bool HandsOver(std::string_view name) {
  return name.starts_with("c10d::") || name.starts_with("_c10d_functional::") ||
         name == "record_param_comms";
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
  const std::uint64_t process = xplane::ProcessOf(plane.name);
  const std::size_t steps_before = steps_.size();
  std::vector<HostWork> work;
  nesting_.Clear();
  const auto wanted = [&](std::int64_t id) { return ids.Has(id); };
  wire::Reader reader(line.bytes);
  while (reader.Next()) {
    if (reader.field() != 4 || !reader.is_bytes()) continue;
    RETURN_IF_ERROR(gathered_.CheckStop());
    xplane::Event event;
    HostStats told;
    RETURN_IF_ERROR(ReadEvent(reader.bytes(), event, wanted,
                              [&](const RawStat& stat) { ids.Read(stat, told); }));
    const EventKind& kind = kinds.Find(event.name_id, [&](const xplane::EventName* name) {
      return KindOfHostEvent(name, gathered_.ops);
    });
    const Times times = TimesOf(origin, event);
    if (!Count(event, kind, times)) continue;
    if (told.correlation != 0) gathered_.launches.Add(process, told.correlation, times.begin_ps);
    if (told.flops > 0) gathered_.ops[kind.op].flops += static_cast<std::uint64_t>(told.flops);
    if (told.step)
      AddStep(plane.NameOf(event), *told.step, times, told.batch);
    else if (told.batch.running_before >= 0 && plans_.size() < kMaxSteps &&
             plane.NameOf(event) == kPlanning)
      plans_.emplace_back(times.begin_ps, told.batch.running_before);
    const bool is_work =
        told.is_hlo || told.is_cpu_op || kind.work.kind == WorkKind::kCommunication;
    if (computes_ && is_work) AddWork(plane, event, kind, times, told.is_hlo, work);
    if (!computes_ && is_work) AddCall(kind, plane.NameOf(event), times);
  }
  RETURN_IF_ERROR(reader.status());
  EndLine(std::move(work), steps_before);
  return absl::OkStatus();
}

// Adds an event to the sums of its kind. False if it is an aggregate, which has no time.
bool HostEvents::Count(const xplane::Event& event, const EventKind& kind, const Times& times) {
  const std::int64_t length = times.end_ps - times.begin_ps;
  if (event.occurrences != 0) {
    OpSum& sum = gathered_.ops[kind.op];
    sum.count += static_cast<std::uint64_t>(std::max<std::int64_t>(event.occurrences, 0));
    sum.total_ps = AddSaturated(sum.total_ps, length);
    sum.self_ps = AddSaturated(sum.self_ps, length);
    return false;
  }
  gathered_.Extend(times);
  gathered_.ops.Count(kind.op, length);
  nesting_.Add(times.begin_ps, times.end_ps, kind.op,
               [&](std::uint32_t op, std::int64_t change) { gathered_.ops.AddSelf(op, change); });
  if (kind.work.kind == WorkKind::kInput && input_.line.size() < kMaxSpans)
    input_.line.emplace_back(times.begin_ps, times.end_ps);
  if (kind.work.kind == WorkKind::kGarbageCollection && collection_.line.size() < kMaxSpans)
    collection_.line.emplace_back(times.begin_ps, times.end_ps);
  return true;
}

void HostEvents::AddStep(std::string_view loop, std::int64_t number, const Times& times,
                         const Batch& batch) {
  if (steps_.size() == kMaxSteps) {
    ++steps_left_out_;
    return;
  }
  FoundStep& step = steps_.emplace_back();
  step = {.loop = loop, .number = number, .times = times, .line = lines_, .batch = batch};
  step.batch.running_before = -1;  // It told those that run with it.
}

// Gives each iteration the plan that was made last before it. A plan from before the iteration
// that came before it is another one's.
void HostEvents::JoinPlans() {
  std::sort(plans_.begin(), plans_.end());
  auto plan = plans_.begin();
  std::int64_t before_ps = -kMaxPs;
  for (FoundStep& step : steps_) {
    if (!step.batch.any()) continue;
    plan = std::partition_point(plan, plans_.end(),
                                [&](const auto& one) { return one.first <= step.times.begin_ps; });
    if (plan != plans_.begin() && std::prev(plan)->first >= before_ps)
      step.batch.running_before = std::prev(plan)->second;
    before_ps = step.times.begin_ps;
  }
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
  if (HandsOver(name)) return;
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

// Notes a collective of the host beside a device, or an operator, which is the host's own work.
void HostEvents::AddCall(const EventKind& kind, std::string_view name, const Times& times) {
  const bool is_call = kind.work.kind == WorkKind::kCommunication;
  if (is_call) gathered_.collectives.Add(name, "", kind.work, {}, kNoDevice, times);
  Spans& spans = is_call ? calls_ : operators_.line;
  if (spans.size() < kMaxSpans && (is_call || !HandsOver(name)))
    spans.emplace_back(times.begin_ps, times.end_ps);
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
  operators_.EndLine(has_steps);
}

void HostEvents::Finish() {
  input_.Finish(!steps_.empty());
  collection_.Finish(!steps_.empty());
  operators_.Finish(!steps_.empty());
  Unite(calls_);
  spans_ = {std::move(input_.all), std::move(collection_.all), Without(calls_, operators_.all)};
  std::stable_sort(steps_.begin(), steps_.end(), [](const FoundStep& a, const FoundStep& b) {
    return a.times.begin_ps < b.times.begin_ps;
  });
  JoinPlans();
  gathered_.launches.Sort();
}

}  // namespace strobe::digest

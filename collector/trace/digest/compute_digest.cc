#include "collector/trace/digest/compute_digest.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <tuple>

#include "collector/trace/digest/collective_rows.h"
#include "collector/trace/digest/device_events.h"
#include "collector/trace/digest/device_lines.h"
#include "collector/trace/digest/host_events.h"
#include "collector/trace/digest/process_groups.h"
#include "collector/trace/xplane/names.h"
#include "collector/trace/xplane/summary.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/text/safe_text.h"

namespace strobe::digest {
namespace {

using namespace digest;

// What a digest holds at most, before it is encoded. Each device costs time for each step.
constexpr std::size_t kMaxDigestOps = 2000, kMaxDigestDevices = 256;
constexpr std::size_t kMaxRoleBytes = 63;

// The number of "key": number in JSON. PyTorch writes "distributedInfo": {"rank": 3, ...}.
std::optional<std::uint32_t> IntegerIn(std::string_view json, std::string_view key) {
  const std::size_t found = json.find(StrCat("\"", key, "\""));
  if (found == std::string_view::npos) return std::nullopt;
  std::string_view rest = json.substr(found + key.size() + 2);
  rest.remove_prefix(std::min(rest.find_first_not_of(": "), rest.size()));
  std::uint32_t number = 0;
  const auto read = std::from_chars(rest.data(), rest.data() + rest.size(), number);
  return read.ec == std::errc() ? std::optional(number) : std::nullopt;
}

std::optional<std::uint32_t> RankOf(const xplane::Stat& stat) {
  const std::int64_t rank = stat.Integer().value_or(-1);
  if (rank < 0 || rank > std::numeric_limits<std::int32_t>::max()) return std::nullopt;
  return static_cast<std::uint32_t>(rank);
}

// What the planes without events tell: rank and clock.
absl::Status ReadIdentity(const xplane::Space& space, Digest& digest) {
  if (const xplane::Plane* plane = space.Find(xplane::kTaskEnvironmentPlane)) {
    RETURN_IF_ERROR(plane->ForEachStat([&](const xplane::Stat& stat) {
      const auto* text = std::get_if<std::string_view>(&stat.value);
      if (text == nullptr || plane->NameOf(stat) != "distributedInfo") return;
      digest.rank = IntegerIn(*text, "rank");
      digest.world_size = IntegerIn(*text, "world_size");
      digest.groups = ProcessGroups(*text);
    }));
  }
  if (const xplane::Plane* plane = space.Find(xplane::kStrobePlane)) {
    RETURN_IF_ERROR(plane->ForEachStat([&](const xplane::Stat& stat) {
      const std::string_view name = plane->NameOf(stat);
      if (name == "rank" && RankOf(stat)) digest.rank = RankOf(stat);
      const auto* text = std::get_if<std::string_view>(&stat.value);
      if (name == "role" && text != nullptr) digest.role = CutUtf8(*text, kMaxRoleBytes);
      if (name == "clock_offset_ns") digest.clock_offset_ns = stat.Integer().value_or(0);
      if (name == "clock_error_ns" && stat.Integer().value_or(-1) >= 0)
        digest.clock_error_ns = stat.Integer();
    }));
  }
  if (!space.hostnames.empty()) digest.host = CutUtf8(space.hostnames.front(), 253);
  return absl::OkStatus();
}

// What was recorded, if the trace tells it: from the latest start to the earliest stop.
std::optional<Times> RecordedSpan(const xplane::TraceSummary& summary, std::int64_t zero_ns) {
  if (summary.started_ns == 0 || summary.stopped_ns <= summary.started_ns || zero_ns == 0 ||
      summary.started_ns < zero_ns)
    return std::nullopt;
  constexpr std::int64_t kMaxNs = kMaxPs / 1000;
  return Times{std::min(summary.started_ns - zero_ns, kMaxNs) * 1000,
               std::min(summary.stopped_ns - zero_ns, kMaxNs) * 1000};
}

void Add(const Breakdown& from, Breakdown& to) {
  to.span_ns += from.span_ns;
  to.compute_ns += from.compute_ns;
  to.communication_ns += from.communication_ns;
  to.exposed_communication_ns += from.exposed_communication_ns;
  to.copies_ns += from.copies_ns;
  to.exposed_copies_ns += from.exposed_copies_ns;
}

void Add(const HostTime& from, HostTime& to) {
  to.input_stall_ns += from.input_stall_ns;
  to.garbage_collection_ns += from.garbage_collection_ns;
  to.host_bound_ns += from.host_bound_ns;
}

class Digester {
 public:
  Digester(const xplane::Space& space, const Cancellation* stop,
           std::optional<std::int64_t> zero_ns, Digest& digest)
      : space_(space), zero_ns_(zero_ns), digest_(digest), host_(gathered_, ComputesOnHost(space)) {
    gathered_.stop = stop;
  }

  absl::Status Run() {
    ASSIGN_OR_RETURN(const xplane::TraceSummary summary, xplane::Summarize(space_));
    ASSIGN_OR_RETURN(const std::int64_t told_zero_ns, xplane::TimeZero(space_));
    digest_.zero_ns = zero_ns_.value_or(told_zero_ns);
    RETURN_IF_ERROR(ReadIdentity(space_, digest_));
    recorded_ = RecordedSpan(summary, digest_.zero_ns);
    for (const xplane::Plane& plane : space_.planes) {
      if (xplane::MayHaveThreads(plane.name) && plane.name != xplane::kCollectivesPlane)
        RETURN_IF_ERROR(host_.Read(plane));
    }
    host_.Finish();
    AddSteps();
    RETURN_IF_ERROR(ReadDevices());
    RETURN_IF_ERROR(AddCollectiveRows());
    AddSpan();
    AddHostTimes();
    Finish();
    return absl::OkStatus();
  }

 private:
  static bool AnyDeviceWorks(const xplane::Space& space) {
    return std::any_of(space.planes.begin(), space.planes.end(), [](const xplane::Plane& plane) {
      return IsDevicePlane(plane.name) && HasWork(plane);
    });
  }
  // The host's share is never shown as all work of a program that uses a device.
  static bool ComputesOnHost(const xplane::Space& space) {
    return !AnyDeviceWorks(space) && !TellsOfDevice(space);
  }

  void AddSteps() {
    // The place of the latest step of each thread and loop in digest_.steps.
    std::map<std::pair<std::uint32_t, std::string_view>, std::size_t> last;
    for (const FoundStep& found : host_.steps()) {
      const auto number = digest_.steps.size();
      const auto [before, first] = last.try_emplace({found.line, found.loop}, number);
      if (!first) {
        Step& previous = digest_.steps[before->second];
        if (previous.number < found.number && previous.number + 1 == found.number) {
          previous.end_ns = found.times.begin_ps / 1000;
          previous.followed = true;
        }
        before->second = number;
      }
      digest_.steps.push_back({.loop = gathered_.names.Find(found.loop),
                               .number = found.number,
                               .begin_ns = found.times.begin_ps / 1000,
                               .end_ns = found.times.end_ps / 1000,
                               .annotation_end_ns = found.times.end_ps / 1000,
                               .batch = found.batch});
    }
    digest_.cuts.steps += host_.steps_left_out();
  }

  // The moments between which the devices' time is wanted: of the whole recording and each step.
  SweepPlan MakePlan() const {
    const Times whole = Whole();
    std::vector<std::int64_t> moments = {whole.begin_ps, whole.end_ps};
    for (const Step& step : digest_.steps) {
      moments.push_back(step.begin_ns * 1000);
      moments.push_back(step.end_ns * 1000);
    }
    std::sort(moments.begin(), moments.end());
    moments.erase(std::unique(moments.begin(), moments.end()), moments.end());
    return {std::move(moments), host_.spans()};
  }
  // Returns the recorded span, or all of time if it is not known.
  Times Whole() const { return recorded_.value_or(Times{-kMaxPs, kMaxPs}); }

  absl::Status ReadDevices() {
    const SweepPlan plan = MakePlan();
    for (const xplane::Plane& plane : space_.planes) {
      if (!IsDevicePlane(plane.name)) continue;
      if (digest_.devices.size() == kMaxDigestDevices) {
        ++digest_.cuts.devices;
        continue;
      }
      Device device;
      const auto number = static_cast<std::uint32_t>(digest_.devices.size());
      ASSIGN_OR_RETURN(const TimeSweep sweep, ReadDevice(plane, number, gathered_, plan, device));
      AddDevice(plan, sweep, std::move(device), CountsInMeans(plane));
    }
    // Host work is gathered only if no device has any.
    if (!host_.work().empty()) {
      Device device;
      const TimeSweep sweep = ReadHostWork(host_.work(), plan, device);
      AddDevice(plan, sweep, std::move(device), /*counts_in_means=*/true);
      digest_.knows.host_device = true;
    }
    digest_.knows.device_untold = !AnyDeviceWorks(space_) && TellsOfDevice(space_);
    digest_.knows.device =
        std::any_of(in_means_.begin(), in_means_.end(), [](bool counts) { return counts; });
    return absl::OkStatus();
  }

  // A device's profiler tells more of the same collectives, which would be counted twice. Those of
  // hosts are others, through Gloo or MPI.
  absl::Status AddCollectiveRows() {
    if (gathered_.collectives.any_on_device()) return absl::OkStatus();
    for (const xplane::Plane& plane : space_.planes) {
      if (plane.name == xplane::kCollectivesPlane)
        RETURN_IF_ERROR(ReadCollectiveRows(plane, gathered_));
    }
    return absl::OkStatus();
  }

  // SparseCores are listed, but an idle one does not make its TPU less busy. Neither does a device
  // that the program does not use make those less busy that it does.
  static bool CountsInMeans(const xplane::Plane& plane) {
    return !IsSparseCore(plane.name) && HasWork(plane);
  }

  void AddDevice(const SweepPlan& plan, const TimeSweep& sweep, Device device,
                 bool counts_in_means) {
    const Times whole = Whole();
    const auto [time, host] =
        sweep.Between(plan.NumberOf(whole.begin_ps), plan.NumberOf(whole.end_ps));
    device.time = time;
    digest_.devices.push_back(std::move(device));
    in_means_.push_back(counts_in_means);
    if (!counts_in_means) return;
    Add(host, digest_.host_time);
    for (Step& step : digest_.steps) {
      const auto [step_time, step_host] =
          sweep.Between(plan.NumberOf(step.begin_ns * 1000), plan.NumberOf(step.end_ns * 1000));
      Add(step_time, step.time);
      Add(step_host, step.host);
    }
  }

  // The span of a trace that does not tell it is known only now.
  void AddSpan() {
    Times span{0, 0};
    if (recorded_)
      span = *recorded_;
    else if (gathered_.begin_ps <= gathered_.end_ps)
      span = {gathered_.begin_ps, gathered_.end_ps};
    digest_.begin_ns = span.begin_ps / 1000;
    digest_.end_ns = span.end_ps / 1000;
    std::int64_t devices = 0;
    for (std::size_t i = 0; i < digest_.devices.size(); ++i) {
      Device& device = digest_.devices[i];
      device.time.span_ns = digest_.end_ns - digest_.begin_ns;
      SetIdle(device.time);
      if (!in_means_[i]) continue;
      Add(device.time, digest_.time);
      ++devices;
    }
    Average(devices, digest_.time, digest_.host_time);
    for (Step& step : digest_.steps) Average(devices, step.time, step.host);
  }

  static void SetIdle(Breakdown& time) {
    time.idle_ns = std::max<std::int64_t>(
        time.span_ns - time.compute_ns - time.exposed_communication_ns - time.exposed_copies_ns, 0);
  }

  static void Average(std::int64_t devices, Breakdown& time, HostTime& host) {
    if (devices == 0) return;
    for (std::int64_t* value :
         {&time.span_ns, &time.compute_ns, &time.communication_ns, &time.exposed_communication_ns,
          &time.copies_ns, &time.exposed_copies_ns, &host.input_stall_ns,
          &host.garbage_collection_ns, &host.host_bound_ns})
      *value /= devices;
    SetIdle(time);
  }

  void AddHostTimes() {
    const auto add = [&](std::int64_t begin_ns, std::int64_t end_ns, HostTime& host) {
      host.input_ns = TimeWithin(host_.spans().input, begin_ns * 1000, end_ns * 1000) / 1000;
      if (digest_.knows.device) return;
      host.input_stall_ns = host.input_ns;
      host.garbage_collection_ns =
          TimeWithin(host_.spans().collection, begin_ns * 1000, end_ns * 1000) / 1000;
    };
    add(digest_.begin_ns, digest_.end_ns, digest_.host_time);
    for (Step& step : digest_.steps) add(step.begin_ns, step.end_ns, step.host);
  }

  void Finish() {
    digest_.events = gathered_.events;
    digest_.knows.launches = gathered_.joins_launches && !digest_.knows.host_device;
    digest_.knows.input = !host_.spans().input.empty();
    digest_.knows.garbage_collection = !host_.spans().collection.empty();
    digest_.knows.steps = !digest_.steps.empty();
    digest_.ops = gathered_.ops.Top(
        kMaxDigestOps, [&](std::string_view name) { return gathered_.names.Find(name); });
    if (gathered_.ops.size() > digest_.ops.size())
      digest_.cuts.ops += gathered_.ops.size() - digest_.ops.size();
    digest_.cuts.ops += gathered_.ops.uncounted();
    std::move(gathered_.collectives).Finish(digest_);
    digest_.names = std::move(gathered_.names).Take();
  }

  const xplane::Space& space_;
  const std::optional<std::int64_t> zero_ns_;
  Digest& digest_;
  Gathered gathered_{};
  HostEvents host_;
  std::optional<Times> recorded_{};
  std::vector<bool> in_means_{};  // For each of digest_.devices.
};

}  // namespace

absl::StatusOr<Digest> ComputeDigest(const xplane::Space& space, std::string_view worker,
                                     const Cancellation* stop,
                                     std::optional<std::int64_t> zero_ns) {
  Digest digest{.worker = CutUtf8(worker, Names::kMaxBytes)};
  Digester digester(space, stop, zero_ns, digest);
  RETURN_IF_ERROR(digester.Run());
  return digest;
}

bool MayHaveCollectives(const xplane::Space& space) {
  const auto is_communication = [](WorkKind kind) { return kind == WorkKind::kCommunication; };
  for (const xplane::Plane& plane : space.planes) {
    const std::int64_t category_id = plane.StatId("hlo_category");
    if (plane.StatId("Collective name") != 0) return true;
    for (const auto& [id, name] : plane.event_names) {
      std::string_view category;
      // A damaged stat of a name tells nothing, to the digest as well.
      (void)plane.ForEachKindStat(name, [&](const xplane::Stat& stat) {
        const auto* text = std::get_if<std::string_view>(&stat.value);
        if (stat.name_id == category_id && text != nullptr) category = *text;
      });
      // The events may tell it instead.
      if (category_id != 0 && category.empty()) return true;
      for (const bool is_hlo : {false, true}) {
        if (is_communication(ClassifyDeviceWork(name.shown(), category, is_hlo).kind)) return true;
      }
      if (is_communication(ClassifyHostEvent(name.shown()))) return true;
    }
  }
  return false;
}

}  // namespace strobe::digest

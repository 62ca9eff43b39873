#include "collector/trace/tally/device_tally.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>
#include <string>
#include <system_error>
#include <unordered_map>
#include <utility>

#include "collector/trace/digest/classify.h"
#include "collector/trace/digest/collective_rows.h"
#include "collector/trace/digest/collectives.h"
#include "collector/trace/digest/device_lines.h"
#include "collector/trace/digest/time_sweep.h"
#include "collector/trace/tally/track_reader.h"
#include "collector/trace/xplane/names.h"
#include "common/base/saturated.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"

namespace strobe::tally {
namespace {

using digest::LineRole;
using digest::WorkClass;

// Computations and collectives of one device that are kept to tell which time is exposed.
constexpr std::size_t kMaxComputations = std::size_t{1} << 21,
                      kMaxExposedCalls = std::size_t{1} << 18;
constexpr std::string_view kProgramsLine = "XLA Modules", kOccupancy = " occ_pct:";

std::string_view KindName(const WorkClass& work, bool is_stream) {
  switch (work.kind) {
    case digest::WorkKind::kCommunication:
      return "communication";
    case digest::WorkKind::kCopy:
      return "copy";
    case digest::WorkKind::kInput:
      return "input";
    default:
      return is_stream ? "kernel" : "operation";
  }
}

// Counts a call of a collective, and returns the number of its row.
std::uint32_t CountCall(std::string_view name, std::string_view kind,
                        digest::CollectiveKind collective,
                        const digest::CollectiveStats::Values& told, std::int64_t length_ps,
                        RowTable& communication) {
  std::string group(told.group);
  if (!told.description.empty() && told.description != "undefined")
    group = StrCat(group, group.empty() ? "" : " ", told.description);
  const std::uint32_t number = communication.FindOfGroup(name, kind, group);
  TallyRow& call = communication[number];
  if (call.count == 0) {
    call.collective = collective == digest::CollectiveKind::kOther
                          ? digest::CollectiveKindOf(told.name)
                          : collective;
    call.ranks = told.size;
  }
  communication.Count(number, length_ps, length_ps);
  call.bytes += std::min(told.bytes, (std::uint64_t{1} << 62) - call.bytes);
  return number;
}

class DeviceTally {
 public:
  DeviceTally(Gathering& gathering, const index::Plane& plane, const xplane::Plane& outline)
      : gathering_(gathering), index_(*gathering.source.index), plane_(plane), lines_(outline) {}

  absl::Status Run() {
    for (const index::Row& row : index_.rows(plane_)) RETURN_IF_ERROR(AddRow(row));
    AddExposure();
    return absl::OkStatus();
  }

 private:
  // What is known of the events of a row that share a name.
  struct NameFacts {
    WorkClass work{};
    std::uint32_t row = 0;
    std::uint64_t flops = 0, accessed_bytes = 0;  // What each event takes.
  };
  // What XLA says of an operation.
  struct XlaFacts {
    std::string_view category{};
    std::uint64_t flops = 0, accessed_bytes = 0;
  };
  // An event whose inner ones are still to come.
  struct Open {
    std::uint32_t row = 0;
    std::int64_t begin_ps = 0, end_ps = 0, inside_ps = 0;
    bool computes = false;
  };
  struct Call {
    std::uint32_t row = 0;
    std::int64_t begin_ps = 0, end_ps = 0;
  };

  absl::Status AddRow(const index::Row& row) {
    if (row.kind == index::RowKind::kCounter) return absl::OkStatus();
    xplane::Line line;
    line.name = index_.Text(row.name);
    line.events = row.events;
    if (line.name == kProgramsLine) RETURN_IF_ERROR(AddNames(row, gathering_.modules, "program"));
    const LineRole role = lines_.RoleOf(line.name);
    if (role == LineRole::kScopes)
      return AddNames(row, gathering_.modules, row.derived != 0 ? "scope" : ScopeKind(line.name));
    if (row.derived != 0 || role == LineRole::kNone) return absl::OkStatus();
    plane_names_ = gathering_.source.PlaneOf(row);
    if (plane_names_ == nullptr) return absl::DataLossError("the index does not fit the trace");
    details_id_ = plane_names_->StatId("kernel_details");
    is_stream_ = role == LineRole::kWork && !lines_.is_hlo() && !lines_.coarse();
    names_.clear();
    for (const auto& lane : LanesOf(index_, row)) {
      for (const std::uint32_t track : lane) gathering_.is_work[track] = true;
      RETURN_IF_ERROR(AddLane(row, line, role, lane));
    }
    return absl::OkStatus();
  }

  static std::string_view ScopeKind(std::string_view line) {
    return line.ends_with("_annotation") ? "annotation" : "scope";
  }

  // Sums the events of a row as they nest, whatever they are.
  absl::Status AddNames(const index::Row& row, RowTable& table, std::string_view kind) {
    for (const auto& lane : LanesOf(index_, row)) {
      std::vector<Open> open;
      const auto close = [&] {
        const Open last = open.back();
        open.pop_back();
        const std::int64_t length = last.end_ps - last.begin_ps;
        table.Count(last.row, length, std::max<std::int64_t>(length - last.inside_ps, 0));
        if (!open.empty()) open.back().inside_ps = AddSaturated(open.back().inside_ps, length);
      };
      for (LaneReader reader(index_, lane, Links::kLeftOut); reader.next() != nullptr;
           reader.Advance()) {
        RETURN_IF_ERROR(gathering_.CheckGone());
        const index::Entry& entry = reader.next()->entry();
        while (open.size() > reader.next()->depth()) close();
        open.push_back({.row = table.Find(index_.Text(entry.name), kind),
                        .begin_ps = entry.begin_ps,
                        .end_ps = entry.end_ps()});
      }
      while (!open.empty()) close();
    }
    return absl::OkStatus();
  }

  absl::Status AddLane(const index::Row& row, const xplane::Line& line, LineRole role,
                       const std::vector<std::uint32_t>& lane) {
    const bool nested = role == LineRole::kNestedWork;
    open_.clear();
    at_ps_ = std::numeric_limits<std::int64_t>::min();
    for (LaneReader reader(index_, lane, Links::kLeftOut); reader.next() != nullptr;
         reader.Advance()) {
      RETURN_IF_ERROR(gathering_.CheckGone());
      const index::Entry entry = reader.next()->entry();
      ASSIGN_OR_RETURN(const NameFacts facts, FactsOf(row, line, entry));
      const bool computes = facts.work.kind == digest::WorkKind::kCompute;
      if (nested) {
        while (open_.size() > reader.next()->depth()) Close();
        if (!open_.empty()) AddComputation(open_.back(), entry.begin_ps);
        open_.push_back({.row = facts.row,
                         .begin_ps = entry.begin_ps,
                         .end_ps = entry.end_ps(),
                         .computes = computes});
        at_ps_ = entry.begin_ps;
      } else {
        gathering_.kernels.Count(facts.row, entry.duration_ps, entry.duration_ps);
        if (computes) AddComputation({entry.begin_ps, entry.end_ps()});
      }
      TallyRow& kernel = gathering_.kernels[facts.row];
      kernel.flops += facts.flops;
      kernel.accessed_bytes += facts.accessed_bytes;
      if (details_id_ != 0) RETURN_IF_ERROR(AddLaunch(row, entry, kernel));
      if (facts.work.kind == digest::WorkKind::kCommunication)
        RETURN_IF_ERROR(AddCall(row, line, entry, facts.work));
    }
    while (!open_.empty()) Close();
    return absl::OkStatus();
  }

  // Ends the innermost open event.
  void Close() {
    const Open last = open_.back();
    open_.pop_back();
    AddComputation(last, last.end_ps);
    at_ps_ = std::max(at_ps_, last.end_ps);
    const std::int64_t length = last.end_ps - last.begin_ps;
    gathering_.kernels.Count(last.row, length, std::max<std::int64_t>(length - last.inside_ps, 0));
    if (!open_.empty()) open_.back().inside_ps = AddSaturated(open_.back().inside_ps, length);
  }

  // The innermost event has run alone since the last begin or end.
  void AddComputation(const Open& innermost, std::int64_t until_ps) {
    if (innermost.computes) AddComputation({std::max(at_ps_, innermost.begin_ps), until_ps});
  }

  void AddComputation(std::pair<std::int64_t, std::int64_t> span) {
    if (span.second <= span.first) return;
    if (!computations_.empty() && computations_.back().first <= span.first &&
        span.first <= computations_.back().second) {
      computations_.back().second = std::max(computations_.back().second, span.second);
    } else if (computations_.size() < kMaxComputations) {
      computations_.push_back(span);
    } else {
      knows_exposure_ = false;
    }
  }

  // What the first event of a name in the row tells of all of them, as the digest takes it.
  absl::StatusOr<NameFacts> FactsOf(const index::Row& row, const xplane::Line& line,
                                    const index::Entry& entry) {
    if (const auto found = names_.find(entry.name); found != names_.end()) return found->second;
    ASSIGN_OR_RETURN(const std::string_view bytes, gathering_.source.BytesOf(row, entry));
    xplane::Event event;
    RETURN_IF_ERROR(xplane::ParseEvent(bytes, event));
    NameFacts facts;
    const XlaFacts xla = XlaFactsOf(event);
    const std::string_view name = index_.Text(entry.name);
    if (!lines_.coarse()) {
      facts.work = digest::ClassifyDeviceWork(name, xla.category, lines_.is_hlo());
      if (facts.work.kind == digest::WorkKind::kCompute && !lines_.is_hlo()) {
        const WorkClass by_stats = digest::ClassifyByStats(*plane_names_, line, event);
        if (by_stats.kind != digest::WorkKind::kCompute) facts.work = by_stats;
      }
    }
    // The operations inside tell their own.
    if (!facts.work.contains_others) {
      facts.flops = xla.flops;
      facts.accessed_bytes = xla.accessed_bytes;
    }
    facts.row = gathering_.kernels.Find(name, KindName(facts.work, is_stream_));
    std::string_view& category = gathering_.kernels[facts.row].category;
    if (category.empty()) category = xla.category;
    names_.emplace(entry.name, facts);
    return facts;
  }

  // What XLA says of the name; its category, if not of the name, of the event itself. A damaged
  // stat tells nothing.
  XlaFacts XlaFactsOf(const xplane::Event& event) const {
    const std::int64_t category_id = plane_names_->StatId("hlo_category");
    const std::int64_t flops_id = plane_names_->StatId("flops"),
                       bytes_id = plane_names_->StatId("bytes_accessed");
    XlaFacts facts;
    if (category_id == 0 && flops_id == 0 && bytes_id == 0) return facts;
    const auto read_category = [&](const xplane::Stat& stat) {
      const auto* text = std::get_if<std::string_view>(&stat.value);
      const bool told = stat.name_id == category_id && category_id != 0 && text != nullptr;
      if (told && facts.category.empty()) facts.category = *text;
    };
    const auto name = plane_names_->event_names.find(event.name_id);
    if (name != plane_names_->event_names.end()) {
      (void)plane_names_->ForEachKindStat(name->second, [&](const xplane::Stat& stat) {
        read_category(stat);
        if (stat.name_id == 0) return;
        const std::int64_t natural = std::max<std::int64_t>(stat.Integer().value_or(0), 0);
        if (stat.name_id == flops_id) facts.flops = static_cast<std::uint64_t>(natural);
        if (stat.name_id == bytes_id) facts.accessed_bytes = static_cast<std::uint64_t>(natural);
      });
    }
    if (facts.category.empty()) (void)xplane::ForEachStat(*plane_names_, event, read_category);
    return facts;
  }

  absl::Status AddLaunch(const index::Row& row, const index::Entry& entry, TallyRow& kernel) {
    ASSIGN_OR_RETURN(const std::string_view details,
                     gathering_.source.TextOf(*plane_names_, row, entry, details_id_));
    if (details.empty()) return absl::OkStatus();
    const std::size_t at = details.find(kOccupancy);
    const std::string_view launch = details.substr(0, at);
    if (kernel.launch.empty()) kernel.launch = launch;
    kernel.launches_differ = kernel.launches_differ || kernel.launch != launch;
    if (at == std::string_view::npos) return absl::OkStatus();
    const std::string_view percent = details.substr(at + kOccupancy.size());
    double occupancy = 0;
    const auto read = std::from_chars(percent.data(), percent.data() + percent.size(), occupancy);
    if (read.ec != std::errc() || !(occupancy >= 0 && occupancy <= 100)) return absl::OkStatus();
    const auto length = static_cast<double>(entry.duration_ps);
    kernel.occupancy_ps += occupancy * length;
    kernel.occupancy_of_ps += length;
    return absl::OkStatus();
  }

  absl::Status AddCall(const index::Row& row, const xplane::Line& line, const index::Entry& entry,
                       const WorkClass& work) {
    // The begin and the end of an asynchronous operation, if another line shows all of it.
    if (work.phase != WorkClass::kWhole && lines_.has_async() &&
        !digest::DeviceLines::IsAsync(line.name))
      return absl::OkStatus();
    ASSIGN_OR_RETURN(const std::string_view bytes, gathering_.source.BytesOf(row, entry));
    if (stats_of_ != plane_names_) {
      stats_.emplace(*plane_names_);
      stats_of_ = plane_names_;
    }
    ASSIGN_OR_RETURN(const digest::CollectiveStats::Values values, stats_->Read(bytes));
    const std::string_view name = digest::WithoutArguments(index_.Text(entry.name));
    const std::uint32_t number = CountCall(name, kOfDevice, work.collective, values,
                                           entry.duration_ps, gathering_.communication);
    TallyRow& call = gathering_.communication[number];
    if (call.count == 1) call.exposed_ps = 0;
    if (calls_.size() < kMaxExposedCalls)
      calls_.push_back({number, entry.begin_ps, entry.end_ps()});
    else
      knows_exposure_ = false;
    return absl::OkStatus();
  }

  void AddExposure() {
    digest::Unite(computations_);
    // By how many of the computations there are before: how long they take together.
    std::vector<std::int64_t> sums = {0};
    sums.reserve(computations_.size() + 1);
    for (const auto& [begin_ps, end_ps] : computations_)
      sums.push_back(AddSaturated(sums.back(), end_ps - begin_ps));
    const auto computed_until = [&](std::int64_t at_ps) {
      const auto next = std::partition_point(computations_.begin(), computations_.end(),
                                             [&](const auto& span) { return span.first < at_ps; });
      const auto before = static_cast<std::size_t>(next - computations_.begin());
      const std::int64_t beyond =
          before == 0 ? 0 : std::max<std::int64_t>(computations_[before - 1].second - at_ps, 0);
      return sums[before] - beyond;
    };
    for (const Call& call : calls_) {
      std::optional<std::int64_t>& exposed = gathering_.communication[call.row].exposed_ps;
      if (!knows_exposure_) exposed.reset();
      if (!exposed) continue;
      const std::int64_t hidden = computed_until(call.end_ps) - computed_until(call.begin_ps);
      exposed = AddSaturated(*exposed, call.end_ps - call.begin_ps - hidden);
    }
  }

  Gathering& gathering_;
  const index::Index& index_;
  const index::Plane& plane_;
  const digest::DeviceLines lines_;
  const xplane::Plane* plane_names_ = nullptr;  // Names and stats of the row's events.
  std::int64_t details_id_ = 0;
  bool is_stream_ = false;
  std::unordered_map<std::uint32_t, NameFacts> names_{};
  std::optional<digest::CollectiveStats> stats_{};
  const xplane::Plane* stats_of_ = nullptr;
  std::vector<Open> open_{};
  std::int64_t at_ps_ = 0;  // The last begin or end in the lane.
  digest::Spans computations_{};
  std::vector<Call> calls_{};
  bool knows_exposure_ = true;
};

// Adds the calls of the plane with the collectives that programs told themselves. How long those
// without devices' times took is not known: such a call ends once it is handed over.
absl::Status AddCollectives(const index::Plane& plane, const xplane::Plane& outline,
                            Gathering& gathering) {
  const index::Index& index = *gathering.source.index;
  const digest::CollectiveLines lines(outline);
  for (const index::Row& row : index.rows(plane)) {
    const std::string_view line = index.Text(row.name);
    if (row.kind == index::RowKind::kCounter || row.derived != 0 || !lines.Count(line)) continue;
    const xplane::Plane* names = gathering.source.PlaneOf(row);
    if (names == nullptr) return absl::DataLossError("the index does not fit the trace");
    const digest::CollectiveStats stats(*names);
    const std::string_view kind = digest::CollectiveLines::IsMeasured(line) ? kOfDevice : kOfHost;
    for (LaneReader reader(index, TracksOf(row), Links::kLeftOut); reader.next() != nullptr;
         reader.Advance()) {
      RETURN_IF_ERROR(gathering.CheckGone());
      const index::Entry& entry = reader.next()->entry();
      ASSIGN_OR_RETURN(const std::string_view bytes, gathering.source.BytesOf(row, entry));
      ASSIGN_OR_RETURN(const digest::CollectiveStats::Values told, stats.Read(bytes));
      CountCall(index.Text(entry.name), kind, digest::CollectiveKind::kOther, told,
                entry.duration_ps, gathering.communication);
    }
  }
  return absl::OkStatus();
}

}  // namespace

xplane::Plane OutlineOf(const index::Index& index, const index::Plane& plane) {
  xplane::Plane outline;
  outline.name = index.Text(plane.name);
  for (const index::Row& row : index.rows(plane)) {
    if (row.derived != 0 || row.kind == index::RowKind::kCounter) continue;
    xplane::Line line;
    line.id = row.id;
    line.name = index.Text(row.name);
    line.events = row.events;
    outline.lines.push_back(line);
  }
  return outline;
}

absl::Status AddDevices(Gathering& gathering) {
  const index::Index& index = *gathering.source.index;
  gathering.is_work.assign(index.tracks().size(), false);
  for (const index::Plane& plane : index.planes()) {
    const xplane::Plane outline = OutlineOf(index, plane);
    if (!digest::IsDevicePlane(outline.name)) continue;
    DeviceTally tally(gathering, plane, outline);
    RETURN_IF_ERROR(tally.Run());
  }
  // What a device's profiler tells of the same collectives is more, and would be counted twice.
  if (!gathering.communication.empty()) return absl::OkStatus();
  for (const index::Plane& plane : index.planes()) {
    if (index.Text(plane.name) == xplane::kCollectivesPlane)
      RETURN_IF_ERROR(AddCollectives(plane, OutlineOf(index, plane), gathering));
  }
  return absl::OkStatus();
}

}  // namespace strobe::tally

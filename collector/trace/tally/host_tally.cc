#include "collector/trace/tally/host_tally.h"

#include <algorithm>
#include <limits>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "collector/trace/digest/classify.h"
#include "collector/trace/tally/host_names.h"
#include "collector/trace/tally/track_reader.h"
#include "collector/trace/xplane/names.h"
#include "common/base/saturated.h"
#include "common/base/status_macros.h"

namespace strobe::tally {
namespace {

// PyTorch's profiler sums its steps under this name, whatever their numbers.
constexpr std::string_view kAllSteps = "ProfilerStep*";

class HostTally {
 public:
  explicit HostTally(Gathering& gathering)
      : gathering_(gathering), index_(*gathering.source.index), durations_(index_) {}

  absl::Status AddPlane(const index::Plane& plane) {
    facts_.clear();
    for (const index::Row& row : index_.rows(plane)) {
      if (row.kind == index::RowKind::kCounter || row.derived != 0) continue;
      RETURN_IF_ERROR(AddRow(row));
    }
    return absl::OkStatus();
  }

  bool joins_launches() const { return joins_launches_; }

 private:
  static constexpr std::size_t kNoFrame = static_cast<std::size_t>(-1);
  // How many frames are looked at for the one around an event. More are open only where very many
  // events overlap without nesting.
  static constexpr std::size_t kMaxSearched = 1024;

  // What is known of the events of a plane that share a name.
  struct NameFacts {
    HostKind kind = HostKind::kNone;
    std::uint32_t row = 0;  // In its table, if it is in one.
    bool communicates = false;
  };
  // An event of a table whose inner ones are still to come.
  struct Frame {
    NameFacts facts{};
    std::int64_t begin_ps = 0, end_ps = 0, inside_ps = 0;
    std::size_t outer = kNoFrame;  // The innermost one around it.
    std::int64_t device_ps = 0;    // What was launched inside.
    // How many events of its table lie directly inside, and the row, length and work of the last.
    std::size_t inner = 0;
    std::uint32_t inner_row = 0;
    std::int64_t inner_length_ps = 0, inner_device_ps = 0;
  };
  // The events of one table that may be around the next one, in the order of their begins. What is
  // in no table, such as Python's functions, has no say in how these nest: an annotation may begin
  // in one function and end in another.
  struct Frames {
    RowTable& table;
    std::vector<Frame> open{};

    // The innermost frame around an event; kNoFrame if there is none.
    std::size_t Around(const index::Entry& entry) const {
      const std::size_t least = open.size() - std::min(open.size(), kMaxSearched);
      for (std::size_t at = open.size(); at > least; --at) {
        const std::int64_t end_ps = open[at - 1].end_ps;
        if (end_ps > entry.begin_ps && end_ps >= entry.end_ps()) return at - 1;
      }
      return kNoFrame;
    }
    std::size_t Open(const NameFacts& facts, const index::Entry& entry, std::size_t outer) {
      open.push_back(
          {.facts = facts, .begin_ps = entry.begin_ps, .end_ps = entry.end_ps(), .outer = outer});
      return open.size() - 1;
    }
  };

  static bool IsInOperators(HostKind kind) {
    return kind == HostKind::kOperator || kind == HostKind::kAnnotation ||
           kind == HostKind::kRuntime;
  }

  // What the first event of a name in the plane tells of all of them.
  absl::StatusOr<NameFacts> FactsOf(const index::Row& row, const index::Entry& entry) {
    if (const auto found = facts_.find(entry.name); found != facts_.end()) return found->second;
    NameFacts facts;
    ASSIGN_OR_RETURN(facts.kind, ReadHostKind(gathering_.source, row, entry));
    std::string_view name = index_.Text(entry.name);
    facts.communicates = facts.kind == HostKind::kOperator &&
                         digest::ClassifyHostEvent(name) == digest::WorkKind::kCommunication;
    if (name.starts_with(xplane::kTorchStep) &&
        name.substr(xplane::kTorchStep.size()).starts_with('#'))
      name = kAllSteps;
    if (facts.kind == HostKind::kModule || IsInOperators(facts.kind)) {
      const Frames& frames = facts.kind == HostKind::kModule ? modules_ : operators_;
      facts.row = frames.table.Find(name, HostKindName(facts.kind));
    }
    facts_.emplace(entry.name, facts);
    return facts;
  }

  absl::Status AddRow(const index::Row& row) {
    plane_names_ = gathering_.source.PlaneOf(row);
    if (plane_names_ == nullptr) return absl::DataLossError("the index does not fit the trace");
    shapes_id_ = plane_names_->StatId("Input Dims");
    for (LaneReader reader(index_, TracksOf(row), Links::kRead); reader.next() != nullptr;
         reader.Advance()) {
      RETURN_IF_ERROR(gathering_.CheckGone());
      const index::Entry entry = reader.next()->entry();
      ASSIGN_OR_RETURN(const NameFacts facts, FactsOf(row, entry));
      CloseUntil(entry.begin_ps, operators_);
      CloseUntil(entry.begin_ps, modules_);
      std::size_t operators = operators_.Around(entry), modules = modules_.Around(entry);
      if (IsInOperators(facts.kind)) operators = operators_.Open(facts, entry, operators);
      if (facts.kind == HostKind::kModule) modules = modules_.Open(facts, entry, modules);
      if (facts.kind == HostKind::kOperator && shapes_id_ != 0)
        RETURN_IF_ERROR(AddShapes(row, entry, gathering_.operators[facts.row]));
      const std::span<const index::LinkTarget> links = reader.next()->links();
      if (!links.empty()) AddLaunches(operators, modules, links);
      if (facts.communicates) AddCall(entry);
    }
    CloseUntil(std::numeric_limits<std::int64_t>::max(), operators_);
    CloseUntil(std::numeric_limits<std::int64_t>::max(), modules_);
    return absl::OkStatus();
  }

  absl::Status AddShapes(const index::Row& row, const index::Entry& entry, TallyRow& called) const {
    if (called.shapes_differ) return absl::OkStatus();  // No call can change that.
    ASSIGN_OR_RETURN(const std::string_view shapes,
                     gathering_.source.TextOf(*plane_names_, row, entry, shapes_id_));
    if (shapes.empty()) return absl::OkStatus();
    if (called.shapes.empty()) called.shapes = shapes;
    called.shapes_differ = called.shapes != shapes;
    return absl::OkStatus();
  }

  static void CloseUntil(std::int64_t at_ps, Frames& frames) {
    while (!frames.open.empty() && frames.open.back().end_ps <= at_ps) Close(frames);
  }

  // Ends the last one of a table's events.
  static void Close(Frames& frames) {
    const Frame last = frames.open.back();
    frames.open.pop_back();
    const std::int64_t length = last.end_ps - last.begin_ps;
    frames.table.Count(last.facts.row, length, std::max<std::int64_t>(length - last.inside_ps, 0));
    if (last.inner == 1 && last.inner_row == last.facts.row && IsInOperators(last.facts.kind))
      Join(last, frames.table[last.facts.row]);
    if (last.outer == kNoFrame) return;
    Frame& outer = frames.open[last.outer];
    outer.inside_ps = AddSaturated(outer.inside_ps, length);
    ++outer.inner;
    outer.inner_row = last.facts.row;
    outer.inner_length_ps = length;
    outer.inner_device_ps = last.device_ps;
  }

  // An operator that only calls one of the same name counts once, as in PyTorch's averages: the
  // dispatcher calls many a second time. The sum of their self times stays what it is.
  static void Join(const Frame& outer, TallyRow& row) {
    --row.count;
    row.total_ps -= outer.inner_length_ps;
    row.device_ps -= outer.inner_device_ps;
  }

  // An event launches work. Its own frames and those around it take a part in that. Two conventions
  // may tell of one launch.
  void AddLaunches(std::size_t operators, std::size_t modules,
                   std::span<const index::LinkTarget> links) {
    launched_.clear();
    for (const index::LinkTarget& link : links) {
      if (gathering_.is_work[link.track]) launched_.emplace_back(link.track, link.other);
    }
    std::ranges::sort(launched_);
    launched_.erase(std::unique(launched_.begin(), launched_.end()), launched_.end());
    for (const auto& [track, ordinal] : launched_) {
      const index::Entry work = durations_.At(track, ordinal);
      AddWork(operators, work.duration_ps, operators_);
      AddWork(modules, work.duration_ps, modules_);
      NoteLauncher(operators, work);
    }
  }

  // Adds work to a frame, and to those around it in the same table.
  void AddWork(std::size_t innermost, std::int64_t length_ps, Frames& frames) {
    bool is_first = true;
    for (std::size_t at = innermost; at != kNoFrame; at = frames.open[at].outer) {
      Frame& frame = frames.open[at];
      // The call of the runtime is how the operator around it launched the work.
      if (frame.facts.kind == HostKind::kRuntime) continue;
      TallyRow& row = frames.table[frame.facts.row];
      row.device_ps = AddSaturated(row.device_ps, length_ps);
      frame.device_ps = AddSaturated(frame.device_ps, length_ps);
      if (std::exchange(is_first, false))
        row.device_self_ps = AddSaturated(row.device_self_ps, length_ps);
      joins_launches_ = true;
    }
  }

  void NoteLauncher(std::size_t innermost, const index::Entry& work) {
    const std::vector<Frame>& open = operators_.open;
    std::size_t at = innermost;
    while (at != kNoFrame && open[at].facts.kind == HostKind::kRuntime) at = open[at].outer;
    if (at == kNoFrame) return;
    const std::string_view name = gathering_.operators[open[at].facts.row].name;
    TallyRow* kernel = gathering_.kernels.Existing(index_.Text(work.name));
    if (kernel == nullptr) return;
    if (kernel->launched_by.empty()) kernel->launched_by = name;
    kernel->launchers_differ = kernel->launchers_differ || kernel->launched_by != name;
  }

  void AddCall(const index::Entry& entry) {
    const std::string_view name = index_.Text(entry.name);
    const std::uint32_t number = gathering_.communication.FindOfGroup(name, kOfHost, "");
    gathering_.communication.Count(number, entry.duration_ps, entry.duration_ps);
    gathering_.communication[number].collective = digest::CollectiveKindOf(name);
  }

  Gathering& gathering_;
  const index::Index& index_;
  const xplane::Plane* plane_names_ = nullptr;  // Names and stats of the row's events.
  std::int64_t shapes_id_ = 0;
  Durations durations_;
  std::unordered_map<std::uint32_t, NameFacts> facts_{};
  Frames operators_{.table = gathering_.operators}, modules_{.table = gathering_.modules};
  std::vector<std::pair<std::uint32_t, std::uint64_t>> launched_{};  // Track and ordinal.
  bool joins_launches_ = false;
};

}  // namespace

absl::StatusOr<bool> AddHost(Gathering& gathering) {
  HostTally tally(gathering);
  for (const index::Plane& plane : gathering.source.index->planes()) {
    const std::string_view name = gathering.source.index->Text(plane.name);
    if (!xplane::MayHaveThreads(name) || name == xplane::kCollectivesPlane) continue;
    RETURN_IF_ERROR(tally.AddPlane(plane));
  }
  return tally.joins_launches();
}

}  // namespace strobe::tally

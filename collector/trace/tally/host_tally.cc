#include "collector/trace/tally/host_tally.h"

#include <algorithm>
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
    HostKinds kinds(gathering_.source);
    facts_.clear();
    for (std::uint32_t r = plane.first_row;
         r - plane.first_row < plane.rows && r < index_.rows().size(); ++r) {
      const index::Row& row = index_.rows()[r];
      if (row.kind == index::RowKind::kCounter || row.derived != 0) continue;
      for (const auto& lane : LanesOf(index_, row)) RETURN_IF_ERROR(AddLane(row, lane, kinds));
    }
    return absl::OkStatus();
  }

  bool joins_launches() const { return joins_launches_; }

 private:
  static constexpr std::size_t kNoFrame = static_cast<std::size_t>(-1);

  // What is known of the events of a plane that share a name.
  struct NameFacts {
    HostKind kind = HostKind::kNone;
    std::uint32_t row = 0;  // In its table, if it is in one.
    bool communicates = false;
  };
  // An event whose inner ones are still to come.
  struct Frame {
    NameFacts facts{};
    std::int64_t begin_ps = 0, end_ps = 0, inside_ps = 0;
    // The frames around it, and itself, that are in the table of operators and in that of modules:
    // the innermost of each.
    std::size_t operators = kNoFrame, modules = kNoFrame;
    // The innermost one around it in its own table.
    std::size_t outer = kNoFrame;
    std::int64_t device_ps = 0;  // What was launched inside.
    // How many events of its table lie directly inside, and the row, length and work of the last.
    std::size_t inner = 0;
    std::uint32_t inner_row = 0;
    std::int64_t inner_length_ps = 0, inner_device_ps = 0;
  };

  RowTable* TableOf(HostKind kind) {
    if (kind == HostKind::kModule) return &gathering_.modules;
    return IsInOperators(kind) ? &gathering_.operators : nullptr;
  }
  static bool IsInOperators(HostKind kind) {
    return kind == HostKind::kOperator || kind == HostKind::kAnnotation ||
           kind == HostKind::kRuntime;
  }

  absl::StatusOr<NameFacts> FactsOf(const index::Row& row, const index::Entry& entry,
                                    HostKinds& kinds) {
    if (const auto found = facts_.find(entry.name); found != facts_.end()) return found->second;
    NameFacts facts;
    ASSIGN_OR_RETURN(facts.kind, kinds.Find(row, entry));
    std::string_view name = index_.Text(entry.name);
    facts.communicates = facts.kind == HostKind::kOperator &&
                         digest::ClassifyHostEvent(name) == WorkKind::kCommunication;
    if (name.starts_with(xplane::kTorchStep) &&
        name.substr(xplane::kTorchStep.size()).starts_with('#'))
      name = kAllSteps;
    if (RowTable* table = TableOf(facts.kind))
      facts.row = table->Find(name, HostKindName(facts.kind));
    facts_.emplace(entry.name, facts);
    return facts;
  }

  absl::Status AddLane(const index::Row& row, const std::vector<std::uint32_t>& lane,
                       HostKinds& kinds) {
    frames_.clear();
    for (LaneReader reader(index_, lane, Links::kRead); reader.next() != nullptr;
         reader.Advance()) {
      RETURN_IF_ERROR(gathering_.CheckGone());
      const index::Entry entry = reader.next()->entry();
      ASSIGN_OR_RETURN(const NameFacts facts, FactsOf(row, entry, kinds));
      while (frames_.size() > reader.next()->depth()) Close();
      Open(facts, entry);
      const std::span<const index::LinkTarget> links = reader.next()->links();
      if (!links.empty()) AddLaunches(links);
      if (facts.communicates) AddCall(entry);
    }
    while (!frames_.empty()) Close();
    return absl::OkStatus();
  }

  void Open(const NameFacts& facts, const index::Entry& entry) {
    Frame frame{.facts = facts, .begin_ps = entry.begin_ps, .end_ps = entry.end_ps()};
    if (!frames_.empty()) {
      frame.operators = frames_.back().operators;
      frame.modules = frames_.back().modules;
    }
    const std::size_t own = frames_.size();
    if (facts.kind == HostKind::kModule) {
      frame.outer = std::exchange(frame.modules, own);
    } else if (IsInOperators(facts.kind)) {
      frame.outer = std::exchange(frame.operators, own);
    }
    frames_.push_back(frame);
  }

  // Ends the innermost event.
  void Close() {
    const Frame last = frames_.back();
    frames_.pop_back();
    RowTable* table = TableOf(last.facts.kind);
    if (table == nullptr) return;
    const std::int64_t length = last.end_ps - last.begin_ps;
    table->Count(last.facts.row, length, std::max<std::int64_t>(length - last.inside_ps, 0));
    if (last.inner == 1 && last.inner_row == last.facts.row && IsInOperators(last.facts.kind))
      Join(last, (*table)[last.facts.row]);
    if (last.outer == kNoFrame) return;
    Frame& outer = frames_[last.outer];
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

  // The innermost event launches work. All tables' events around it take a part in that.
  void AddLaunches(std::span<const index::LinkTarget> links) {
    const index::LinkTarget* before = nullptr;
    for (const index::LinkTarget& link : links) {
      if (!gathering_.is_work[link.track]) continue;
      // Two conventions may tell of one launch.
      if (before != nullptr && before->track == link.track && before->other == link.other) continue;
      before = &link;
      const index::Entry work = durations_.At(link.track, link.other);
      AddWork(frames_.back().operators, work.duration_ps, gathering_.operators);
      AddWork(frames_.back().modules, work.duration_ps, gathering_.modules);
      NoteLauncher(work);
    }
  }

  // Adds work to a frame, and to those around it in the same table.
  void AddWork(std::size_t innermost, std::int64_t length_ps, RowTable& table) {
    bool is_first = true;
    for (std::size_t at = innermost; at != kNoFrame; at = frames_[at].outer) {
      // The call of the runtime is how the operator around it launched the work.
      if (frames_[at].facts.kind == HostKind::kRuntime) continue;
      TallyRow& row = table[frames_[at].facts.row];
      row.device_ps = AddSaturated(row.device_ps, length_ps);
      frames_[at].device_ps = AddSaturated(frames_[at].device_ps, length_ps);
      if (std::exchange(is_first, false))
        row.device_self_ps = AddSaturated(row.device_self_ps, length_ps);
      joins_launches_ = true;
    }
  }

  void NoteLauncher(const index::Entry& work) {
    std::size_t at = frames_.back().operators;
    while (at != kNoFrame && frames_[at].facts.kind == HostKind::kRuntime) at = frames_[at].outer;
    if (at == kNoFrame) return;
    const std::string_view name = gathering_.operators[frames_[at].facts.row].name;
    TallyRow* kernel = gathering_.kernels.Existing(index_.Text(work.name));
    if (kernel == nullptr) return;
    if (kernel->launched_by.empty()) kernel->launched_by = name;
    kernel->launchers_differ = kernel->launchers_differ || kernel->launched_by != name;
  }

  void AddCall(const index::Entry& entry) {
    const std::string_view name = index_.Text(entry.name);
    const std::uint32_t number = gathering_.communication.FindOfGroup(name, "host", "");
    gathering_.communication.Count(number, entry.duration_ps, entry.duration_ps);
    gathering_.communication[number].collective = digest::CollectiveKindOf(name);
  }

  Gathering& gathering_;
  const index::Index& index_;
  Durations durations_;
  std::unordered_map<std::uint32_t, NameFacts> facts_{};
  std::vector<Frame> frames_{};
  bool joins_launches_ = false;
};

}  // namespace

absl::StatusOr<bool> AddHost(Gathering& gathering) {
  HostTally tally(gathering);
  for (const index::Plane& plane : gathering.source.index->planes()) {
    if (gathering.source.index->Text(plane.name).starts_with(xplane::kDevicePrefix)) continue;
    RETURN_IF_ERROR(tally.AddPlane(plane));
  }
  return tally.joins_launches();
}

}  // namespace strobe::tally

#include "collector/trace/kineto/space_writer.h"

#include <simdjson.h>

#include <algorithm>
#include <array>
#include <tuple>

#include "collector/trace/kineto/stats.h"
#include "collector/trace/xplane/builder.h"
#include "collector/trace/xplane/names.h"
#include "collector/trace/xplane/wire.h"
#include "common/base/strings.h"
#include "common/text/safe_text.h"

namespace strobe::kineto {
namespace {

namespace ondemand = simdjson::ondemand;

constexpr std::array<std::pair<std::string_view, std::string_view>, 5> kNames = {{
    {"name", "gpu_device_name"},
    {"totalGlobalMem", "memory_size"},
    {"computeMajor", "compute_cap_major"},
    {"computeMinor", "compute_cap_minor"},
    {"numSms", "core_count"},
}};

// Reads a text or an integer as text.
bool ReadText(ondemand::value value, std::string& text) {
  std::string_view string;
  if (value.get_string().get(string) == simdjson::SUCCESS) {
    text = string;
    return true;
  }
  std::int64_t integer = 0;
  if (value.get_int64().get(integer) != simdjson::SUCCESS) return false;
  text = std::to_string(integer);
  return true;
}

// Field numbers of xplane.proto.
constexpr std::uint32_t kPlanes = 1, kHostnames = 4;
constexpr std::uint32_t kPlaneId = 1, kPlaneName = 2, kPlaneLines = 3, kPlaneStats = 6;
constexpr std::uint32_t kLineId = 1, kLineName = 2, kLineTimestamp = 3;

// A text as it is in JSON without its quotes.
std::string_view Unquoted(std::string_view json) {
  return json.size() >= 2 && json.front() == '"' ? json.substr(1, json.size() - 2) : json;
}

std::optional<std::int64_t> Integer(std::string_view text) {
  return IntegerOf({JsonValue::Kind::kScalar, text});
}

// "thread 7" for the thread "7". A text tells by itself what it names.
std::string WithNoun(std::string_view noun, std::string_view name) {
  return Integer(name) ? StrCat(noun, " ", name) : std::string(name);
}

// The tag and the length of a field with a tag of one byte.
std::string Head(std::uint32_t field, std::uint64_t size) {
  std::string head(1, static_cast<char>(field << 3 | 2));
  wire::AppendVarint(size, head);
  return head;
}

// The integer that an object has under a key, which may be in quotes.
std::optional<std::int64_t> IntegerIn(std::string_view json, std::string_view key) {
  const simdjson::padded_string padded(json);
  simdjson::ondemand::parser parser;
  simdjson::ondemand::document document;
  simdjson::ondemand::value value;
  if (parser.iterate(padded).get(document) != simdjson::SUCCESS ||
      document[key].get(value) != simdjson::SUCCESS)
    return std::nullopt;
  const std::string_view token = value.raw_json_token();
  return Integer(Unquoted(token.substr(0, token.find_first_of(" \n"))));
}

// Where programs write the Unix time of their events' time 0, and in how many nanoseconds.
struct BaseTime {
  std::string_view member, key;  // An object and its key, or only a member.
  std::int64_t unit_ns;
};
constexpr std::array<BaseTime, 4> kBaseTimes = {{
    {"viztracer_metadata", "baseTimeNanoseconds", 1},
    {"beginningOfTime", "", 1000},                   // Clang's and LLVM's -ftime-trace.
    {"otherData", "profile_start_ts", 1'000'000},    // Bazel.
    {"metadata", "clock-offset-since-epoch", 1000},  // Chrome.
}};

// The Unix time of the events' time 0. Kineto and some others write it; older versions wrote Unix
// times into their events, and other programs do not tell.
std::optional<std::int64_t> BaseNanos(const FileMembers& members, std::int64_t origin_us) {
  constexpr std::int64_t kMinUnixMicros = 1'000'000'000'000'000;  // 2001
  std::optional<std::int64_t> base;
  for (const auto& [key, value] : members) {
    if (key == "baseTimeNanoseconds") base = Integer(Unquoted(value));
  }
  if (base) return base;
  if (origin_us >= kMinUnixMicros) return 0;
  for (const auto& [key, value] : members) {
    for (const BaseTime& known : kBaseTimes) {
      if (key != known.member) continue;
      const std::optional<std::int64_t> time =
          known.key.empty() ? Integer(Unquoted(value)) : IntegerIn(value, known.key);
      std::int64_t ns = 0;
      // Others write 0 or the like there.
      if (time && !__builtin_mul_overflow(*time, known.unit_ns, &ns) && ns / 1000 >= kMinUnixMicros)
        base = ns;
    }
  }
  return base;
}

// Reads the member "deviceProperties", a list of objects. By device number: XLA's name of the stat
// and its value. Empty if the list cannot be read.
std::map<std::string, std::vector<std::pair<std::string, std::string>>> ReadDeviceProperties(
    std::string_view json) {
  std::map<std::string, std::vector<std::pair<std::string, std::string>>> devices;
  const simdjson::padded_string padded(json);
  ondemand::parser parser;
  ondemand::document document;
  ondemand::array array;
  if (parser.iterate(padded).get(document) != simdjson::SUCCESS ||
      document.get_array().get(array) != simdjson::SUCCESS)
    return devices;
  for (auto element : array) {
    ondemand::object object;
    if (element.get_object().get(object) != simdjson::SUCCESS) break;
    std::string id;
    std::vector<std::pair<std::string, std::string>> stats;
    for (auto result : object) {
      ondemand::field field;
      std::string_view key;
      std::string text;
      if (std::move(result).get(field) != simdjson::SUCCESS ||
          field.unescaped_key().get(key) != simdjson::SUCCESS)
        return devices;
      const std::string name(key);
      if (!ReadText(field.value(), text)) continue;
      if (name == "id") id = text;
      for (const auto& [ours, theirs] : kNames) {
        if (name == ours) stats.emplace_back(theirs, text);
      }
    }
    if (!id.empty()) devices[id] = std::move(stats);
  }
  return devices;
}

// Encodes a stat of a plane: an integer if the value is one, otherwise text.
void AppendPlaneStat(std::string_view name, std::string_view value, PlaneNames& names,
                     std::string& to) {
  constexpr std::uint32_t kStats = 6, kInt64 = 4, kText = 5;
  std::string stat;
  wire::AppendVarintField(1, static_cast<std::uint64_t>(names.StatId(name)), stat);
  if (const auto integer = IntegerOf({JsonValue::Kind::kScalar, value}))
    wire::AppendVarintField(kInt64, static_cast<std::uint64_t>(*integer), stat);
  else
    wire::AppendBytesField(kText, CutUtf8(value, std::string::npos), stat);
  wire::AppendBytesField(kStats, stat, to);
}

}  // namespace

SpaceWriter::SpaceWriter(TracePlanes& planes, const FileMembers& members, const ReadReport& report,
                         const RecordedWindow& known)
    : source_(planes), metadata_(planes.metadata()) {
  const std::int64_t begin = planes.begin_ps();
  zero_ps_ = begin - (begin % 1000 + 1000) % 1000;
  for (const auto& [key, value] : members) {
    if (key == "deviceProperties") device_properties_ = ReadDeviceProperties(value);
  }
  FindDevices(planes.lines(), metadata_.device_labels(), DeviceNumbers());
  owners_ = FindOwnersOfGroups();
  for (const std::unique_ptr<Line>& line : planes.lines().all()) {
    if (line->count == 0) continue;
    Group* const group = line->group;
    auto name = names_of_groups_.find(group);
    if (name == names_of_groups_.end())
      name = names_of_groups_.emplace(group, PlaneName(*group)).first;
    Plane& plane = planes_[name->second];
    plane.lines.push_back(line.get());
    if (std::find(plane.groups.begin(), plane.groups.end(), group) == plane.groups.end())
      plane.groups.push_back(group);
  }
  std::int64_t id = 1;
  for (auto& [name, plane] : planes_) {
    plane.id = id++;
    Arrange(name, plane);
    size_ += Head(kPlanes, plane.size).size() + plane.size;
  }
  AddEnvironment(members, report, known);
  size_ += environment_.size();
}

std::set<std::string> SpaceWriter::DeviceNumbers() const {
  std::set<std::string> numbers;
  for (const auto& [number, properties] : device_properties_) numbers.insert(number);
  return numbers;
}

Owners SpaceWriter::FindOwnersOfGroups() const {
  std::set<const Group*> groups;
  for (const std::unique_ptr<Line>& line : source_.lines().all()) {
    if (line->count > 0) groups.insert(line->group);
  }
  return FindOwners({groups.begin(), groups.end()});
}

std::string SpaceWriter::PlaneName(const Group& group) const {
  const auto owner = owners_.of.find(&group);
  // Readers know processes by what stands in brackets; see xplane::ProcessOf.
  std::string process;
  if (owner != owners_.of.end())
    process = StrCat(
        " [", owner->second.process.empty() ? "unknown process" : owner->second.process, "]");
  if (group.device) {
    const std::string& pid = group.plane_of.empty() ? group.pid : group.plane_of;
    return StrCat(xplane::kDevicePrefix, group.kind, ":",
                  owner == owners_.of.end() ? pid : owner->second.device, process);
  }
  // XProf and Strobe write planes as processes.
  const auto found = metadata_.processes().find(group.pid);
  if (found != metadata_.processes().end() &&
      xplane::PlaneKindOf(found->second) != xplane::PlaneKind::kOther)
    return found->second;
  return StrCat(xplane::kHostPlane, process);
}

std::string SpaceWriter::LineName(const Line& line, bool tell_process) const {
  const std::string& pid = line.group->pid;
  if (line.kind == LineKind::kCounters) return std::string(xplane::kCounterLine);
  if (line.kind == LineKind::kStream) return StreamName(StreamNumber(line.tid), line.work_types);
  if (line.kind == LineKind::kStreamNotes)
    return StrCat("Stream #", StreamNumber(line.tid), " ", line.category);
  std::string name = line.tid.empty() ? "no thread" : WithNoun("thread", line.tid);
  if (line.kind == LineKind::kAsync) name = StrCat("async ", line.category);
  const auto thread = metadata_.threads().find({pid, line.tid});
  if (thread != metadata_.threads().end() && !thread->second.name.empty()) {
    name = thread->second.name;
  } else if (const auto stream = metadata_.streams().find({pid, line.tid});
             stream != metadata_.streams().end() && !HasStream(pid, line.tid)) {
    name = stream->second.name;  // The program itself calls its thread "stream ...".
  }
  if (!tell_process) return name;
  const auto process = metadata_.processes().find(pid);
  if (process != metadata_.processes().end() && !process->second.empty())
    return StrCat(process->second, " ", pid, "/", name);
  return pid.empty() ? name : StrCat(WithNoun("process", pid), "/", name);
}

bool SpaceWriter::HasStream(std::string_view pid, std::string_view tid) const {
  const auto& lines = source_.lines().all();
  return std::any_of(lines.begin(), lines.end(), [&](const std::unique_ptr<Line>& line) {
    return line->group->device && line->group->pid == pid && line->tid == tid;
  });
}

std::int64_t SpaceWriter::SortIndex(const Line& line) const {
  const auto thread = metadata_.threads().find({line.group->pid, line.tid});
  return thread == metadata_.threads().end() ? 0 : thread->second.sort_index.value_or(0);
}

// Decides names, ids and order of a plane's lines, and computes its size.
void SpaceWriter::Arrange(std::string_view name, Plane& plane) {
  plane.names = &plane.groups.front()->names;
  for (Group* group : plane.groups) {
    if (&group->names != plane.names) plane.names->Take(group->names);
  }
  // With one process, threads need no process name in front. A group without a number is no
  // process.
  const auto processes =
      std::count_if(plane.groups.begin(), plane.groups.end(),
                    [](const Group* group) { return Integer(group->pid).value_or(-1) >= 0; });
  if (plane.groups.front()->device) {
    const auto properties = device_properties_.find(plane.groups.front()->pid);
    if (properties != device_properties_.end()) {
      for (const auto& [key, value] : properties->second)
        AppendPlaneStat(key, value, *plane.names, plane.stats);
    }
  }
  std::stable_sort(plane.lines.begin(), plane.lines.end(), [&](const Line* a, const Line* b) {
    return std::tuple(a->kind, SortIndex(*a)) < std::tuple(b->kind, SortIndex(*b));
  });
  std::set<std::int64_t> ids;
  std::int64_t next = std::int64_t{1} << 40;  // Above the numbers of threads.
  for (Line* line : plane.lines) {
    const bool numbered = line->kind == LineKind::kThread || line->kind == LineKind::kStream;
    std::optional<std::int64_t> id = numbered ? Integer(StreamNumber(line->tid)) : std::nullopt;
    if (!id || !ids.insert(*id).second) {
      while (!ids.insert(next).second) ++next;
      id = next;
    }
    const bool is_process = Integer(line->group->pid).value_or(-1) >= 0;
    PlacedLine placed{line, {}};
    wire::AppendVarintField(kLineId, static_cast<std::uint64_t>(*id), placed.head);
    wire::AppendBytesField(kLineName, CutUtf8(LineName(*line, !is_process || processes > 1), 4096),
                           placed.head);
    const std::int64_t timestamp_ns = (line->origin_ps - zero_ps_) / 1000;
    wire::AppendVarintField(kLineTimestamp, static_cast<std::uint64_t>(timestamp_ns), placed.head);
    const std::uint64_t size = placed.head.size() + line->events.size();
    plane.size += Head(kPlaneLines, size).size() + size;
    plane.placed.push_back(std::move(placed));
  }
  wire::AppendVarintField(kPlaneId, static_cast<std::uint64_t>(plane.id), plane.head);
  wire::AppendBytesField(kPlaneName, CutUtf8(name, 4096), plane.head);
  plane.size += plane.head.size() + plane.names->EncodedSize() + plane.stats.size();
}

// Adds the plane with the trace's times and everything about the file as a whole.
void SpaceWriter::AddEnvironment(const FileMembers& members, const ReadReport& report,
                                 const RecordedWindow& known) {
  xplane::PlaneBuilder plane(xplane::kTaskEnvironmentPlane);
  if (const auto base = BaseNanos(members, source_.origin_us()); base && report.spans > 0) {
    // Unsigned arithmetic, because a hostile file may contain any number.
    const std::uint64_t origin =
        static_cast<std::uint64_t>(*base) + static_cast<std::uint64_t>(source_.origin_us()) * 1000;
    plane.AddPlaneStat(xplane::kProfileStart, origin + static_cast<std::uint64_t>(zero_ps_ / 1000));
    std::uint64_t stop = origin + static_cast<std::uint64_t>(source_.end_ps() / 1000);
    if (known.ended_ns > 0) stop = std::min(stop, static_cast<std::uint64_t>(known.ended_ns));
    plane.AddPlaneStat(xplane::kProfileStop, stop);
    if (known.began_ns > 0) {
      plane.AddPlaneStat(xplane::kRecordingStart, static_cast<std::uint64_t>(known.began_ns));
    }
  }
  std::string hostname;
  for (const auto& [key, value] : members) {
    const std::string_view text = Unquoted(value);
    if (key == "host_name") hostname = CutUtf8(text, 253);
    plane.AddPlaneStat(key, value == text ? xplane::TypedValue(text) : xplane::BuilderValue(text));
  }
  for (const auto& [pid, name] : metadata_.processes())
    plane.AddPlaneStat("process_name", StrCat("pid ", pid, " ", name));
  for (const auto& [key, text] : metadata_.rest()) plane.AddPlaneStat(key, std::string_view(text));
  environment_ = plane.Encode();
  if (!hostname.empty()) wire::AppendBytesField(kHostnames, hostname, environment_);
  ReadReport told = report;
  told.unowned_devices = owners_.unknown;
  for (const std::string& warning : Warnings(told))
    wire::AppendBytesField(xplane::kWarningsField, warning, environment_);
}

std::string SpaceWriter::Encode() {
  std::string space;
  space.reserve(size_);
  const auto put = [&](std::string_view bytes) { space += bytes; };
  for (auto& [name, plane] : planes_) {
    put(Head(kPlanes, plane.size));
    put(plane.head);
    for (PlacedLine& placed : plane.placed) {
      put(Head(kPlaneLines, placed.head.size() + placed.line->events.size()));
      put(placed.head);
      placed.line->events.Drain(put);
    }
    plane.names->Drain(put);
    put(plane.stats);
  }
  put(environment_);
  return space;
}

}  // namespace strobe::kineto

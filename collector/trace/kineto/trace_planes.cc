#include "collector/trace/kineto/trace_planes.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <span>
#include <vector>

#include "collector/trace/kineto/engine_names.h"
#include "collector/trace/kineto/stats.h"
#include "collector/trace/xplane/names.h"
#include "common/base/strings.h"

namespace strobe::kineto {
namespace {

using Shape = std::vector<std::uint64_t>;
using Flops = std::optional<std::uint64_t>;

// More inputs or dimensions than any of the operators has.
constexpr std::size_t kMaxInputs = 8, kMaxDimensions = 8;

Flops Product(std::span<const std::uint64_t> factors) {
  std::uint64_t product = 1;
  for (const std::uint64_t factor : factors) {
    if (__builtin_mul_overflow(product, factor, &product)) return std::nullopt;
  }
  return product;
}

// A list, which some programs write as a text.
std::string_view List(const TraceEvent& event, std::string_view key) {
  for (const Member& arg : event.args) {
    const bool is_list =
        arg.value.kind == JsonValue::Kind::kNested || arg.value.kind == JsonValue::Kind::kText;
    if (arg.key == key && is_list) return arg.value.text;
  }
  return {};
}

// The elements of a list whose elements are lists, such as "[[2, 3], []]", or texts in quotes.
std::vector<std::string_view> Elements(std::string_view list, char open, char close) {
  std::vector<std::string_view> elements;
  if (!list.empty()) list.remove_prefix(1);
  while (elements.size() < kMaxInputs) {
    const std::size_t begin = list.find(open);
    std::size_t end = begin == std::string_view::npos ? begin : list.find(close, begin + 1);
    while (close == '"' && end != std::string_view::npos && list[end - 1] == '\\')
      end = list.find(close, end + 1);
    if (end == std::string_view::npos) break;
    elements.push_back(list.substr(begin, end + 1 - begin));
    list.remove_prefix(end + 1);
  }
  return elements;
}

// Returns the shapes of the event's inputs. An input that is no tensor has no dimensions. A list of
// tensors, which none of the operators takes, ends the result.
std::vector<Shape> ShapesOf(const TraceEvent& event) {
  std::vector<Shape> shapes;
  for (const std::string_view element : Elements(List(event, "Input Dims"), '[', ']')) {
    std::optional<Shape> shape = NaturalsIn(element, kMaxDimensions);
    if (!shape) break;
    shapes.push_back(*std::move(shape));
  }
  return shapes;
}

// Counts the product of [n, k] and [k, m], or that of a batch of such pairs.
Flops MatrixProduct(const Shape& a, const Shape& b, std::size_t dimensions) {
  if (a.size() != dimensions || b.size() != dimensions) return std::nullopt;
  const std::uint64_t batch = dimensions == 3 ? a[0] : 1;
  return Product(
      std::array{std::uint64_t{2}, batch, a[dimensions - 2], a[dimensions - 1], b[dimensions - 1]});
}

// The values of an input that is a list of two numbers.
std::optional<Shape> Pair(const std::vector<std::string_view>& inputs, std::size_t input) {
  if (inputs.size() <= input || inputs[input].size() < 2) return std::nullopt;
  std::optional<Shape> pair =
      NaturalsIn(inputs[input].substr(1, inputs[input].size() - 2), kMaxDimensions);
  return pair && pair->size() == 2 ? pair : std::nullopt;
}

// Counts the convolution of images [n, c, h, w] with kernels [o, c / groups, h, w].
Flops Convolution(const TraceEvent& event, const Shape& image, const Shape& kernel) {
  const std::vector<std::string_view> inputs = Elements(List(event, "Concrete Inputs"), '"', '"');
  const std::optional<Shape> stride = Pair(inputs, 3), padding = Pair(inputs, 4),
                             dilation = Pair(inputs, 5);
  if (image.size() != 4 || kernel.size() != 4 || !stride || !padding || !dilation)
    return std::nullopt;
  constexpr std::uint64_t kMax = std::uint64_t{1} << 31;  // So that sums do not overflow.
  std::array<std::uint64_t, 6> factors = {2, image[0], kernel[0], kernel[1], kernel[2], kernel[3]};
  Flops flops = Product(factors);
  for (const std::size_t i : {0u, 1u}) {
    const std::uint64_t size = image[i + 2], width = kernel[i + 2];
    for (const std::uint64_t value : {size, width, (*padding)[i], (*dilation)[i]})
      if (value > kMax) return std::nullopt;
    const std::uint64_t padded = size + 2 * (*padding)[i];
    const std::uint64_t used = width == 0 ? 0 : (*dilation)[i] * (width - 1) + 1;
    if ((*stride)[i] == 0 || used > padded || !flops) return std::nullopt;
    flops = Product(std::array{*flops, (padded - used) / (*stride)[i] + 1});
  }
  return flops;
}

// The number of "ProfilerStep#12".
std::optional<std::int64_t> StepNumber(std::string_view name) {
  if (!name.starts_with(xplane::kTorchStep)) return std::nullopt;
  name.remove_prefix(xplane::kTorchStep.size());
  if (!name.starts_with('#')) return std::nullopt;
  return IntegerOf({JsonValue::Kind::kScalar, name.substr(1)});
}

// Whether Kineto tells of its own recording: its span, and the instant of its end.
bool IsOfProfiler(const TraceEvent& event) {
  return event.category.empty() || event.category == "Trace";
}

}  // namespace

std::optional<std::uint64_t> FlopsOf(const TraceEvent& event) {
  constexpr std::string_view kNamespace = "aten::";
  constexpr std::array<std::string_view, 7> kCounted = {"mm",     "addmm", "bmm", "baddbmm",
                                                        "conv2d", "mul",   "add"};
  if (!event.name.starts_with(kNamespace)) return std::nullopt;
  const std::string_view op = event.name.substr(kNamespace.size());
  if (std::find(kCounted.begin(), kCounted.end(), op) == kCounted.end()) return std::nullopt;
  const std::vector<Shape> shapes = ShapesOf(event);
  const std::size_t inputs = shapes.size();
  if (inputs >= 1 && (op == "mul" || op == "add")) return Product(shapes[0]);
  if (inputs >= 2 && op == "mm") return MatrixProduct(shapes[0], shapes[1], 2);
  if (inputs >= 2 && op == "bmm") return MatrixProduct(shapes[0], shapes[1], 3);
  if (inputs >= 3 && op == "addmm") return MatrixProduct(shapes[1], shapes[2], 2);
  if (inputs >= 3 && op == "baddbmm") return MatrixProduct(shapes[1], shapes[2], 3);
  if (inputs >= 2 && op == "conv2d") return Convolution(event, shapes[0], shapes[1]);
  return std::nullopt;
}

void TracePlanes::Add(const TraceEvent& event) {
  if (begun_ || event.phase == 'M') return Take(event);
  first_.Keep(event);
  if (first_.full()) BeginTimes();
}

void TracePlanes::Take(const TraceEvent& event) {
  ++report_.events;
  if (!IsOfProfiler(event)) ++report_.recorded;
  switch (event.phase) {
    case 'X':
      return AddSpan(event);
    case 'B':
      return BeginSpan(event);
    case 'E':
      return EndSpan(event);
    case 's':
    case 't':
    case 'f':
      return AddFlow(event);
    case 'b':
    case 'n':
    case 'e':
    case 'S':
    case 'T':
    case 'p':
    case 'F':
      return AddAsync(event);
    case 'C':
      return AddCounter(event);
    case 'M':
      return AddMetadata(event);
    case '\0':
      --report_.events;
      if (!event.empty()) ++report_.no_phase;
      return;
    default:
      return AddInstant(event);
  }
}

Line& TracePlanes::LineOf(const TraceEvent& event, EventKind& kind) {
  kind = KindOfCategory(event.category);
  if (kind != EventKind::kHost && kind != EventKind::kStreamNote && !NamesDevice(event))
    kind = EventKind::kHost;
  kind = KindOfWork(kind, event);
  LineKey key{.pid = event.pid, .tid = event.tid};
  key.device = kind != EventKind::kHost;
  if (!key.device) return LineOfUnknown(event, key);
  key.kind = IsWork(kind) ? LineKind::kStream : LineKind::kStreamNotes;
  if (key.kind == LineKind::kStreamNotes) key.category = event.category;
  Line& line = lines_.Find(key);
  if (IsWork(kind)) line.work_types |= WorkType(kind, event.name);
  if (event.category.starts_with("mtia")) line.group->kind = "MTIA";
  return line;
}

// The line of an event that is the host's, as far as it is known before the file's end.
Line& TracePlanes::LineOfUnknown(const TraceEvent& event, LineKey key) {
  const DeviceSign sign = SignOf(event);
  if (sign == DeviceSign::kTaskWithoutWork) {
    key.kind = LineKind::kStreamNotes;
    key.category = "waits";
  }
  Line& line = lines_.Find(key);
  line.signs |= 1u << static_cast<unsigned>(sign);
  if (sign > DeviceSign::kHost)
    line.work_types |= WorkType(KindOfWork(EventKind::kKernel, event), event.name);
  return line;
}

void TracePlanes::BeginEvent(const TraceEvent& event, Line& line, std::int64_t begin_ps) {
  pending_.begin_ps = begin_ps;
  line.Begin(NameId(event, line), begin_ps, bytes_);
  AddHead(event, line);
}

std::int64_t TracePlanes::NameId(const TraceEvent& event, const Line& line) {
  if (StepNumber(event.name)) return line.group->names.EventId(xplane::kTorchStep);
  const std::optional<EngineName> engine = EngineNameOf(event.name);
  return line.group->names.EventId(engine ? engine->kind() : event.name);
}

// The stats that do not depend on the kind of the event.
void TracePlanes::AddHead(const TraceEvent& event, const Line& line) {
  PlaneNames& names = line.group->names;
  const std::optional<EngineName> engine = EngineNameOf(event.name);
  const std::optional<std::int64_t> step = engine ? engine->step() : StepNumber(event.name);
  if (step) {
    bytes_.AddInt(names.StatId("step_num"), *step);
    bytes_.AddInt(names.StatId("_r"), 1);  // The root of what ran during the step.
  }
  if (engine) {
    for (const EngineStat& stat : engine->stats())
      bytes_.AddInt(names.StatId(stat.name), stat.value);
  }
  if (step || engine) AddTextStat(xplane::kOwnName, event.name, names, bytes_);
  if (!event.category.empty())
    AddTextStat(names.UseStat(category_id_), event.category, names, bytes_);
  if (line.shared) {
    AddTextStat("pid", event.pid, names, bytes_);
    AddTextStat("tid", event.tid, names, bytes_);
  }
}

void TracePlanes::AddMembers(const TraceEvent& event, Line& line) {
  PlaneNames& names = line.group->names;
  for (const Member& member : event.other_members) {
    if (member.key != "bp" && member.key != "flow_in" && member.key != "flow_out")
      AddStat(member, names, bytes_);
  }
  if (event.id.present()) AddStat({"id", event.id}, names, bytes_);
}

void TracePlanes::AddStats(const TraceEvent& event, EventKind kind, Line& line) {
  PlaneNames& names = line.group->names;
  pending_.correlation.reset();
  const bool details = kind == EventKind::kKernel && !KernelDetails(event).empty();
  for (const Member& arg : event.args) {
    if (arg.key == "correlation") {
      if (const std::optional<std::int64_t> correlation = IntegerOf(arg.value)) {
        AddCorrelation(*correlation, line);
        continue;
      }
    }
    if (!details || !InKernelDetails(arg)) AddStat(arg, names, bytes_);
  }
  if (IsWork(kind)) AddDetails(event, kind, line);
  const bool is_operator = event.category == "cpu_op" || event.category == "Operator";
  if (const auto flops = is_operator ? FlopsOf(event) : std::nullopt)
    bytes_.AddUint(names.UseStat(flops_id_), *flops);
  if (!event.other_members.empty() || event.id.present()) AddMembers(event, line);
}

// Adds the id that a launch and its work share to the event in `bytes_`.
void TracePlanes::AddCorrelation(std::int64_t correlation, Line& line) {
  pending_.correlation = correlation;
  line.group->launches.Add(correlation, pending_.begin_ps);
  bytes_.AddInt(line.group->names.UseStat(correlation_id_), correlation);
}

void TracePlanes::AddDetails(const TraceEvent& event, EventKind kind, Line& line) {
  PlaneNames& names = line.group->names;
  const std::string details = kind == EventKind::kKernel   ? KernelDetails(event)
                              : kind == EventKind::kMemcpy ? MemcpyDetails(event)
                                                           : "";
  if (details.empty()) return;
  AddTextStat(kind == EventKind::kKernel ? "kernel_details" : "memcpy_details", details, names,
              bytes_);
}

// Writes the pending event.
void TracePlanes::Write() {
  if (pending_.line == nullptr) return;
  AppendTo(*pending_.line);
  pending_.line = nullptr;
}

// Writes the event in `bytes_`.
void TracePlanes::AppendTo(Line& line) {
  line.Append(bytes_.bytes());
  ++report_.spans;
}

void TracePlanes::AddSpan(const TraceEvent& event) {
  const std::optional<std::int64_t> begin = TimeOf(event);
  if (!begin) return;
  Write();
  EventKind kind{};
  Line& line = LineOf(event, kind);
  BeginEvent(event, line, *begin);
  std::optional<std::int64_t> length = 0;
  if (event.dur.present()) {
    const std::optional<Micros> duration = ParseMicros(event.dur.text);
    length = duration ? duration->PsSince(0) : std::nullopt;
  }
  const bool usable =
      length && *length >= 0 && *length <= std::numeric_limits<std::int64_t>::max() / 2;
  if (!usable) {
    ++report_.negative;
    AddStat({"dur", event.dur}, line.group->names, bytes_);
    length = 0;
  }
  bytes_.AddDuration(*length);
  line.end_ps = std::max(line.end_ps, *begin + *length);
  pending_ = {.line = &line, .begin_ps = *begin};
  AddStats(event, kind, line);
  AddBoundFlow(event, line);
}

// Events without a duration, of any phase.
void TracePlanes::AddInstant(const TraceEvent& event) {
  // Before PyTorch 1.12 it has no category.
  if (event.name == "[memory]" && (event.category == "cpu_instant_event" || event.category.empty()))
    return AddMemory(event);
  const std::optional<std::int64_t> begin = TimeOf(event);
  if (!begin) return;
  Write();
  EventKind kind{};
  Line& line = LineOf(event, kind);
  BeginEvent(event, line, *begin);
  bytes_.AddDuration(0);
  pending_ = {.line = &line, .begin_ps = *begin};
  if (event.phase != 'i')
    AddTextStat("ph", std::string_view(&event.phase, 1), line.group->names, bytes_);
  AddStats(event, kind, line);
}

void TracePlanes::AddCounter(const TraceEvent& event) {
  if (event.args.empty()) return AddInstant(event);
  const std::optional<std::int64_t> at = TimeOf(event);
  if (!at) return;
  Write();
  Line& line = lines_.Find({.kind = LineKind::kCounters, .pid = event.pid});
  PlaneNames& names = line.group->names;
  const std::string id = event.id.present() ? StrCat(" ", event.id.text) : "";
  for (const Member& arg : event.args) {
    // A counter with one value has one name; of several values, each has a name of its own.
    const bool own = event.args.size() == 1;
    const std::string name = StrCat(event.name, id, own ? "" : " ", own ? "" : arg.key);
    line.Begin(names.EventId(name), *at, bytes_);
    bytes_.AddDuration(0);
    AddStat(arg, names, bytes_);
    if (!event.category.empty())
      AddTextStat(names.UseStat(category_id_), event.category, names, bytes_);
    AppendTo(line);
  }
}

// An allocation, as Kineto writes it: how much is allocated and reserved afterwards become
// counters of the device, or of the process for its own memory.
void TracePlanes::AddMemory(const TraceEvent& event) {
  const std::optional<std::int64_t> at = TimeOf(event);
  if (!at) return;
  Write();
  ++report_.allocations;
  LineKey key{.kind = LineKind::kCounters, .pid = event.pid};
  const auto find = [&](std::string_view name) {
    return std::find_if(event.args.begin(), event.args.end(),
                        [&](const Member& arg) { return arg.key == name; });
  };
  const auto type = find("Device Type"), device = find("Device Id");
  if (type != event.args.end() && type->value.text != "0" && device != event.args.end()) {
    key.device = true;
    key.pid = device->value.text;
  }
  Line& line = lines_.Find(key);
  PlaneNames& names = line.group->names;
  bool first = true;
  for (const std::string_view counter : {"Total Allocated", "Total Reserved", "Bytes"}) {
    const auto value = find(counter);
    // The size of the allocation itself is a counter only if there is no other value.
    if (value == event.args.end() || (counter == "Bytes" && !first)) continue;
    line.Begin(names.EventId(counter), *at, bytes_);
    bytes_.AddDuration(0);
    AddStat(*value, names, bytes_);  // A counter's value is its first stat.
    for (const Member& arg : event.args) {
      if (first && arg.key != counter && arg.key != "Total Reserved") AddStat(arg, names, bytes_);
    }
    if (std::exchange(first, false)) AddTextStat("tid", event.tid, names, bytes_);
    AppendTo(line);
  }
}

void TracePlanes::AddMetadata(const TraceEvent& event) {
  const std::optional<Micros> time = ParseMicros(event.ts.text);
  // Kineto writes the beginning of its window. Others write 0.
  if (time && time->us > 0 && event.name == "process_name" && !window_begin_) window_begin_ = time;
  const Member* arg = event.args.empty() ? nullptr : &event.args.front();
  for (const Member& member : event.args) {
    if (!member.key.empty() && event.name.ends_with(member.key))
      arg = &member;  // "thread_name": its "name".
  }
  std::string text = arg == nullptr ? "" : std::string(arg->value.text);
  const std::pair key(std::string(event.pid), std::string(event.tid));
  const std::size_t key_bytes = event.pid.size() + event.tid.size() + kMetadataBytes;
  if (event.name == "process_name") {
    // Kineto gives a process and a device with the same number the same name.
    return Rename(processes_, key.first, key_bytes, text.size(),
                  [&](std::string& name) { name = std::move(text); });
  }
  if (event.name == "thread_name") {
    const bool stream = text.starts_with("stream ");
    return Rename(stream ? streams_ : threads_, key, key_bytes, text.size(),
                  [&](ThreadInfo&) { NameThread(key, std::move(text), stream); });
  }
  if (event.name == "thread_sort_index" && arg != nullptr)
    Rename(threads_, key, key_bytes, 0,
           [&](ThreadInfo& thread) { thread.sort_index = IntegerOf(arg->value); });
  // The rest is kept as it is, once.
  std::string value = StrCat("pid ", event.pid, event.tid.empty() ? "" : " tid ", event.tid);
  for (const Member& member : event.args) value += StrCat(" ", member.key, "=", member.value.text);
  if (kept_metadata_.contains({event.name, value})) return;
  const std::size_t bytes = event.name.size() + value.size() + kMetadataBytes;
  if (metadata_bytes_ + bytes > kMaxMetadataBytes) {
    ++report_.cut_values;
    return;
  }
  metadata_bytes_ += bytes;
  if (event.name == "process_labels" && !text.empty() && !text.starts_with("CPU"))
    device_labels_.try_emplace(key.first, text);
  kept_metadata_.insert(metadata_.emplace_back(event.name, std::move(value)));
}

// Calls `change(value)` for the value of the process or thread, if there is room for `most` bytes
// of text and for what is new. A name that is told again takes no more memory.
template <typename Map, typename Change>
void TracePlanes::Rename(Map& map, const typename Map::key_type& key, std::size_t key_bytes,
                         std::size_t most, const Change& change) {
  const auto size_of = [](const auto& value) {
    if constexpr (std::is_same_v<typename Map::mapped_type, std::string>)
      return value.size();
    else
      return value.name.size();
  };
  const auto found = map.find(key);
  const std::size_t before = found == map.end() ? 0 : size_of(found->second);
  const std::size_t others = metadata_bytes_ - before + (found == map.end() ? key_bytes : 0);
  if (others + most > kMaxMetadataBytes) {
    ++report_.cut_values;
    return;
  }
  typename Map::mapped_type& value = map[key];
  change(value);
  metadata_bytes_ = others + size_of(value);
}

// Kineto may tell two names of a thread: its own, and that of the thread which asked Kineto, such
// as the main thread or, in a capture, Strobe's, which runs no operators.
void TracePlanes::NameThread(const std::pair<std::string, std::string>& key, std::string name,
                             bool stream) {
  if (stream) {
    streams_[key].name = std::move(name);
    return;
  }
  const auto in_brackets = [](std::string_view text) {
    const std::size_t open = text.find(" (");
    return open == std::string_view::npos ? std::string_view() : text.substr(open);
  };
  const auto main = threads_.find({key.first, key.first});
  const bool is_ours = in_brackets(name).starts_with(" (strobe-");
  const bool is_mains = key.first != key.second && main != threads_.end() &&
                        !in_brackets(name).empty() &&
                        in_brackets(main->second.name) == in_brackets(name);
  ThreadInfo& thread = threads_[key];
  if ((is_ours || is_mains) && !thread.name.empty()) return;
  if (is_ours) name.resize(name.size() - in_brackets(name).size());
  thread.name = std::move(name);
}

}  // namespace strobe::kineto

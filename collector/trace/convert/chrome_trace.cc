#include "collector/trace/convert/chrome_trace.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <optional>

#include "absl/container/flat_hash_map.h"
#include "collector/trace/convert/kind_stats.h"
#include "collector/trace/convert/link_ids.h"
#include "collector/trace/xplane/flows.h"
#include "collector/trace/xplane/lanes.h"
#include "collector/trace/xplane/names.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/text/safe_text.h"

namespace strobe::convert {
namespace {

using namespace std::string_view_literals;  // A literal's length is then known to the compiler.
using xplane::Placed;
using xplane::Plane;
using xplane::Stat;

constexpr std::size_t kChromePieceBytes = 1 << 20;  // Handed to the sink at once.
// A text that a trace has once per name, such as an HLO instruction, is written with each event.
constexpr std::size_t kMaxKindTextBytes = 1000;
// JavaScript reads numbers as doubles, which hold integers exactly up to here. Larger ones are
// written as text.
constexpr std::uint64_t kExactInDouble = 1ull << 53;

template <typename Number>
void AppendNumber(Number number, std::string& out) {
  std::array<char, 32> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
  out.append(digits.data(), static_cast<std::size_t>(end - digits.data()));
}

// Writes the sum of both as microseconds, without rounding and without trailing zeros.
void AppendMicros(std::int64_t ps, std::int64_t shift_ns, std::string& out) {
  std::int64_t ns = SharedNanos(ps, shift_ns);
  std::int64_t below = ps % 1000;  // What `ns` was rounded down by, in ps.
  if (below < 0) below += 1000;
  if (ns < 0) {
    out.push_back('-');
    ns = below > 0 ? -(ns + 1) : -ns;
    below = below > 0 ? 1000 - below : 0;
  }
  AppendNumber(ns / 1000, out);
  std::int64_t rest = ns % 1000 * 1000 + below;
  if (rest == 0) return;
  std::array<char, 6> digits;
  for (std::size_t i = 6; i-- > 0; rest /= 10) digits[i] = static_cast<char>('0' + rest % 10);
  std::size_t size = 6;
  while (digits[size - 1] == '0') --size;
  out.push_back('.');
  out.append(digits.data(), size);
}

template <typename Integer>
void AppendInteger(Integer value, std::string& out) {
  const bool exact = value < Integer{0} ? static_cast<std::uint64_t>(-(value + 1)) < kExactInDouble
                                        : static_cast<std::uint64_t>(value) <= kExactInDouble;
  if (!exact) out.push_back('"');
  AppendNumber(value, out);
  if (!exact) out.push_back('"');
}

void AppendValue(const Stat& stat, std::string& out) {
  if (const auto* integer = std::get_if<std::int64_t>(&stat.value)) {
    AppendInteger(*integer, out);
  } else if (const auto* natural = std::get_if<std::uint64_t>(&stat.value)) {
    AppendInteger(*natural, out);
  } else if (const auto* number = std::get_if<double>(&stat.value)) {
    if (std::isfinite(*number))
      AppendNumber(*number, out);
    else
      AppendJsonText(std::isnan(*number) ? "NaN" : *number > 0 ? "Infinity" : "-Infinity", out);
  } else if (const auto* text = std::get_if<std::string_view>(&stat.value)) {
    AppendJsonText(*text, out);
  } else {
    out += "null";
  }
}

class ChromeWriter {
 public:
  explicit ChromeWriter(const Sink& sink) : sink_(sink) { out_.reserve(kChromePieceBytes + 4096); }

  absl::Status Write(std::span<const WorkerTrace> traces) {
    out_ += "{\"displayTimeUnit\":\"ns\",\"traceEvents\":["sv;
    for (std::size_t number = 0; number < traces.size(); ++number) {
      const WorkerTrace& trace = traces[number];
      shift_ns_ = trace.shift_ns;
      ASSIGN_OR_RETURN(links_, LinkIds::Of(trace.space, number));
      for (const Plane& plane : trace.space.planes) {
        if (plane.events() == 0) continue;
        ++pid_;
        Metadata(
            "process_name", pid_, 0,
            traces.size() == 1 ? std::string(plane.name) : StrCat(trace.worker, " ", plane.name));
        RETURN_IF_ERROR(WritePlane(plane, xplane::FlowReader(plane, number)));
      }
    }
    out_ += "\n]}\n"sv;
    return sink_(out_);
  }

 private:
  void Begin() {
    out_ += first_ ? "\n" : ",\n";
    first_ = false;
  }
  void Metadata(std::string_view what, std::int64_t pid, std::int64_t tid, std::string_view name) {
    Begin();
    out_ += StrCat("{\"ph\":\"M\",\"pid\":", pid, ",\"tid\":", tid, ",\"name\":\"", what,
                   "\",\"args\":{\"name\":");
    AppendJsonText(name, out_);
    out_ += "}}"sv;
  }

  absl::Status WritePlane(const Plane& plane, const xplane::FlowReader& flows) {
    kinds_.clear();
    keys_.clear();
    for (const auto& [id, name] : plane.stat_names) AppendJsonText(name, keys_[id]);
    long_name_id_ = plane.StatId(kLongName);
    if (long_name_id_ == 0) AppendJsonText(kLongName, keys_[0]);
    std::int64_t tid = 0;
    for (const xplane::Line& line : plane.lines) {
      ASSIGN_OR_RETURN(const std::vector<Placed> events, xplane::PlaceEvents(line));
      const std::int64_t first = tid + 1;
      for (const Placed& event : events) {
        if (line.name == xplane::kCounterLine) {  // The format has counters per process.
          RETURN_IF_ERROR(Counter(plane, event));
        } else {
          // Lanes are used in the order of their numbers, so that tids follow one another.
          while (tid < first + event.lane) Metadata("thread_name", pid_, ++tid, line.name);
          RETURN_IF_ERROR(Span(plane, event, first + event.lane, flows));
        }
        if (out_.size() < kChromePieceBytes) continue;
        RETURN_IF_ERROR(sink_(out_));
        out_.clear();
      }
    }
    return absl::OkStatus();
  }

  void Head(std::string_view phase, std::string_view name, std::int64_t tid, std::int64_t at_ps) {
    Begin();
    out_ += "{\"ph\":\""sv;
    out_ += phase;
    out_ += "\",\"pid\":"sv;
    AppendNumber(pid_, out_);
    out_ += ",\"tid\":"sv;
    AppendNumber(tid, out_);
    out_ += ",\"name\":"sv;
    out_ += name;
    out_ += ",\"ts\":"sv;
    AppendMicros(at_ps, shift_ns_, out_);
  }

  // What all events of a name share, quoted and escaped once.
  struct Kind {
    std::string name{};
    std::vector<std::pair<std::int64_t, std::string>> members{};  // In "args", by the stat's name.
  };

  const Kind& KindOf(const Plane& plane, const xplane::Event& event) {
    const auto [found, added] = kinds_.try_emplace(event.name_id);
    Kind& kind = found->second;
    if (!added) return kind;
    AppendJsonText(plane.NameOf(event), kind.name);
    if (const auto name = plane.event_names.find(event.name_id); name != plane.event_names.end()) {
      ForEachStatOfKind(plane, name->second, long_name_id_, [&](Stat stat) {
        std::string cut;
        if (const auto* text = std::get_if<std::string_view>(&stat.value)) {
          cut = CutUtf8(*text, kMaxKindTextBytes);
          stat.value = std::string_view(cut);
        }
        AppendMember(stat, kind.members.emplace_back(stat.name_id, "").second);
      });
    }
    return kind;
  }

  void AppendMember(const Stat& stat, std::string& out) const {
    const auto key = keys_.find(stat.name_id);
    out += key == keys_.end() ? std::string_view("\"?\"") : std::string_view(key->second);
    out.push_back(':');
    AppendValue(stat, out);
  }

  absl::Status Span(const Plane& plane, const Placed& event, std::int64_t tid,
                    const xplane::FlowReader& flows) {
    const Kind& kind = KindOf(plane, event.event);
    Head("X", kind.name, tid, event.begin_ps);
    out_ += ",\"dur\":"sv;
    AppendMicros(event.end_ps - event.begin_ps, 0, out_);
    const std::size_t before = out_.size();
    char separator = '{';
    out_ += ",\"args\":"sv;
    own_.clear();
    RETURN_IF_ERROR(ForEachStat(plane, event.event, [&](const Stat& stat) {
      out_.push_back(separator);
      separator = ',';
      AppendMember(stat, out_);
      if (!kind.members.empty()) own_.push_back(stat.name_id);
    }));
    for (const auto& [name_id, member] : kind.members) {
      if (std::ranges::find(own_, name_id) != own_.end()) continue;
      out_.push_back(separator);
      separator = ',';
      out_ += member;
    }
    if (separator == '{')
      out_.resize(before);
    else
      out_.push_back('}');
    out_.push_back('}');
    if (!flows.any()) return absl::OkStatus();
    ends_.clear();
    RETURN_IF_ERROR(links_.Read(flows, event.event, [&](std::uint64_t id, bool incoming) {
      for (auto& [known, phase] : ends_) {
        if (known != id) continue;
        if (phase != (incoming ? "f" : "s")) phase = "t";  // The middle of a flow, in one piece.
        return;
      }
      ends_.emplace_back(id, incoming ? "f" : "s");
    }));
    for (const auto& [id, phase] : ends_) Arrow(phase, id, tid, event.begin_ps);
    return absl::OkStatus();
  }

  void Arrow(std::string_view phase, std::uint64_t id, std::int64_t tid, std::int64_t at_ps) {
    Head(phase, "\"flow\"", tid, at_ps);
    // As text, because a double cannot hold 64 bits.
    out_ += ",\"cat\":\"flow\",\"id\":\"0x"sv;
    std::array<char, 16> digits;
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), id, 16).ptr;
    out_.append(digits.data(), static_cast<std::size_t>(end - digits.data()));
    out_ += phase == "f" ? "\",\"bp\":\"e\"}" : "\"}";
  }

  // The value of a counter is its first number.
  absl::Status Counter(const Plane& plane, const Placed& event) {
    std::optional<Stat> value;
    RETURN_IF_ERROR(ForEachStat(plane, event.event, [&](const Stat& stat) {
      if (!value && stat.Number()) value = stat;
    }));
    if (!value) return absl::OkStatus();
    Head("C", KindOf(plane, event.event).name, 0, event.begin_ps);
    out_ += ",\"args\":{"sv;
    AppendJsonText(plane.NameOf(*value), out_);
    out_.push_back(':');
    AppendValue(*value, out_);
    out_ += "}}"sv;
    return absl::OkStatus();
  }

  const Sink& sink_;
  std::string out_;
  bool first_ = true;
  std::int64_t pid_ = 0;
  // The present plane's kinds of events and names of stats, quoted and escaped once.
  absl::flat_hash_map<std::int64_t, Kind> kinds_;
  absl::flat_hash_map<std::int64_t, std::string> keys_;
  std::int64_t long_name_id_ = 0;
  // The present event's own stats, by name, and its ends of arrows, id and phase.
  std::vector<std::int64_t> own_;
  std::vector<std::pair<std::uint64_t, std::string_view>> ends_;
  // What belongs to the present trace.
  std::int64_t shift_ns_ = 0;
  LinkIds links_{};
};

}  // namespace

void AppendJsonText(std::string_view text, std::string& out) {
  out.push_back('"');
  while (!text.empty()) {
    const std::size_t size = Utf8CharacterSize(text);
    const char c = text[0];
    if (size == 0) {
      out += "\\ufffd";
    } else if (c == '"' || c == '\\') {
      out.push_back('\\');
      out.push_back(c);
    } else if (static_cast<unsigned char>(c) < 0x20 || c == '<') {
      char escaped[8];
      std::snprintf(escaped, sizeof escaped, "\\u%04x", static_cast<unsigned>(c));
      out += escaped;
    } else {
      out.append(text.substr(0, size));
    }
    text.remove_prefix(size == 0 ? 1 : size);
  }
  out.push_back('"');
}

absl::Status WriteChromeTrace(std::span<const WorkerTrace> traces, const Sink& sink) {
  return ChromeWriter(sink).Write(traces);
}

}  // namespace strobe::convert

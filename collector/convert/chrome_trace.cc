#include "collector/convert/chrome_trace.h"

#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <unordered_map>

#include "collector/convert/json_text.h"
#include "collector/xplane/flows.h"
#include "collector/xplane/lanes.h"
#include "collector/xplane/names.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"

namespace strobe::convert {
namespace {

using xplane::Placed;
using xplane::Plane;
using xplane::Stat;

constexpr std::size_t kChromePieceBytes = 1 << 20;  // Handed to the sink at once.
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
    out_ += "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[";
    for (std::size_t number = 0; number < traces.size(); ++number) {
      const WorkerTrace& trace = traces[number];
      shift_ns_ = trace.shift_ns;
      for (const Plane& plane : trace.space.planes) {
        if (plane.events() == 0) continue;
        ++pid_;
        Metadata(
            "process_name", pid_, 0,
            traces.size() == 1 ? std::string(plane.name) : StrCat(trace.worker, " ", plane.name));
        RETURN_IF_ERROR(WritePlane(plane, xplane::FlowReader(plane, number)));
      }
    }
    out_ += "\n]}\n";
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
    out_ += "}}";
  }

  absl::Status WritePlane(const Plane& plane, const xplane::FlowReader& flows) {
    names_.clear();
    for (const auto& [id, name] : plane.event_names) AppendJsonText(name.shown(), names_[id]);
    keys_.clear();
    for (const auto& [id, name] : plane.stat_names) AppendJsonText(name, keys_[id]);
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
    out_ += "{\"ph\":\"";
    out_ += phase;
    out_ += "\",\"pid\":";
    AppendNumber(pid_, out_);
    out_ += ",\"tid\":";
    AppendNumber(tid, out_);
    out_ += ",\"name\":";
    out_ += name;
    out_ += ",\"ts\":";
    AppendMicros(at_ps, shift_ns_, out_);
  }

  absl::Status Span(const Plane& plane, const Placed& event, std::int64_t tid,
                    const xplane::FlowReader& flows) {
    const auto name = names_.find(event.event.name_id);
    Head("X", name == names_.end() ? "\"?\"" : std::string_view(name->second), tid, event.begin_ps);
    out_ += ",\"dur\":";
    AppendMicros(event.end_ps - event.begin_ps, 0, out_);
    const std::size_t before = out_.size();
    char separator = '{';
    out_ += ",\"args\":";
    RETURN_IF_ERROR(ForEachStat(plane, event.event, [&](const Stat& stat) {
      out_.push_back(separator);
      separator = ',';
      const auto key = keys_.find(stat.name_id);
      out_ += key == keys_.end() ? std::string_view("\"?\"") : std::string_view(key->second);
      out_.push_back(':');
      AppendValue(stat, out_);
    }));
    if (separator == '{')
      out_.resize(before);
    else
      out_.push_back('}');
    out_.push_back('}');
    if (!flows.any()) return absl::OkStatus();
    return flows.Read(event.event, [&](std::uint64_t id, bool incoming) {
      Arrow(incoming ? "f" : "s", id, tid, event.begin_ps);
    });
  }

  void Arrow(std::string_view phase, std::uint64_t id, std::int64_t tid, std::int64_t at_ps) {
    Head(phase, "\"flow\"", tid, at_ps);
    // As text, because a double cannot hold 64 bits.
    out_ += ",\"cat\":\"flow\",\"id\":\"0x";
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
    const auto name = names_.find(event.event.name_id);
    Head("C", name == names_.end() ? "\"?\"" : std::string_view(name->second), 0, event.begin_ps);
    out_ += ",\"args\":{";
    AppendJsonText(plane.NameOf(*value), out_);
    out_.push_back(':');
    AppendValue(*value, out_);
    out_ += "}}";
    return absl::OkStatus();
  }

  const Sink& sink_;
  std::string out_;
  bool first_ = true;
  std::int64_t pid_ = 0;
  // Names of the present plane's events and stats, quoted and escaped once.
  std::unordered_map<std::int64_t, std::string> names_, keys_;
  std::int64_t shift_ns_ = 0;  // That of the present trace.
};

}  // namespace

absl::Status WriteChromeTrace(std::span<const WorkerTrace> traces, const Sink& sink) {
  return ChromeWriter(sink).Write(traces);
}

}  // namespace strobe::convert

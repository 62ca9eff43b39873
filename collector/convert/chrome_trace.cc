#include "collector/convert/chrome_trace.h"

#include <array>
#include <charconv>
#include <cmath>
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

constexpr std::size_t kChromePieceBytes = 1 << 20;
constexpr std::int64_t kPsPerUs = 1'000'000;
constexpr std::uint64_t kExactInDouble = 1ull << 53;  // JavaScript's integers end there.

template <typename Number>
void AppendNumber(Number number, std::string& out) {
  std::array<char, 32> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
  out.append(digits.data(), static_cast<std::size_t>(end - digits.data()));
}

// Picoseconds as microseconds, without rounding and without needless zeros.
void AppendMicros(std::int64_t ps, std::string& out) {
  const auto magnitude =
      ps < 0 ? 0 - static_cast<std::uint64_t>(ps) : static_cast<std::uint64_t>(ps);
  if (ps < 0) out.push_back('-');
  AppendNumber(magnitude / kPsPerUs, out);
  std::uint64_t rest = magnitude % kPsPerUs;
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

// A producer's or consumer's arrow.
struct Flow {
  std::int64_t type = 0, id = 0;
  bool known = false;
};

class ChromeWriter {
 public:
  explicit ChromeWriter(const Sink& sink) : sink_(sink) { out_.reserve(kChromePieceBytes + 4096); }

  absl::Status Write(std::span<const WorkerTrace> traces) {
    out_ += "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[";
    for (const WorkerTrace& trace : traces) {
      for (const Plane& plane : trace.space.planes) {
        if (plane.events() == 0) continue;
        ++pid_;
        Metadata(
            "process_name", pid_, 0,
            traces.size() == 1 ? std::string(plane.name) : StrCat(trace.worker, " ", plane.name));
        RETURN_IF_ERROR(WritePlane(plane, trace.shift_ns * 1000));
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

  absl::Status WritePlane(const Plane& plane, std::int64_t shift_ps) {
    names_.clear();
    for (const auto& [id, name] : plane.event_names) AppendJsonText(name.shown(), names_[id]);
    keys_.clear();
    for (const auto& [id, name] : plane.stat_names) AppendJsonText(name, keys_[id]);
    producer_type_ = plane.StatId("_pt");
    producer_ = plane.StatId("_p");
    consumer_type_ = plane.StatId("_ct");
    consumer_ = plane.StatId("_c");
    std::int64_t tid = 0;
    for (const xplane::Line& line : plane.lines) {
      ASSIGN_OR_RETURN(const std::vector<Placed> events, xplane::PlaceEvents(line));
      const std::int64_t first = tid + 1;
      for (const Placed& event : events) {
        if (line.name == xplane::kCounterLine) {  // Counters belong to the process.
          RETURN_IF_ERROR(Counter(plane, event, shift_ps));
        } else {
          // Lanes come into being in the order of their numbers.
          while (tid < first + event.lane) Metadata("thread_name", pid_, ++tid, line.name);
          RETURN_IF_ERROR(Span(plane, event, first + event.lane, shift_ps));
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
    AppendMicros(at_ps, out_);
  }

  absl::Status Span(const Plane& plane, const Placed& event, std::int64_t tid,
                    std::int64_t shift_ps) {
    const auto name = names_.find(event.event.name_id);
    Head("X", name == names_.end() ? "\"?\"" : std::string_view(name->second), tid,
         event.begin_ps + shift_ps);
    out_ += ",\"dur\":";
    AppendMicros(event.end_ps - event.begin_ps, out_);
    Flow from, to;
    const std::size_t before = out_.size();
    char separator = '{';
    out_ += ",\"args\":";
    RETURN_IF_ERROR(ForEachStat(plane, event.event, [&](const Stat& stat) {
      NoteFlow(stat, from, to);
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
    if (from.known) Arrow("s", from, tid, event.begin_ps + shift_ps);
    if (to.known) Arrow("f", to, tid, event.begin_ps + shift_ps);
    return absl::OkStatus();
  }

  void NoteFlow(const Stat& stat, Flow& from, Flow& to) const {
    const std::optional<std::int64_t> value = stat.Integer();
    if (!value) return;
    if (stat.name_id == producer_) from.id = *value, from.known = true;
    if (stat.name_id == producer_type_) from.type = *value;
    if (stat.name_id == consumer_) to.id = *value, to.known = true;
    if (stat.name_id == consumer_type_) to.type = *value;
  }

  void Arrow(std::string_view phase, const Flow& flow, std::int64_t tid, std::int64_t at_ps) {
    Head(phase, "\"flow\"", tid, at_ps);
    // In hexadecimal, because no double holds it.
    out_ += ",\"cat\":\"flow\",\"id\":\"0x";
    std::array<char, 16> digits;
    const std::uint64_t id = xplane::FlowId(flow.type, flow.id);
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), id, 16).ptr;
    out_.append(digits.data(), static_cast<std::size_t>(end - digits.data()));
    out_ += phase == "f" ? "\",\"bp\":\"e\"}" : "\"}";
  }

  absl::Status Counter(const Plane& plane, const Placed& event, std::int64_t shift_ps) {
    const auto name = names_.find(event.event.name_id);
    Head("C", name == names_.end() ? "\"?\"" : std::string_view(name->second), 0,
         event.begin_ps + shift_ps);
    out_ += ",\"args\":{";
    bool some = false;
    RETURN_IF_ERROR(ForEachStat(plane, event.event, [&](const Stat& stat) {
      if (std::exchange(some, true)) out_.push_back(',');
      AppendJsonText(plane.NameOf(stat), out_);
      out_.push_back(':');
      AppendValue(stat, out_);
    }));
    out_ += "}}";
    return absl::OkStatus();
  }

  const Sink& sink_;
  std::string out_;
  bool first_ = true;
  std::int64_t pid_ = 0;
  // Of the present plane, quoted and escaped once.
  std::unordered_map<std::int64_t, std::string> names_, keys_;
  std::int64_t producer_type_ = 0, producer_ = 0, consumer_type_ = 0, consumer_ = 0;
};

}  // namespace

absl::Status WriteChromeTrace(std::span<const WorkerTrace> traces, const Sink& sink) {
  return ChromeWriter(sink).Write(traces);
}

}  // namespace strobe::convert

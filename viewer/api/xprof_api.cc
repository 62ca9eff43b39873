#include "viewer/api/xprof_api.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "collector/trace/convert/chrome_trace.h"
#include "collector/trace/index/window.h"
#include "collector/trace/xplane/names.h"
#include "common/base/saturated.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/text/json.h"
#include "common/text/parse_tuple.h"
#include "viewer/answers/details.h"
#include "viewer/answers/find.h"

namespace strobe::viewer {
namespace {

using convert::AppendJsonText;
using index::Entry;
using index::Index;
using index::Track;
using Json = nlohmann::ordered_json;

// The process numbers that XProf gives: a thousand per host, devices from 1, all others from 701.
constexpr std::uint32_t kPerHost = 1000, kFirstOther = 701;
constexpr double kPsPerMs = 1e9;
constexpr std::uint32_t kMaxSearchHits = 10'000;

// The bins' edges around a time: no event of a bin that is asked for in part is left out.
std::int64_t Floor(std::int64_t ps, std::uint32_t level) { return ps >> level << level; }
std::int64_t Ceiling(std::int64_t ps, std::uint32_t level) {
  const std::int64_t floor = Floor(ps, level);
  return floor == ps ? ps : AddSaturated(floor, std::int64_t{1} << level);
}

// What a query asks for.
struct XprofRequest {
  std::vector<bool> workers{};
  std::int64_t begin_ps = 0, end_ps = 0;
  bool all = false;         // Every event is wanted.
  std::uint32_t level = 0;  // Otherwise a bin is 2^level ps.
};

std::int64_t ToPs(double ms) {
  constexpr double kMax = 4e18;  // Within 64 bits.
  return static_cast<std::int64_t>(std::clamp(std::round(ms * kPsPerMs), -kMax, kMax));
}

std::string DoubleText(double value) {
  // Seventeen digits are enough to read back exactly the same double.
  char text[40];
  std::snprintf(text, sizeof text, "%.17g", value);
  return text;
}

std::string Micros(std::int64_t ps) { return DoubleText(static_cast<double>(ps) / 1e6); }

absl::StatusOr<XprofRequest> ReadXprofRequest(const LoadedRun& run, const http::Query& query) {
  XprofRequest asked{.workers = std::vector<bool>(run.workers.size())};
  std::string hosts = query.Has("hosts") ? query.Text("hosts") : query.Text("host");
  bool any = false;
  for (const std::string& host : Split(hosts, ',')) {
    for (std::size_t i = 0; i < run.workers.size(); ++i) {
      if (run.workers[i].name != host && host != "ALL_HOSTS" && !host.empty()) continue;
      asked.workers[i] = any = true;
    }
  }
  if (!any) return absl::NotFoundError(StrCat("no worker is named ", hosts.substr(0, 100)));
  ASSIGN_OR_RETURN(const double begin, query.Number("start_time_ms", 0));
  ASSIGN_OR_RETURN(const double end, query.Number("end_time_ms", 0));
  ASSIGN_OR_RETURN(const double resolution, query.Number("resolution", 8000));
  asked.begin_ps = begin > 0 ? ToPs(begin) : run.begin_ps;
  asked.end_ps = end > 0 ? ToPs(end) : run.end_ps + 1;
  const double bin =
      resolution > 0 ? static_cast<double>(asked.end_ps - asked.begin_ps) / resolution : 0;
  asked.all = bin < 1;
  // The least resolutions make bins that no integer holds.
  constexpr double kMaxBin = 0x1p62;
  if (!asked.all)
    asked.level = static_cast<std::uint32_t>(
                      std::bit_width(static_cast<std::uint64_t>(std::min(bin, kMaxBin)))) -
                  1;
  return asked;
}

// Writes the answer: Head, then rows, spans and counters, then Tail.
class Writer {
 public:
  // Once the answer has `max_bytes`, further spans and values of counters are left out.
  Writer(const LoadedRun& run, const convert::Sink& sink, std::size_t max_bytes = kMaxXprofBytes)
      : run_(run), sink_(sink), max_bytes_(max_bytes) {
    out_ = StrCat(
        "{\"displayTimeUnit\":\"ns\",\"metadata\":{\"highres-ticks\":true},\"codeLink\":"
        "\"\",\"useNewBackend\":false,\"details\":[],\"fullTimespan\":[",
        DoubleText(static_cast<double>(run_.begin_ps) / kPsPerMs), ",",
        DoubleText(static_cast<double>(run_.end_ps) / kPsPerMs),
        "],\"showCounterMessage\":\"\",\"totalCounterEvents\":0,\"traceEvents\":[");
  }

  // The sink's first error. Nothing is written after it.
  const absl::Status& status() const { return status_; }
  std::uint64_t spans() const { return spans_; }

  // The numbers of events stand at the end, because they are not known before.
  absl::Status Finish(bool filtered) {
    out_ += StrCat("],\"returnedEventsSize\":", spans_, ",\"leftOutEventsSize\":", left_out_,
                   ",\"filteredByVisibility\":", filtered || left_out_ > 0 ? "true" : "false", "}");
    Flush();
    return status_;
  }

  void Rows(const std::vector<bool>& workers) {
    std::uint32_t known = std::numeric_limits<std::uint32_t>::max();
    for (std::uint32_t number = 0; number < run_.rows.size(); ++number) {
      const RowRef& ref = run_.rows[number];
      if (!workers[ref.worker]) continue;
      const Index& index = run_.WorkerOf(ref).index();
      const index::Row& row = run_.RowOf(ref);
      const std::uint32_t pid = Pid(number);
      if (pid != known) {
        const std::string_view plane = index.Text(index.planes()[row.plane].name);
        const std::string& worker = run_.WorkerOf(ref).name;
        Metadata("process_name", pid, 0, StrCat(worker, " ", plane));
        Number("process_sort_index", pid, 0, pid);
        known = pid;
      }
      if (row.kind == index::RowKind::kCounter) continue;
      for (std::uint32_t t = 0; t < row.tracks; ++t) {
        const Track& track = index.tracks()[row.first_track + t];
        if (track.depth != 0) continue;
        Metadata("thread_name", pid, Tid(number, track.lane), index.Text(row.name));
        Number("thread_sort_index", pid, Tid(number, track.lane), Tid(number, track.lane));
      }
    }
  }

  void Span(std::uint32_t number, std::uint32_t track_number, std::uint64_t ordinal,
            const Entry& entry, const std::string& args) {
    if (LeavesOut()) return;
    ++spans_;
    const RowRef& ref = run_.rows[number];
    const Worker& worker = run_.WorkerOf(ref);
    const Track& track = worker.index().tracks()[run_.RowOf(ref).first_track + track_number];
    Begin();
    out_ += StrCat("{\"ph\":\"X\",\"pid\":", Pid(number), ",\"tid\":", Tid(number, track.lane),
                   ",\"ts\":", Micros(entry.begin_ps + worker.shift_ps),
                   ",\"dur\":", Micros(std::max<std::int64_t>(entry.duration_ps, 1)), ",\"name\":");
    AppendJsonText(worker.index().Text(entry.name), out_);
    out_ += StrCat(",\"z\":", ordinal, ",\"args\":");
    out_ +=
        args.empty() ? StrCat("{\"uid\":\"", number, ".", track_number, ".", ordinal, "\"}") : args;
    out_ += "}";
  }

  void Counter(std::uint32_t number, const std::vector<index::Sample>& samples) {
    const RowRef& ref = run_.rows[number];
    const Worker& worker = run_.WorkerOf(ref);
    Begin();
    out_ += StrCat("{\"ph\":\"C\",\"pid\":", Pid(number), ",\"name\":");
    AppendJsonText(worker.index().Text(run_.RowOf(ref).name), out_);
    out_ += ",\"event_stats\":\"value\",\"entries\":[";
    bool first = true;
    for (const index::Sample& sample : samples) {
      if (LeavesOut()) continue;
      out_ += StrCat(first ? "[" : ",[", Micros(sample.at_ps + worker.shift_ps), ",",
                     DoubleText(std::isfinite(sample.last) ? sample.last : 0), "]");
      first = false;
    }
    out_ += "]}";
  }

 private:
  std::uint32_t Pid(std::uint32_t number) const {
    const RowRef& ref = run_.rows[number];
    const Index& index = run_.WorkerOf(ref).index();
    const std::uint32_t plane = run_.RowOf(ref).plane;
    const bool device = xplane::IsDevicePlane(index.Text(index.planes()[plane].name));
    // Planes beyond the 200th share numbers, so that none has a number of the next host.
    return (ref.worker + 1) * kPerHost + (device ? 1 : kFirstOther) + plane % 200;
  }
  void Begin() {
    constexpr std::size_t kPieceBytes = std::size_t{256} << 10;
    if (out_.size() >= kPieceBytes) Flush();
    if (std::exchange(some_, true)) out_ += ",";
  }
  void Flush() {
    if (status_.ok()) status_ = sink_(out_);
    written_ += out_.size();
    out_.clear();
  }
  // Whether there is no room for one more span or value, which is counted then.
  bool LeavesOut() {
    const bool full = written_ + out_.size() >= max_bytes_ || !status_.ok();
    if (full) ++left_out_;
    return full;
  }
  static std::uint32_t Tid(std::uint32_t number, std::uint32_t lane) {
    return number * 1024 + lane + 1;
  }
  void Metadata(std::string_view what, std::uint32_t pid, std::uint32_t tid,
                std::string_view name) {
    Begin();
    out_ += StrCat("{\"ph\":\"M\",\"pid\":", pid, ",\"tid\":", tid, ",\"name\":\"", what,
                   "\",\"args\":{\"name\":");
    AppendJsonText(name, out_);
    out_ += "}}";
  }
  void Number(std::string_view what, std::uint32_t pid, std::uint32_t tid, std::uint32_t index) {
    Begin();
    out_ += StrCat("{\"ph\":\"M\",\"pid\":", pid, ",\"tid\":", tid, ",\"name\":\"", what,
                   "\",\"args\":{\"sort_index\":", index, "}}");
  }

  const LoadedRun& run_;
  const convert::Sink& sink_;
  const std::size_t max_bytes_;
  absl::Status status_;
  std::string out_;                         // What the sink has not got yet.
  std::size_t written_ = 0;                 // What it has got.
  std::uint64_t spans_ = 0, left_out_ = 0;  // Spans; spans and values that did not fit.
  bool some_ = false;  // An event was written, so that the next one needs a comma.
};

// Calls visit(ordinal, entry) for the events of one track that are told: all, or the longest of
// each bin.
template <typename Visit>
void ForEachVisible(const Worker& worker, const Track& track, const XprofRequest& asked,
                    const Visit& visit) {
  const Index& index = worker.index();
  const std::int64_t begin = asked.begin_ps - worker.shift_ps, end = asked.end_ps - worker.shift_ps;
  if (!asked.all) {
    const index::Window window{Floor(begin, asked.level), Ceiling(end, asked.level), asked.level};
    std::optional<std::uint32_t> last;
    for (const index::Item& item : Look(index, track, window)) {
      // The others of a bin with a long event are named like it.
      if (std::exchange(last, item.ordinal) == item.ordinal) continue;
      if (const auto entry = index.EntryAt(track, item.ordinal)) visit(item.ordinal, *entry);
    }
    return;
  }
  index.ForEachEntry(track, index.FirstReaching(track, begin), index.FirstFrom(track, end),
                     [&](std::uint64_t ordinal, const Entry& entry) {
                       if (entry.begin_ps >= begin || entry.end_ps() > begin) visit(ordinal, entry);
                     });
}

// Details of one event. XProf's page sends its name and times too, but the uid alone is exact.
absl::Status OneEvent(const LoadedRun& run, const http::Query& query, const convert::Sink& sink) {
  std::uint32_t row = 0, track = 0, ordinal = 0;
  if (!ParseTuple(query.Text("unique_id"), "..", row, track, ordinal))
    return absl::InvalidArgumentError("unique_id: not one that this server gave");
  ASSIGN_OR_RETURN(const std::string text, EventDetails(run, row, track, ordinal));
  const Json details = Json::parse(text);
  Json args = Json::object();
  if (details.contains("longName")) args["long_name"] = details["longName"];
  for (const Json& arg : details["args"]) args[arg["name"].get<std::string>()] = arg["value"];
  const RowRef& ref = run.rows[row];
  const Index& index = run.WorkerOf(ref).index();
  const Track& asked = index.tracks()[run.RowOf(ref).first_track + track];
  Writer writer(run, sink);
  writer.Span(row, track, ordinal, index.EntryAt(asked, ordinal).value_or(Entry{}), JsonText(args));
  return writer.Finish(/*filtered=*/false);
}

absl::Status Search(const LoadedRun& run, const http::Query& query, const XprofRequest& asked,
                    const convert::Sink& sink, std::size_t max_bytes) {
  FindRequest request{
      .text = query.Text("search_prefix"), .from_ps = run.begin_ps, .limit = kMaxSearchHits};
  // Only rows of the hosts that are asked for, because others could use up the limit.
  for (std::uint32_t number = 0; number < run.rows.size(); ++number)
    if (asked.workers[run.rows[number].worker]) request.rows.push_back(number);
  ASSIGN_OR_RETURN(const Found found, FindEvents(run, request));
  Writer writer(run, sink, max_bytes);
  writer.Rows(asked.workers);
  for (const Hit& hit : found.hits) {
    const RowRef& ref = run.rows[hit.row];
    if (!asked.workers[ref.worker]) continue;
    const Index& index = run.WorkerOf(ref).index();
    const Track& track = index.tracks()[run.RowOf(ref).first_track + hit.track];
    if (const auto entry = index.EntryAt(track, hit.ordinal))
      writer.Span(hit.row, hit.track, hit.ordinal, *entry, "");
  }
  return writer.Finish(/*filtered=*/false);
}

}  // namespace

absl::Status WriteXprofData(const LoadedRun& run, const http::Query& query,
                            const convert::Sink& sink, std::size_t max_bytes) {
  if (query.Has("event_name") && query.Has("unique_id")) return OneEvent(run, query, sink);
  ASSIGN_OR_RETURN(const XprofRequest asked, ReadXprofRequest(run, query));
  if (!query.Text("search_prefix").empty()) return Search(run, query, asked, sink, max_bytes);
  Writer body(run, sink, max_bytes);
  body.Rows(asked.workers);
  for (std::uint32_t number = 0; number < run.rows.size(); ++number) {
    const RowRef& ref = run.rows[number];
    if (!asked.workers[ref.worker]) continue;
    const Worker& worker = run.WorkerOf(ref);
    const index::Row& row = run.RowOf(ref);
    for (std::uint32_t t = 0; t < row.tracks && body.status().ok(); ++t) {
      const Track& track = worker.index().tracks()[row.first_track + t];
      if (row.kind == index::RowKind::kCounter) {
        const index::Window window{asked.begin_ps - worker.shift_ps, asked.end_ps - worker.shift_ps,
                                   asked.level};
        body.Counter(number, LookAtValues(worker.index(), track, window));
        continue;
      }
      ForEachVisible(worker, track, asked, [&](std::uint64_t ordinal, const Entry& entry) {
        body.Span(number, t, ordinal, entry, "");
      });
    }
  }
  return body.Finish(!asked.all && body.spans() < run.events);
}

std::string XprofHosts(const LoadedRun& run) {
  Json hosts = Json::array();
  for (const Worker& worker : run.workers) hosts.push_back({{"hostname", worker.name}});
  return JsonText(hosts);
}

}  // namespace strobe::viewer

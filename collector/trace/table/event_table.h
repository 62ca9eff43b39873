// The tables `events` and `stats` of one trace.
#pragma once
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "collector/trace/convert/traces.h"
#include "collector/trace/table/parquet_file.h"

namespace strobe::table {

// The texts must outlive the column, or its next Clear().
class TextColumn {
 public:
  // The text's place in the dictionary.
  std::uint32_t Code(std::string_view text);
  void Add(std::string_view text) { codes_.push_back(Code(text)); }
  Column column() const { return {.texts = codes_, .dictionary = dictionary_}; }
  void Clear();

 private:
  std::unordered_map<std::string_view, std::uint32_t> positions_;
  std::vector<std::string_view> dictionary_;
  std::vector<std::uint32_t> codes_;
};

// Writes the rows of `stats`: all stats of events, one row each.
class StatTable {
 public:
  static absl::StatusOr<std::unique_ptr<StatTable>> Create(ParquetFile::Sink sink);
  // `event` is the event's id in the table `events`.
  absl::Status Add(std::int64_t event, const xplane::Plane& plane, std::string_view bytes);
  absl::Status Finish();

 private:
  explicit StatTable(std::unique_ptr<ParquetFile> file) : file_(std::move(file)) {}
  void AddRow(std::int64_t event, const xplane::Plane& plane, const xplane::Stat& stat);
  absl::Status Flush();

  std::unique_ptr<ParquetFile> file_;
  std::vector<std::int64_t> events_, integers_;
  std::vector<double> numbers_;
  std::vector<std::uint8_t> has_integer_, has_number_, has_text_;
  TextColumn names_, texts_;
  std::deque<std::string> owned_;  // Texts that are not in the trace.
};

// Writes the rows of `events`. Groups of rows hold one or a few lines of the trace and are sorted
// by start, so that a reader skips what it does not ask for. At most kMaxRows rows are in memory.
class EventTable {
 public:
  // `stats` may be null.
  static absl::StatusOr<std::unique_ptr<EventTable>> Create(ParquetFile::Sink sink,
                                                            StatTable* stats);
  // `zero_ns` is the Unix time from which the trace's shift counts. DataLoss if the trace is
  // damaged, otherwise the sink's error.
  absl::Status AddTrace(const convert::WorkerTrace& trace, std::int64_t zero_ns);
  absl::Status Finish();

 private:
  static constexpr std::size_t kMaxRows = 1 << 18, kMinRows = 1 << 16;

  // An aggregate has no start.
  struct Row {
    std::int64_t start_ns, duration_ps, occurrences, line_id;
    std::uint32_t plane, line, name;
    const xplane::Plane* owner;
    std::string_view bytes;
  };

  EventTable(std::unique_ptr<ParquetFile> file, StatTable* stats)
      : file_(std::move(file)), stats_(stats) {}
  absl::Status AddLine(const xplane::Plane& plane, const xplane::Line& line, std::int64_t zero_ns);
  std::uint32_t NameCode(const xplane::Plane& plane, const xplane::Event& event);
  absl::Status Flush();
  absl::Status FillColumns();

  std::unique_ptr<ParquetFile> file_;
  StatTable* const stats_;
  // The columns of the group that is being written, kept because memory for them costs more than
  // filling them.
  struct Columns {
    std::vector<std::int64_t> ids{}, line_ids{}, starts{}, durations{}, occurrences{};
    std::vector<std::uint8_t> has_start{}, is_aggregate{};
    std::vector<std::uint32_t> planes{}, lines{}, names{};
  };

  std::vector<Row> rows_;
  Columns columns_;
  TextColumn planes_, lines_, names_;
  // The places of event names in the dictionary, by id, for the plane `codes_of_`.
  absl::flat_hash_map<std::int64_t, std::uint32_t> codes_;
  const xplane::Plane* codes_of_ = nullptr;
  std::int64_t next_id_ = 0;
};

}  // namespace strobe::table

#include "collector/trace/table/event_table.h"

#include <algorithm>
#include <limits>

#include "common/base/saturated.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"

namespace strobe::table {
namespace {

constexpr char kEventSchema[] =
    "message events {"
    " required int64 id;"
    " required binary plane (STRING);"
    " required binary line (STRING);"
    " required int64 line_id;"
    " required binary name (STRING);"
    " optional int64 start_ns;"
    " required int64 duration_ps;"
    " optional int64 occurrences; }";
constexpr char kStatSchema[] =
    "message stats {"
    " required int64 event;"
    " required binary name (STRING);"
    " optional binary text (STRING);"
    " optional int64 integer;"
    " optional double number; }";
constexpr std::size_t kMaxStatRows = 1 << 18;

// Rounds down, also before the line's begin.
std::int64_t WholeNs(std::int64_t ps) { return ps / 1000 - (ps % 1000 < 0 ? 1 : 0); }

}  // namespace

std::uint32_t TextColumn::Code(std::string_view text) {
  const auto [place, is_new] =
      positions_.try_emplace(text, static_cast<std::uint32_t>(dictionary_.size()));
  if (is_new) dictionary_.push_back(text);
  return place->second;
}

void TextColumn::Clear() {
  positions_.clear();
  dictionary_.clear();
  codes_.clear();
}

absl::StatusOr<std::unique_ptr<StatTable>> StatTable::Create(ParquetFile::Sink sink) {
  ASSIGN_OR_RETURN(std::unique_ptr<ParquetFile> file,
                   ParquetFile::Create(kStatSchema, std::move(sink)));
  return std::unique_ptr<StatTable>(new StatTable(std::move(file)));
}

absl::Status StatTable::Add(std::int64_t event, const xplane::Plane& plane,
                            std::string_view bytes) {
  xplane::Event read;
  read.bytes = bytes;
  RETURN_IF_ERROR(xplane::ForEachStat(
      plane, read, [&](const xplane::Stat& stat) { AddRow(event, plane, stat); }));
  return events_.size() < kMaxStatRows ? absl::OkStatus() : Flush();
}

void StatTable::AddRow(std::int64_t event, const xplane::Plane& plane, const xplane::Stat& stat) {
  events_.push_back(event);
  names_.Add(plane.NameOf(stat));
  const auto* number = std::get_if<double>(&stat.value);
  std::optional<std::int64_t> integer;
  std::optional<std::string_view> text;
  if (const auto* value = std::get_if<std::int64_t>(&stat.value)) integer = *value;
  if (const auto* value = std::get_if<std::uint64_t>(&stat.value)) {
    // The column is signed. A larger number would become negative there, so it is a text.
    if (*value <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
      integer = static_cast<std::int64_t>(*value);
    else
      text = owned_.emplace_back(StrCat(*value));
  }
  if (const auto* value = std::get_if<std::string_view>(&stat.value)) text = *value;
  integers_.push_back(integer.value_or(0));
  numbers_.push_back(number != nullptr ? *number : 0);
  texts_.Add(text.value_or(""));
  has_integer_.push_back(integer.has_value());
  has_number_.push_back(number != nullptr);
  has_text_.push_back(text.has_value());
}

absl::Status StatTable::Flush() {
  if (events_.empty()) return absl::OkStatus();
  Column texts = texts_.column();
  texts.present = has_text_;
  const Column columns[] = {{.integers = events_},
                            names_.column(),
                            texts,
                            {.integers = integers_, .present = has_integer_},
                            {.numbers = numbers_, .present = has_number_}};
  RETURN_IF_ERROR(file_->Write(columns, events_.size()));
  events_.clear();
  integers_.clear();
  numbers_.clear();
  for (auto* present : {&has_integer_, &has_number_, &has_text_}) present->clear();
  names_.Clear();
  texts_.Clear();
  owned_.clear();
  return absl::OkStatus();
}

absl::Status StatTable::Finish() {
  RETURN_IF_ERROR(Flush());
  return file_->Finish();
}

absl::StatusOr<std::unique_ptr<EventTable>> EventTable::Create(ParquetFile::Sink sink,
                                                               StatTable* stats) {
  ASSIGN_OR_RETURN(std::unique_ptr<ParquetFile> file,
                   ParquetFile::Create(kEventSchema, std::move(sink)));
  return std::unique_ptr<EventTable>(new EventTable(std::move(file), stats));
}

absl::Status EventTable::AddTrace(const convert::WorkerTrace& trace, std::int64_t zero_ns) {
  const std::int64_t zero = AddSaturated(zero_ns, trace.shift_ns);
  for (const xplane::Plane& plane : trace.space.planes) {
    for (const xplane::Line& line : plane.lines) {
      RETURN_IF_ERROR(AddLine(plane, line, AddSaturated(zero, line.timestamp_ns)));
      if (rows_.size() >= kMinRows) RETURN_IF_ERROR(Flush());
    }
  }
  return absl::OkStatus();
}

absl::Status EventTable::AddLine(const xplane::Plane& plane, const xplane::Line& line,
                                 std::int64_t zero_ns) {
  absl::Status written = absl::OkStatus();
  std::uint32_t plane_code = planes_.Code(plane.name), line_code = lines_.Code(line.name);
  RETURN_IF_ERROR(xplane::ForEachEvent(line, [&](const xplane::Event& event) {
    if (!written.ok()) return;
    rows_.push_back({.start_ns = AddSaturated(zero_ns, WholeNs(event.offset_ps)),
                     .duration_ps = event.duration_ps,
                     .occurrences = event.occurrences,
                     .line_id = line.id,
                     .plane = plane_code,
                     .line = line_code,
                     .name = NameCode(plane, event),
                     .owner = &plane,
                     .bytes = event.bytes});
    if (rows_.size() < kMaxRows) return;
    written = Flush();
    plane_code = planes_.Code(plane.name);  // The dictionaries are empty again.
    line_code = lines_.Code(line.name);
  }));
  return written;
}

// Names of events are looked up by id, which costs less than comparing them.
std::uint32_t EventTable::NameCode(const xplane::Plane& plane, const xplane::Event& event) {
  if (codes_of_ != &plane) {
    codes_.clear();
    codes_of_ = &plane;
  }
  const auto known = codes_.find(event.name_id);
  if (known != codes_.end()) return known->second;
  return codes_.emplace(event.name_id, names_.Code(plane.NameOf(event))).first->second;
}

absl::Status EventTable::FillColumns() {
  const std::size_t size = rows_.size();
  const auto resize = [size](auto&... columns) { (columns.resize(size), ...); };
  Columns& to = columns_;
  resize(to.ids, to.line_ids, to.starts, to.durations, to.occurrences, to.has_start,
         to.is_aggregate, to.planes, to.lines, to.names);
  for (std::size_t i = 0; i < size; ++i) {
    const Row& row = rows_[i];
    to.ids[i] = next_id_++;
    to.planes[i] = row.plane;
    to.lines[i] = row.line;
    to.line_ids[i] = row.line_id;
    to.names[i] = row.name;
    to.starts[i] = row.start_ns;
    to.has_start[i] = row.occurrences == 0;  // An aggregate of many events began at no one time.
    to.durations[i] = row.duration_ps;
    to.occurrences[i] = row.occurrences;
    to.is_aggregate[i] = row.occurrences != 0;
    if (stats_ != nullptr) RETURN_IF_ERROR(stats_->Add(to.ids[i], *row.owner, row.bytes));
  }
  return absl::OkStatus();
}

absl::Status EventTable::Flush() {
  if (rows_.empty()) return absl::OkStatus();
  const auto earlier = [](const Row& a, const Row& b) { return a.start_ns < b.start_ns; };
  if (!std::is_sorted(rows_.begin(), rows_.end(), earlier))
    std::stable_sort(rows_.begin(), rows_.end(), earlier);
  RETURN_IF_ERROR(FillColumns());
  const auto text = [](const TextColumn& dictionary, const std::vector<std::uint32_t>& codes) {
    Column column = dictionary.column();
    column.texts = codes;
    return column;
  };
  const Columns& from = columns_;
  const Column columns[] = {
      {.integers = from.ids},       text(planes_, from.planes),
      text(lines_, from.lines),     {.integers = from.line_ids},
      text(names_, from.names),     {.integers = from.starts, .present = from.has_start},
      {.integers = from.durations}, {.integers = from.occurrences, .present = from.is_aggregate}};
  RETURN_IF_ERROR(file_->Write(columns, rows_.size()));
  rows_.clear();
  for (TextColumn* dictionary : {&planes_, &lines_, &names_}) dictionary->Clear();
  codes_.clear();
  return absl::OkStatus();
}

absl::Status EventTable::Finish() {
  RETURN_IF_ERROR(Flush());
  return file_->Finish();
}

}  // namespace strobe::table

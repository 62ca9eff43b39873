#include "collector/store/catalog/run_entry.h"

#include <chrono>
#include <tuple>
#include <utility>

#include "common/base/strings.h"
#include "common/text/safe_text.h"

namespace strobe::catalog {
namespace {

constexpr std::size_t kMaxProblemBytes = 512;

std::size_t HeapOf(const std::string& text) {
  return text.capacity() < sizeof(std::string) / 2 ? 0 : text.capacity() + 1;
}

// The entry before its manifest is read.
RunEntry Begin(std::string run, const RunObjects& objects) {
  RunEntry entry{.run = std::move(run), .objects = objects, .bytes = objects.bytes};
  entry.time_ns = TimeOfRunName(entry.run);
  entry.has_manifest = objects.manifest_bytes > 0;
  entry.workers = objects.traces;
  return entry;
}

RunEntry Searchable(RunEntry entry) {
  MakeSearchable(entry);
  return entry;
}

}  // namespace

std::size_t RunEntry::size() const {
  std::size_t size = sizeof(RunEntry) + HeapOf(searchable) + causes.size() * sizeof(Cause);
  for (const std::string* text :
       {&run, &problem, &ns, &request, &job, &requester, &result, &headline})
    size += HeapOf(*text);
  return size;
}

std::int64_t TimeOfRunName(std::string_view run) {
  // "2026_11_21_08_30_00"
  constexpr std::string_view kForm = "dddd_dd_dd_dd_dd_dd";
  if (run.size() < kForm.size()) return 0;
  int numbers[6] = {};
  std::size_t number = 0;
  for (std::size_t i = 0; i < kForm.size(); ++i) {
    if (kForm[i] == '_') {
      if (run[i] != '_') return 0;
      ++number;
    } else {
      if (run[i] < '0' || run[i] > '9') return 0;
      numbers[number] = numbers[number] * 10 + (run[i] - '0');
    }
  }
  const auto [year, month, day, hour, minute, second] = std::to_array(numbers);
  const std::chrono::year_month_day date{std::chrono::year(year),
                                         std::chrono::month(static_cast<unsigned>(month)),
                                         std::chrono::day(static_cast<unsigned>(day))};
  if (!date.ok() || year < 1970 || year > 2200 || hour > 23 || minute > 59 || second > 60) return 0;
  const auto time = std::chrono::sys_days(date) + std::chrono::hours(hour) +
                    std::chrono::minutes(minute) + std::chrono::seconds(second);
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
}

std::uint64_t MarkOf(std::string_view version) {
  std::uint64_t mark = 0xcbf29ce484222325;  // FNV-1a.
  for (const char c : version) mark = (mark ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return mark;
}

RunEntry UnreadEntry(std::string run, const RunObjects& objects) {
  RunEntry entry = Begin(std::move(run), objects);
  entry.unread = true;
  return Searchable(std::move(entry));
}

RunEntry EntryOf(std::string run, const RunObjects& objects, const ManifestFacts& facts) {
  RunEntry entry = Begin(std::move(run), objects);
  if (entry.time_ns == 0) entry.time_ns = std::max<std::int64_t>(facts.instant_ns, 0);
  const std::size_t slash = facts.request.find('/');
  // Captures without Kubernetes have a description there.
  if (slash != std::string::npos && IsSafeName(facts.request.substr(0, slash))) {
    entry.ns = facts.request.substr(0, slash);
    entry.request = facts.request.substr(slash + 1);
  } else {
    entry.request = facts.request;
  }
  entry.job = facts.job;
  entry.requester = facts.requester;
  entry.result = facts.result;
  entry.causes = facts.causes;
  entry.synchronized = facts.synchronized;
  entry.skew_known = facts.skew_known;
  entry.skew_ns = facts.skew_ns;
  entry.skew_error_ns = facts.skew_error_ns;
  entry.workers = facts.workers;
  entry.ok = facts.ok;
  entry.bytes = facts.bytes;
  return Searchable(std::move(entry));
}

RunEntry EntryWithout(std::string run, const RunObjects& objects) {
  return Searchable(Begin(std::move(run), objects));
}

RunEntry UnreadableEntry(std::string run, const RunObjects& objects, const absl::Status& why) {
  RunEntry entry = Begin(std::move(run), objects);
  entry.problem = MessageOf(why).substr(0, kMaxProblemBytes);
  return Searchable(std::move(entry));
}

void MakeSearchable(RunEntry& entry) {
  std::string text;
  for (const std::string* field :
       {&entry.run, &entry.ns, &entry.request, &entry.job, &entry.requester, &entry.result}) {
    if (field->empty()) continue;
    text += *field;
    text += '\n';  // No word contains it, so that none is found across two fields.
  }
  for (const Cause& cause : entry.causes) text += cause.name + '\n';
  entry.searchable = LowerCase(text);
  entry.searchable.shrink_to_fit();
}

std::string LowerCase(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

bool ComesBefore(const RunListKey& a, const RunListKey& b) {
  return std::tie(b.time_ns, b.run, a.logdir) < std::tie(a.time_ns, a.run, b.logdir);
}

}  // namespace strobe::catalog

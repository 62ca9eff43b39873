#include "collector/store/catalog/run_search.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <utility>

#include "common/base/status_macros.h"
#include "common/base/strings.h"

namespace strobe::catalog {
namespace {

constexpr std::size_t kMaxWords = 16;

std::vector<std::string> WordsOf(const std::string& text) {
  std::vector<std::string> words;
  std::string spaced = LowerCase(text);
  std::replace_if(
      spaced.begin(), spaced.end(), [](char c) { return c == '\t' || c == '\n' || c == '\r'; },
      ' ');
  for (std::string& word : Split(spaced, ' ')) {
    if (!word.empty() && words.size() < kMaxWords) words.push_back(std::move(word));
  }
  // The longest word is the rarest, as a rule.
  std::stable_sort(words.begin(), words.end(),
                   [](const auto& a, const auto& b) { return a.size() > b.size(); });
  return words;
}

bool Matches(const RunEntry& entry, const std::vector<std::string>& words) {
  const std::string& text = entry.searchable;
  return std::all_of(words.begin(), words.end(), [&](const std::string& word) {
    // Much faster than std::string::find.
    return memmem(text.data(), text.size(), word.data(), word.size()) != nullptr;
  });
}

// "time/run/logdir" of the last run of a page. Neither a time nor a run's name contains a slash.
std::string TokenOf(const FoundRun& found) {
  return StrCat(found.entry->time_ns, "/", found.entry->run, "/", found.logdir);
}

absl::StatusOr<RunListKey> PlaceOf(std::string_view token) {
  const std::size_t first = token.find('/');
  const std::size_t second = first == std::string_view::npos ? first : token.find('/', first + 1);
  RunListKey place;
  if (second == std::string_view::npos ||
      std::from_chars(token.data(), token.data() + first, place.time_ns).ptr !=
          token.data() + first)
    return absl::InvalidArgumentError("after: give what the page before told as next");
  place.run = token.substr(first + 1, second - first - 1);
  place.logdir = token.substr(second + 1);
  return place;
}

RunListKey PlaceIn(const LogdirRuns& runs, const RunEntry& entry) {
  return {entry.time_ns, entry.run, runs.logdir};
}

}  // namespace

absl::StatusOr<RunAnswer> SearchRuns(std::span<const LogdirRunsRef> logdirs, const RunQuery& query,
                                     const Visible& visible) {
  if (query.text.size() > kMaxQueryBytes)
    return absl::InvalidArgumentError(StrCat("q: give at most ", kMaxQueryBytes, " bytes"));
  const std::vector<std::string> words = WordsOf(query.text);
  RunListKey after;
  if (!query.after.empty()) {
    ASSIGN_OR_RETURN(after, PlaceOf(query.after));
  }
  RunAnswer answer;
  for (const LogdirRunsRef& runs : logdirs) {
    if (!visible.Has(runs->logdir)) continue;
    answer.logdirs.push_back(runs);
    auto entry = runs->entries.begin();
    if (!query.after.empty()) {
      entry = std::partition_point(
          runs->entries.begin(), runs->entries.end(),
          [&](const EntryRef& e) { return !ComesBefore(after, PlaceIn(*runs, *e)); });
    }
    // One more than wanted tells whether there is a next page.
    for (std::size_t found = 0; entry != runs->entries.end() && found <= query.limit; ++entry) {
      if (!Matches(**entry, words)) continue;
      answer.runs.push_back({runs->logdir, *entry});
      ++found;
    }
  }
  std::sort(answer.runs.begin(), answer.runs.end(), [](const FoundRun& a, const FoundRun& b) {
    return ComesBefore({a.entry->time_ns, a.entry->run, a.logdir},
                       {b.entry->time_ns, b.entry->run, b.logdir});
  });
  if (answer.runs.size() > query.limit) {
    answer.runs.resize(query.limit);
    if (query.limit > 0) answer.next = TokenOf(answer.runs.back());
  }
  return answer;
}

}  // namespace strobe::catalog

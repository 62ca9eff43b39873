// A run as lists of runs show it, and the order in which they do. Pure.
#pragma once
#include <compare>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "collector/store/catalog/run_facts.h"

namespace strobe::catalog {

// What listing a logdir tells of a run.
struct RunObjects {
  std::uint64_t manifest_bytes = 0;  // The size of strobe.json; 0 = there is none.
  std::uint64_t manifest_mark = 0;   // Differs after it was replaced; see MarkOf.
  std::uint64_t bytes = 0;           // All objects.
  std::uint32_t traces = 0;
  std::uint64_t report_bytes = 0;  // The size of report.json or evidence.json; 0 = there is none.

  bool operator==(const RunObjects&) const = default;
};

// A hash of an object's version. It does not differ between processes.
std::uint64_t MarkOf(std::string_view version);

struct RunEntry {
  std::string run{};
  std::int64_t time_ns = 0;  // Unix time, by the run's name or else its manifest; 0 = not known.
  RunObjects objects{};      // As they were when the manifest was read.
  bool has_manifest = false;
  // The manifest is there but has not been read; all that follows is empty.
  bool unread = false;
  std::string problem{};  // Why the manifest could not be read; empty when it could.
  // What the manifest says. Its message is not kept.
  std::string ns{}, request{};  // The request's namespace and name.
  std::string job{}, requester{}, result{};
  std::vector<Cause> causes{};
  bool synchronized = false, skew_known = false;
  std::int64_t skew_ns = 0, skew_error_ns = 0;
  std::uint32_t workers = 0, ok = 0;
  std::uint64_t bytes = 0;  // The traces; all objects if no manifest tells.
  std::string headline{};   // What its report says first; empty = there is no report.
  // What words are searched in, in lower case; see MakeSearchable.
  std::string searchable{};

  // The memory that it takes.
  std::size_t size() const;
};
using EntryRef = std::shared_ptr<const RunEntry>;

// The time with which the run's name begins, as DefaultRunName writes it; 0 if it does not.
std::int64_t TimeOfRunName(std::string_view run);

// Entries of a run whose manifest is there but not read, whose manifest was read, or without one.
RunEntry UnreadEntry(std::string run, const RunObjects& objects);
RunEntry EntryOf(std::string run, const RunObjects& objects, const ManifestFacts& facts);
RunEntry EntryWithout(std::string run, const RunObjects& objects);
RunEntry UnreadableEntry(std::string run, const RunObjects& objects, const absl::Status& why);
// Fills in RunEntry::searchable.
void MakeSearchable(RunEntry& entry);

// ASCII letters in lower case; other characters as they are.
std::string LowerCase(std::string_view text);

// The place of a run in lists: newest first, then by name and logdir.
struct RunListKey {
  std::int64_t time_ns = 0;
  std::string_view run{}, logdir{};
};
// True if `a` comes before `b`.
bool ComesBefore(const RunListKey& a, const RunListKey& b);

}  // namespace strobe::catalog

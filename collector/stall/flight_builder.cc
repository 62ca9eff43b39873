#include "collector/stall/flight_builder.h"

#include <algorithm>
#include <charconv>

#include "common/base/status_macros.h"
#include "common/base/strings.h"

namespace strobe::stall {
namespace {

using Kind = DumpValue::Kind;

constexpr std::size_t kMaxText = 600, kMaxKeptBytes = std::size_t{4} << 20;

// "[[64, 64], [8]] Float, Long"
std::string ShapeText(const DumpValue* sizes, const DumpValue* dtypes) {
  std::string text;
  const auto add = [&text](const auto& self, const DumpValue& value) -> void {
    if (text.size() > kMaxText) return;
    if (value.is(Kind::kNumber)) text += StrCat(value.number);
    if (value.is(Kind::kText)) text += value.text.substr(0, kMaxText);
    if (!value.is(Kind::kList)) return;
    text += '[';
    for (std::size_t i = 0; i < value.items.size(); ++i) {
      if (i > 0) text += ", ";
      self(self, value.items[i]);
    }
    text += ']';
  };
  if (sizes != nullptr) add(add, *sizes);
  if (dtypes != nullptr) {
    for (const DumpValue& dtype : dtypes->items) {
      if (text.size() <= kMaxText) text += StrCat(" ", dtype.text.substr(0, kMaxText));
    }
  }
  return text;
}

// The innermost frame that is not PyTorch's own.
std::string SiteText(const DumpValue* frames) {
  if (frames == nullptr) return "";
  for (const DumpValue& frame : frames->items) {
    const DumpValue* file = frame.Find("filename");
    const DumpValue* name = frame.Find("name");
    const DumpValue* line = frame.Find("line");
    if (file == nullptr || name == nullptr || line == nullptr) continue;
    // A dump may name one long text as each of its frames.
    const std::string_view path = file->text.substr(0, kMaxText);
    if (Contains(path, "/torch/") || path.empty()) continue;
    return StrCat(path, ":", line->number, " in ", name->text.substr(0, kMaxText));
  }
  return "";
}

std::int64_t NumberOf(const DumpValue* value) {
  if (value == nullptr) return 0;
  if (!value->is(Kind::kText)) return value->number;
  std::int64_t number = 0;  // Some versions of the JSON form have numbers as texts.
  constexpr std::size_t kMaxDigits = 20;
  const std::string_view digits = value->text.substr(0, kMaxDigits);
  std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return number;
}

// A program may destroy its groups and make them anew, after an error. The new ones have the old
// names and numbers from 1 on, and the recorder keeps the old entries.
void KeepNewestGroups(std::vector<FlightEntry>& entries) {
  std::map<std::uint32_t, std::int64_t> newest;  // The ordinal, by group.
  for (const FlightEntry& entry : entries) newest[entry.group] = entry.pg_id;
  std::erase_if(entries,
                [&newest](const auto& entry) { return entry.pg_id != newest[entry.group]; });
}

bool IsTrue(const DumpValue* value) { return value != nullptr && value->number != 0; }

}  // namespace

std::vector<int> RanksOfText(std::string_view text) {
  std::vector<int> ranks;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at < end) {
    int rank = 0;
    const auto [next, error] = std::from_chars(at, end, rank);
    if (error == std::errc() && rank >= 0 && rank <= kMaxRank) ranks.push_back(rank);
    at = next == at ? at + 1 : next;
  }
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

FlightBuilder::FlightBuilder() { TextIndex(""); }

bool FlightBuilder::IsEntry(const DumpValue& dict) {
  return dict.Find("collective_seq_id") != nullptr && dict.Find("process_group") != nullptr;
}

std::uint32_t FlightBuilder::TextIndex(std::string_view text) {
  text = text.substr(0, kMaxText);
  if (const auto known = texts_.find(text); known != texts_.end()) return known->second;
  const auto index = static_cast<std::uint32_t>(record_.texts.size());
  texts_.emplace(text, index);
  record_.texts.emplace_back(text);
  kept_bytes_ += text.size();
  return index;
}

absl::StatusOr<std::uint32_t> FlightBuilder::GroupIndex(std::string_view name,
                                                        std::string_view desc) {
  name = name.substr(0, kMaxText);
  desc = desc.substr(0, kMaxText);
  const auto [at, added] = groups_.try_emplace({std::string(name), std::string(desc)},
                                               static_cast<std::uint32_t>(record_.groups.size()));
  if (added) {
    if (record_.groups.size() >= kMaxGroups)
      return absl::DataLossError(StrCat("there are more than ", kMaxGroups, " process groups"));
    record_.groups.push_back({.name = std::string(name), .desc = std::string(desc)});
    kept_bytes_ += name.size() + desc.size();
  }
  return at->second;
}

absl::Status FlightBuilder::CheckKept() const {
  if (kept_bytes_ <= kMaxKeptBytes) return absl::OkStatus();
  return absl::DataLossError(
      StrCat("its texts and groups have more than ", kMaxKeptBytes >> 20, " MiB"));
}

absl::Status FlightBuilder::AddEntry(const DumpValue& dict) {
  if (record_.entries.size() >= kMaxEntries)
    return absl::DataLossError(StrCat("there are more than ", kMaxEntries, " entries"));
  const DumpValue* group = dict.Find("process_group");
  const DumpValue* seq = dict.Find("collective_seq_id");
  if (group == nullptr || group->items.size() != 2 || !group->items[0].is(Kind::kText) ||
      !group->items[1].is(Kind::kText))
    return absl::DataLossError("an entry's process_group is not a pair of texts");
  if (seq == nullptr || NumberOf(seq) < 0)
    return absl::DataLossError("an entry's collective_seq_id is not a number");
  FlightEntry entry;
  ASSIGN_OR_RETURN(entry.group, GroupIndex(group->items[0].text, group->items[1].text));
  const DumpValue* op = dict.Find("profiling_name");
  const DumpValue* state = dict.Find("state");
  entry.op = TextIndex(op == nullptr ? "" : std::string_view(op->text));
  entry.shape = TextIndex(ShapeText(dict.Find("input_sizes"), dict.Find("input_dtypes")));
  entry.site = TextIndex(SiteText(dict.Find("frames")));
  entry.pg_id = NumberOf(dict.Find("pg_id"));
  entry.seq = NumberOf(seq);
  // Differences of these must not overflow.
  entry.created_ns = std::max<std::int64_t>(NumberOf(dict.Find("time_created_ns")), 0);
  // gloo's state stays "scheduled" for ever; NCCL's entries are retired some time after they end.
  entry.finished = IsTrue(dict.Find("retired")) || (state != nullptr && state->text == "completed");
  entry.p2p = IsTrue(dict.Find("is_p2p"));
  record_.entries.push_back(entry);
  return CheckKept();
}

absl::Status FlightBuilder::AddConfig(const DumpValue& config) {
  for (std::size_t i = 0; i + 1 < config.items.size(); i += 2) {
    const DumpValue* name = config.items[i + 1].Find("name");
    const DumpValue* desc = config.items[i + 1].Find("desc");
    const DumpValue* ranks = config.items[i + 1].Find("ranks");
    // gloo has one group without a name, whose ranks are those of whichever group came last.
    if (name == nullptr || name->text.empty() || desc == nullptr || ranks == nullptr) continue;
    ASSIGN_OR_RETURN(const std::uint32_t index, GroupIndex(name->text, desc->text));
    kept_bytes_ += ranks->text.size();
    RETURN_IF_ERROR(CheckKept());
    record_.groups[index].ranks = RanksOfText(ranks->text);
  }
  return absl::OkStatus();
}

absl::StatusOr<FlightRecord> FlightBuilder::Finish(const DumpValue& root) {
  const DumpValue* version = root.Find("version");
  const DumpValue* statuses = root.Find("pg_status");
  // A recorder that is off, or of another backend, writes an empty dict.
  if (!root.is(Kind::kDict)) return absl::DataLossError("the dump is not a dict");
  if (!root.items.empty() && version == nullptr)
    return absl::DataLossError("the dict has no version; this is no Flight Recorder's dump");
  if (version != nullptr) record_.version = version->text;
  if (const DumpValue* config = root.Find("pg_config"); config != nullptr)
    RETURN_IF_ERROR(AddConfig(*config));
  for (std::size_t i = 0; statuses != nullptr && i + 1 < statuses->items.size(); i += 2) {
    const DumpValue& status = statuses->items[i + 1];
    record_.statuses.push_back({.pg_id = NumberOf(&statuses->items[i]),
                                .enqueued = NumberOf(status.Find("last_enqueued_collective")),
                                .completed = NumberOf(status.Find("last_completed_collective"))});
  }
  KeepNewestGroups(record_.entries);
  return std::move(record_);
}

}  // namespace strobe::stall

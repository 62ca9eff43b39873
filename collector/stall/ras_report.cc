#include "collector/stall/ras_report.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <map>

#include "collector/stall/flight_record.h"
#include "collector/stall/text_pieces.h"
#include "common/base/strings.h"
#include "common/text/json.h"

namespace strobe::stall {

namespace {

// RAS writes a text once before the ranks that it is about; a report has it with each of them.
constexpr std::size_t kMaxRasText = 300;

// The words of a line, of which a text of RAS has less than 20.
std::vector<std::string_view> WordsOf(std::string_view line) {
  std::vector<std::string_view> words;
  for (std::string_view word = TakeWord(line); !word.empty() && words.size() < 64;
       word = TakeWord(line))
    words.push_back(word);
  return words;
}

bool ToNumber(std::string_view word, std::int64_t& number) {
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  return error == std::errc() && end == word.data() + word.size();
}

bool ToRank(std::string_view word, int& rank) {
  std::int64_t number = 0;
  if (!ToNumber(word, number) || number < 0 || number > std::numeric_limits<int>::max())
    return false;
  rank = static_cast<int>(number);
  return true;
}

// Reads the text line by line. It has no mark at its end, and "Warnings" is its last heading.
class RasText {
 public:
  RasReport Read(std::string_view text) {
    while (!text.empty()) AddLine(TakeLine(text));
    return std::move(report_);
  }

 private:
  enum class Section { kNone, kMissing, kDead, kTimeout, kCommunicator };

  void AddLine(std::string_view line) {
    const std::vector<std::string_view> words = WordsOf(line);
    if (words.empty()) return;
    if (line.starts_with("NCCL version ") && words.size() > 2)
      report_.nccl_version = words[2];
    else if (line.starts_with("Warnings"))
      report_.whole = true;
    else if (line == "INCOMPLETE")
      section_ = Section::kMissing;
    else if (line == "DEAD")
      section_ = Section::kDead;
    else if (line == "TIMEOUT")
      section_ = Section::kTimeout;
    else if (line[0] == '#')
      BeginCommunicator(words);
    else if (words.size() >= 8 && section_ == Section::kNone)
      AddGroupRow(words);
    else if (line.starts_with("  "))
      AddDetail(line, words);
  }

  // "    0         8         4         1         4        32   RUNNING      OK"
  void AddGroupRow(const std::vector<std::string_view>& words) {
    int group = 0, size = 0;
    if (ToRank(words[0], group) && ToRank(words[4], size)) sizes_[group] = size;
  }

  // "#0-3 (cf264af53edbe986) MISMATCH"
  void BeginCommunicator(const std::vector<std::string_view>& words) {
    if (words.size() < 3 || words[1].size() < 2) return;
    section_ = Section::kCommunicator;
    op_.clear();
    trouble_.clear();
    incomplete_ = words[2] == "INCOMPLETE";
    const std::string hash(words[1].substr(1, words[1].size() - 2));
    const auto [at, added] = communicators_.try_emplace(hash, report_.communicators.size());
    communicator_ = at->second;
    if (!added) return;
    int group = 0;
    const std::string_view number = words[0].substr(1, words[0].find('-') - 1);
    const auto size = ToRank(number, group) ? sizes_.find(group) : sizes_.end();
    report_.communicators.push_back(
        {.hash = hash, .size = size == sizes_.end() ? 0 : size->second});
  }

  void AddDetail(std::string_view line, const std::vector<std::string_view>& words) {
    int count = 0;
    if (section_ == Section::kMissing && words.size() > 4 && words[0] == "Missing" &&
        ToRank(words[4], count))
      report_.missing_processes = count;
    if (section_ == Section::kDead && Contains(line, "considered dead") && ToRank(words[0], count))
      report_.dead_processes = count;
    if (section_ == Section::kTimeout && words.size() > 1 && ToRank(words[1], count))
      report_.timeouts = count;
    if (section_ != Section::kCommunicator) return;
    if (words.size() > 5 && Contains(line, "ranks have different") && words[5] == "operation")
      op_ = words[4].substr(0, kMaxRasText);
    else if (words[0] == "Rank" && words.size() > 2)
      AddRank(line, words);
    else if (words.size() > 2 && words[1] == "ranks" && ToRank(words[0], count))
      AddMany(line, words, count);
    else if (Contains(line, " error"))
      trouble_ = line.substr(2, kMaxRasText);
  }

  // "  26 ranks have launched up to operation 6650"
  void AddMany(std::string_view line, const std::vector<std::string_view>& words, int ranks) {
    trouble_.clear();
    many_ = -1;
    if (Contains(line, " not launched any ")) {
      many_ = 0;
    } else if (!Contains(line, " launched up to operation ") || !ToNumber(words.back(), many_)) {
      trouble_ = line.substr(std::min(line.find("ranks ") + 6, line.size()), kMaxRasText);
      return;
    }
    report_.communicators[communicator_].usual.push_back(
        {.op = op_, .ranks = ranks, .count = many_});
  }

  // "  Rank 0 has launched up to operation 6649 -- GPU 0 managed by process 483072 on
  // node 10.0.0.7"
  void AddRank(std::string_view line, const std::vector<std::string_view>& words) {
    int number = 0;
    if (!ToRank(words[1], number)) return;
    std::string host, gpu;
    std::int64_t pid = -1, count = -1;
    for (std::size_t i = 2; i + 1 < words.size(); ++i) {
      if (words[i] == "node") host = words[i + 1];
      if (words[i] == "GPU") gpu = words[i + 1];
      if (words[i] == "process") ToNumber(words[i + 1], pid);
      if (words[i] == "operation") ToNumber(words[i + 1], count);
    }
    RasCommunicator& communicator = report_.communicators[communicator_];
    if (incomplete_) {
      communicator.missing.push_back({.rank = number, .host = host, .pid = pid});
      return;
    }
    const bool own = words[2] != "--";  // Otherwise the line before it says what it did.
    std::string trouble = trouble_;
    if (Contains(line, " not launched any ")) count = 0;
    if (own && count < 0) trouble = line.substr(2, std::min(line.find(" -- "), line.size()) - 2);
    if (!own && trouble.empty()) count = many_;
    RasRank rank{.rank = number, .host = host, .pid = pid, .gpu = gpu, .trouble = trouble};
    if (count >= 0) rank.counts.push_back({op_, count});
    // The ranks of `many_` are now named.
    if (!own && count >= 0 && !communicator.usual.empty()) --communicator.usual.back().ranks;
    communicator.ranks.push_back(std::move(rank));
  }

  RasReport report_{};
  Section section_ = Section::kNone;
  std::map<int, int> sizes_{};  // Sizes of the communicators of each group.
  std::map<std::string, std::size_t> communicators_{};
  std::size_t communicator_ = 0;
  bool incomplete_ = false;
  std::string op_{}, trouble_{};
  std::int64_t many_ = -1;  // What the ranks of the next lines launched.
};

}  // namespace

bool LooksLikeRas(std::string_view text) {
  const std::string_view begin = text.substr(0, 4096);
  return begin.starts_with("NCCL version ") ||
         (begin.starts_with("{") && Contains(begin, "\"communicators_count\""));
}

absl::StatusOr<RasReport> ReadRasReport(std::string_view text) {
  if (text.size() > kMaxRasBytes)
    return absl::DataLossError(StrCat("RAS's answer has more than ", kMaxRasBytes, " bytes"));
  const std::size_t begin = std::min(text.find_first_not_of(" \r\n"), text.size());
  text.remove_prefix(begin);
  if (text.starts_with('{')) return ReadRasJson(text);
  if (!text.starts_with("NCCL version "))
    return absl::DataLossError("the text is not an answer of NCCL's RAS to STATUS");
  return RasText().Read(text);
}

namespace {

using RasJson = nlohmann::json;

std::int64_t IntOf(const RasJson& object, const char* key, std::int64_t otherwise = 0) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number_integer() ? found->get<std::int64_t>()
                                                             : otherwise;
}

int SmallInt(const RasJson& object, const char* key) {
  return static_cast<int>(
      std::clamp<std::int64_t>(IntOf(object, key), -1, std::numeric_limits<std::int32_t>::max()));
}

std::string StringOf(const RasJson& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

// An empty object in place of a member that is missing or of another kind.
const RasJson& ObjectOf(const RasJson& object, const char* key) {
  static const RasJson kNothing = RasJson::object();
  const auto found = object.find(key);
  return found != object.end() && found->is_object() ? *found : kNothing;
}

RasRank RankOfJson(const RasJson& json) {
  const RasJson& status = ObjectOf(json, "status");
  RasRank rank{.rank = SmallInt(json, "rank"),
               .host = StringOf(json, "host"),
               .pid = IntOf(json, "pid", -1),
               .gpu = StrCat(IntOf(json, "cuda_dev", -1)),
               .init_state = IntOf(status, "init_state"),
               .async_error = IntOf(status, "async_error")};
  for (const auto& [op, count] : ObjectOf(json, "collective_counts").items()) {
    if (count.is_number_integer()) rank.counts.push_back({op, count.get<std::int64_t>()});
  }
  return rank;
}

RasMissing MissingOfJson(const RasJson& json) {
  const RasJson& status = ObjectOf(json, "status");
  const auto dead = status.find("considered_dead");
  return {.rank = SmallInt(json, "rank"),
          .host = StringOf(json, "host"),
          .pid = IntOf(json, "pid", -1),
          .dead = dead != status.end() && dead->is_boolean() && dead->get<bool>()};
}

// "0xae94423cfbb2ef4a" as the text writes it, with 16 digits.
std::string HashOf(std::string hash) {
  if (hash.starts_with("0x")) hash.erase(0, 2);
  return std::string(hash.size() < 16 ? 16 - hash.size() : 0, '0') + hash;
}

RasCommunicator CommunicatorOfJson(const RasJson& json) {
  RasCommunicator made{.hash = HashOf(StringOf(json, "hash")), .size = SmallInt(json, "size")};
  if (const auto ranks = json.find("ranks"); ranks != json.end() && ranks->is_array()) {
    for (const RasJson& rank : *ranks) {
      if (rank.is_object()) made.ranks.push_back(RankOfJson(rank));
    }
  }
  if (const auto ranks = json.find("missing_ranks"); ranks != json.end() && ranks->is_array()) {
    for (const RasJson& rank : *ranks) {
      if (rank.is_object()) made.missing.push_back(MissingOfJson(rank));
    }
  }
  return made;
}

}  // namespace

std::string WithCommas(std::string_view text) {
  constexpr std::string_view kKey = "\"nvml_dev\": ";
  std::string whole;
  whole.reserve(text.size() + 64);
  std::size_t done = 0;
  for (std::size_t at = text.find(kKey); at != std::string_view::npos; at = text.find(kKey, done)) {
    const std::size_t number = at + kKey.size();
    const std::size_t end = std::min(text.find_first_not_of("-0123456789", number), text.size());
    const std::size_t next = std::min(text.find_first_not_of(" \r\n", end), text.size());
    whole += text.substr(done, end - done);
    if (next > end && text.substr(next).starts_with("\"status\"")) whole += ',';
    done = end;
  }
  whole += text.substr(done);
  return whole;
}

absl::StatusOr<RasReport> ReadRasJson(std::string_view text) {
  RasJson json = ReadJson(text, {.max_depth = 8, .max_values = kMaxJsonValues});
  if (json.is_discarded())
    json = ReadJson(WithCommas(text), {.max_depth = 8, .max_values = kMaxJsonValues});
  if (json.is_discarded())
    return absl::DataLossError(
        "RAS's answer is not JSON, was cut off, or has too many values; ask RAS again");
  if (!json.is_object() || !json.contains("nccl_version") || !json.contains("communicators"))
    return absl::DataLossError("the JSON is not an answer of NCCL's RAS to STATUS");
  RasReport report{.nccl_version = StringOf(json, "nccl_version"),
                   .timestamp = StringOf(json, "timestamp"),
                   .whole = true,
                   .timeouts = SmallInt(ObjectOf(json, "ras"), "timeouts_count")};
  if (!json["communicators"].is_array())
    return absl::DataLossError("communicators of RAS's answer is not a list");
  for (const RasJson& communicator : json["communicators"]) {
    if (communicator.is_object()) report.communicators.push_back(CommunicatorOfJson(communicator));
  }
  return report;
}

}  // namespace strobe::stall

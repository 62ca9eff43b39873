#include "collector/stall/evidence_files.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "collector/stall/collective_record.h"
#include "collector/stall/flight_builder.h"
#include "collector/stall/flight_dump.h"
#include "collector/stall/sockets.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/text/json.h"

namespace strobe::stall {
namespace {

using EvidenceJson = nlohmann::json;

constexpr std::size_t kMaxFactBytes = std::size_t{4} << 20, kMaxMoves = 64;

bool IsDigit(char byte) { return byte >= '0' && byte <= '9'; }

int RankOfDigits(std::string_view digits) {
  int rank = -1;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), rank);
  const bool whole = error == std::errc() && end == digits.data() + digits.size();
  return whole && rank >= 0 && rank <= kMaxRank ? rank : -1;
}

std::string_view DigitsAt(std::string_view name, std::size_t at) {
  const std::size_t end =
      std::find_if_not(name.begin() + static_cast<std::ptrdiff_t>(at), name.end(), IsDigit) -
      name.begin();
  return name.substr(at, end - at);
}

absl::StatusOr<EvidenceJson> ReadFacts(std::string_view bytes) {
  if (bytes.size() > kMaxFactBytes)
    return absl::DataLossError(StrCat("it has more than ", kMaxFactBytes, " bytes"));
  EvidenceJson json = ReadJson(bytes, {.max_depth = 6, .max_values = kMaxJsonValues});
  if (json.is_discarded()) return absl::DataLossError("it is not JSON, or has too many values");
  return json;
}

// [{"name": "1", "desc": "TP", "backend": "gloo", "ranks": [0, 1]}]
absl::Status AddGroups(std::string_view bytes, RankEvidence& rank) {
  ASSIGN_OR_RETURN(const EvidenceJson json, ReadFacts(bytes));
  rank.has_groups = true;
  for (const EvidenceJson& group : json) {
    if (!group.is_object()) continue;
    FlightGroup made;
    for (const char* key : {"name", "desc"}) {
      const auto text = group.find(key);
      if (text == group.end() || !text->is_string())
        return absl::DataLossError(StrCat("a group has no ", key));
      (key[0] == 'n' ? made.name : made.desc) = text->get<std::string>();
    }
    const auto members = group.find("ranks");
    if (members == group.end() || !members->is_array())
      return absl::DataLossError("a group has no ranks");
    if (rank.groups.size() == kMaxGroups)
      return absl::DataLossError(StrCat("there are more than ", kMaxGroups, " groups"));
    made.ranks = RanksOfText(members->dump());
    const auto backend = group.find("backend");
    rank.may_abort = rank.may_abort || (backend != group.end() && *backend != "gloo");
    rank.groups.push_back(std::move(made));
  }
  return absl::OkStatus();
}

ProcessState StateOfLetter(std::string_view state) {
  if (state == "Z" || state == "X" || state == "gone") return ProcessState::kGone;
  if (state == "T" || state == "t") return ProcessState::kStopped;
  return state.empty() ? ProcessState::kUnknown : ProcessState::kThere;
}

// {"world": 4, "process_states": {"2": "T"}, "exit_status": {"2": 9},
//  "exceptions": {"0": ["..."]}, "moves": ["..."]}
absl::Status AddProcesses(std::string_view bytes, JobEvidence& evidence) {
  ASSIGN_OR_RETURN(const EvidenceJson json, ReadFacts(bytes));
  const auto each = [&](const char* member, const auto& add) {
    const auto found = json.find(member);
    if (found == json.end() || !found->is_object()) return;
    for (const auto& [key, value] : found->items()) {
      const int rank = RankOfDigits(key);
      if (rank >= 0) add(evidence.ranks[rank], value);
    }
  };
  each("process_states", [](RankEvidence& rank, const EvidenceJson& state) {
    if (state.is_string()) rank.state = StateOfLetter(state.get_ref<const std::string&>());
  });
  each("ages_s", [](RankEvidence& rank, const EvidenceJson& age) {
    if (age.is_number()) rank.age_s = age.get<double>();
  });
  each("exit_status", [](RankEvidence& rank, const EvidenceJson& status) {
    if (status.is_number_integer())
      rank.signal = static_cast<int>(status.get<std::int64_t>() & 0x7f);  // As waitpid tells it.
  });
  each("exceptions", [](RankEvidence& rank, const EvidenceJson& lines) {
    if (lines.is_array() && !lines.empty() && lines.back().is_string())
      rank.exception = lines.back().get<std::string>();
  });
  const auto moves = json.find("moves");
  if (moves != json.end() && moves->is_array()) {
    for (const EvidenceJson& move : *moves) {
      if (move.is_string() && evidence.moves.size() < kMaxMoves)
        evidence.moves.push_back(move.get<std::string>());
    }
  }
  if (const auto world = json.find("world"); world != json.end() && world->is_number_integer())
    evidence.world =
        static_cast<int>(std::clamp<std::int64_t>(world->get<std::int64_t>(), 0, kMaxRank));
  return absl::OkStatus();
}

// The first look if there is none yet, or else the second.
template <typename Look>
absl::Status AddLook(absl::StatusOr<Look> look, bool later, std::optional<Look>& first,
                     std::optional<Look>& second) {
  RETURN_IF_ERROR(look.status());
  std::optional<Look>& slot = later || first ? second : first;
  if (slot) return absl::InvalidArgumentError("it is a third look at this rank; give two");
  slot = *std::move(look);
  return absl::OkStatus();
}

// A job that stands still dumps the same bytes twice, and most of the time to a verdict is spent on
// reading them.
absl::Status AddFlight(bool later, std::string_view bytes,
                       absl::StatusOr<FlightRecord> (*read)(std::string_view), RankEvidence& rank) {
  const std::size_t hash = std::hash<std::string_view>()(bytes);
  if (rank.flight && hash == rank.flight_hash)
    return AddLook<FlightRecord>(*rank.flight, later, rank.flight, rank.flight_later);
  if (!later && !rank.flight) rank.flight_hash = hash;
  return AddLook(read(bytes), later, rank.flight, rank.flight_later);
}

absl::Status AddOfRank(EvidenceKind kind, bool later, std::string_view bytes, RankEvidence& rank) {
  switch (kind) {
    case EvidenceKind::kFlightPickle:
      return AddFlight(later, bytes, &ReadFlightPickle, rank);
    case EvidenceKind::kFlightJson:
      return AddFlight(later, bytes, &ReadFlightJson, rank);
    case EvidenceKind::kCollectives:
      return AddLook(ReadCollectives(bytes), later, rank.collectives, rank.collectives_later);
    case EvidenceKind::kStacks:
      return AddLook(ReadStacks(bytes), later, rank.stacks, rank.stacks_later);
    case EvidenceKind::kGroups:
      return AddGroups(bytes, rank);
    case EvidenceKind::kSockets:
      rank.links = ReadSockets(bytes);
      return absl::OkStatus();
    default:
      return absl::OkStatus();
  }
}

}  // namespace

EvidenceKind KindOfEvidence(std::string_view bytes) {
  if (LooksLikePickle(bytes)) return EvidenceKind::kFlightPickle;
  if (LooksLikeRas(bytes)) return EvidenceKind::kRas;
  if (LooksLikeCollectives(bytes)) return EvidenceKind::kCollectives;
  const std::size_t begin = bytes.find_first_not_of(" \r\n");
  if (begin != std::string_view::npos && bytes[begin] == '{') {
    if (Contains(bytes, "\"process_states\"")) return EvidenceKind::kProcesses;
    const bool flight = Contains(bytes, "\"pg_config\"") || Contains(bytes, "\"pg_status\"");
    return flight ? EvidenceKind::kFlightJson : EvidenceKind::kNoEvidence;
  }
  if (begin != std::string_view::npos && bytes[begin] == '[') {
    const bool groups = Contains(bytes, "\"desc\"") && Contains(bytes, "\"ranks\"");
    return groups ? EvidenceKind::kGroups : EvidenceKind::kNoEvidence;
  }
  if (LooksLikeSockets(bytes)) return EvidenceKind::kSockets;
  return LooksLikeStacks(bytes) ? EvidenceKind::kStacks : EvidenceKind::kNoEvidence;
}

EvidenceName ParseEvidenceName(std::string_view name) {
  const auto rank_at = [name](std::size_t at) -> EvidenceName {
    const std::string_view digits = DigitsAt(name, at);
    return {.rank = RankOfDigits(digits),
            .later = name.substr(at + digits.size()).starts_with(".b.")};
  };
  const std::string_view first = DigitsAt(name, 0);
  if (!first.empty() && (first.size() == name.size() || name[first.size()] == '.'))
    return rank_at(0);
  constexpr std::string_view kWord = "rank";
  for (std::size_t at = name.find(kWord); at != std::string_view::npos;
       at = name.find(kWord, at + 1)) {
    const std::size_t digits = std::min(name.find_first_not_of("_-=.", at + 4), name.size());
    if (!DigitsAt(name, digits).empty()) return rank_at(digits);
  }
  const std::string_view stem = name.substr(0, name.find('.'));
  const std::size_t last = stem.find_last_of("0123456789");
  if (last == std::string_view::npos) return {};
  const std::size_t before = stem.substr(0, last + 1).find_last_not_of("0123456789");
  return rank_at(before == std::string_view::npos ? 0 : before + 1);
}

absl::Status AddEvidence(std::string_view name, std::string_view bytes, JobEvidence& evidence) {
  const EvidenceKind kind = KindOfEvidence(bytes);
  if (kind == EvidenceKind::kNoEvidence) return absl::OkStatus();
  if (kind == EvidenceKind::kProcesses) return AddProcesses(bytes, evidence);
  if (kind == EvidenceKind::kRas) {
    ASSIGN_OR_RETURN(RasReport report, ReadRasReport(bytes));
    evidence.ras.push_back(std::move(report));
    return absl::OkStatus();
  }
  const EvidenceName parsed = ParseEvidenceName(name);
  if (parsed.rank < 0)
    return absl::InvalidArgumentError(
        "its name has no rank; give it one, for example rank_3.stacks");
  return AddOfRank(kind, parsed.later, bytes, evidence.ranks[parsed.rank]);
}

}  // namespace strobe::stall

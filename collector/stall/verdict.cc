#include "collector/stall/verdict.h"

#include "absl/time/time.h"
#include "common/base/duration.h"
#include "common/base/enum_names.h"
#include "common/base/strings.h"
#include "common/text/json.h"

namespace strobe::stall {

namespace {

constexpr EnumNames<StallClass, 9> kClassNames({{StallClass::kUnknown, "unknown"},
                                                {StallClass::kHost, "host"},
                                                {StallClass::kDevice, "device"},
                                                {StallClass::kSilent, "silent"},
                                                {StallClass::kGone, "gone"},
                                                {StallClass::kMismatch, "mismatch"},
                                                {StallClass::kOtherBranch, "other-branch"},
                                                {StallClass::kNetwork, "network"},
                                                {StallClass::kProgressing, "progressing"}});
constexpr EnumNames<Confidence, 3> kConfidenceNames({{Confidence::kCannotTell, "cannot tell"},
                                                     {Confidence::kProbably, "probably"},
                                                     {Confidence::kFirm, "firm"}});

}  // namespace

std::string_view NameOf(StallClass kind) { return kClassNames.Of(kind, "unknown"); }

std::string_view NameOf(Confidence confidence) {
  return kConfidenceNames.Of(confidence, "cannot tell");
}

namespace {

using VerdictObject = nlohmann::ordered_json;

std::string NumberOfRanks(std::size_t count) {
  return StrCat(count, count == 1 ? " rank" : " ranks");
}

// A group of hundreds that are not neighbours is a long list.
std::string MembersText(const std::vector<int>& ranks) {
  constexpr std::size_t kMaxListed = 60;
  const std::string all = RanksText(ranks);
  if (all.size() <= kMaxListed) return StrCat("ranks ", all);
  return StrCat(NumberOfRanks(ranks.size()), " from ", ranks.front(), " to ", ranks.back());
}

std::string CollectiveText(const Collective& collective) {
  const std::string& group = collective.desc.empty() ? collective.group : collective.desc;
  return StrCat(collective.op, " #", collective.seq, " of ", group, " (",
                MembersText(collective.ranks), ")");
}

std::string CulpritName(const Culprit& culprit) {
  return StrCat("rank ", culprit.rank,
                culprit.label.empty() ? std::string() : StrCat(" (", culprit.label, ")"));
}

std::string WhereIs(const Culprit& culprit) {
  if (culprit.line.empty()) return "";
  if (culprit.keeps_gil) return StrCat("; it keeps Python's lock at ", culprit.line);
  return StrCat("; its main thread is at ", culprit.line,
                culprit.inside.empty() ? std::string() : StrCat(", inside ", culprit.inside));
}

// What it did, after its name.
std::string DeedOf(const Culprit& culprit, StallClass kind) {
  const std::string what =
      culprit.blocked_on ? CollectiveText(*culprit.blocked_on) : "what the others wait for";
  switch (kind) {
    case StallClass::kHost:
      return StrCat("never launched ", what, WhereIs(culprit));
    case StallClass::kDevice:
      return StrCat("launched ", what,
                    ", which others have finished: its device or transport lags");
    case StallClass::kSilent:
      return "is there and does not run: its process is stopped or frozen";
    case StallClass::kGone:
      return "has ended, and not because it lost another";
    case StallClass::kMismatch:
      return StrCat("launched ", culprit.launched.empty() ? "another call" : culprit.launched,
                    " where others launched another; they wait in ", what, WhereIs(culprit));
    case StallClass::kOtherBranch:
      return StrCat("left out ", what, ", or waits where the others do not", WhereIs(culprit));
    case StallClass::kNetwork:
      return "is cut off";
    default:
      return "";
  }
}

std::string Headline(const Verdict& verdict) {
  if (verdict.kind == StallClass::kProgressing)
    return StrCat("the job moves, and nobody holds it up: ", verdict.reason, "\n");
  if (verdict.culprits.empty()) {
    std::string text = "nobody is named";
    if (verdict.kind != StallClass::kUnknown) text += StrCat(" (", NameOf(verdict.kind), ")");
    if (verdict.collective)
      text += StrCat(": ", NumberOfRanks(verdict.waiters.size()), " wait in ",
                     CollectiveText(*verdict.collective));
    return StrCat(text, ": ", verdict.reason, "\n");
  }
  const std::string held = verdict.waiters.empty()
                               ? ""
                               : StrCat(" up ", verdict.waiters.size(),
                                        verdict.waiters.size() == 1 ? " other" : " others");
  std::string text;
  if (verdict.culprits.size() == 1) {
    const Culprit& culprit = verdict.culprits.front();
    text = StrCat(CulpritName(culprit),
                  held.empty() ? std::string(" ") : StrCat(" holds", held, ": it "),
                  DeedOf(culprit, verdict.kind), "\n");
  } else {
    std::vector<int> ranks;
    for (const Culprit& culprit : verdict.culprits) ranks.push_back(culprit.rank);
    text = StrCat("ranks ", RanksText(ranks),
                  held.empty() ? std::string(" hold up the job") : StrCat(" hold", held), ":\n");
    for (const Culprit& culprit : verdict.culprits)
      text += StrCat("  ", CulpritName(culprit), " ", DeedOf(culprit, verdict.kind), "\n");
  }
  if (!verdict.reason.empty()) text += StrCat(verdict.reason, "\n");
  return text;
}

std::string EvidenceText(const Verdict& verdict) {
  const LookedAt& looked = verdict.looked_at;
  std::vector<std::string> parts;
  const bool by_state = verdict.kind == StallClass::kGone || verdict.kind == StallClass::kSilent;
  if (by_state && looked.states > 0)
    parts.push_back(StrCat("states of ", looked.states, " processes"));
  if (verdict.kind == StallClass::kNetwork) parts.emplace_back("their connections");
  if (looked.flight_records > 0)
    parts.push_back(StrCat(looked.by_plugin ? "calls of NCCL by " : "Flight Recorder of ",
                           NumberOfRanks(looked.flight_records)));
  if (looked.stacks > 0) parts.push_back(StrCat("stacks of ", looked.stacks));
  if (looked.flight_records > 0) parts.emplace_back(looked.twice ? "each seen twice" : "seen once");
  if (looked.ras_reports > 0) parts.emplace_back(looked.ras_agrees ? "RAS agrees" : "RAS");
  return parts.empty() ? "no evidence" : Join(parts, ", ");
}

const Collective* WaitedFor(const Verdict& verdict) {
  if (verdict.collective) return &*verdict.collective;
  for (const Culprit& culprit : verdict.culprits) {
    if (culprit.blocked_on) return &*culprit.blocked_on;
  }
  return nullptr;
}

std::string TimeText(std::int64_t ns) {
  return absl::FormatTime("%Y-%m-%d %H:%M:%S UTC", absl::FromUnixNanos(ns), absl::UTCTimeZone());
}

VerdictObject JsonOf(const Collective& collective) {
  // A group may be said to have any number of members.
  constexpr std::size_t kMaxRanks = 1024;
  std::vector<int> first = collective.ranks;
  first.resize(std::min(first.size(), kMaxRanks));
  return {{"op", collective.op},
          {"group", collective.group},
          {"description", collective.desc},
          {"ranks", first},
          {"members", collective.ranks.size()},
          {"number", collective.seq},
          {"firstWaiter", collective.first_waiter},
          {"sinceUnixNs", collective.since_ns},
          {"waitedNs", collective.waited_ns},
          {"usualGapNs", collective.usual_gap_ns}};
}

VerdictObject JsonOf(const Culprit& culprit) {
  VerdictObject object = {{"rank", culprit.rank}};
  if (!culprit.label.empty()) object["name"] = culprit.label;
  if (culprit.blocked_on) object["blockedOn"] = JsonOf(*culprit.blocked_on);
  if (!culprit.launched.empty()) object["launched"] = culprit.launched;
  if (!culprit.line.empty()) object["line"] = culprit.line;
  if (!culprit.inside.empty()) object["inside"] = culprit.inside;
  object["keepsGil"] = culprit.keeps_gil;
  return object;
}

}  // namespace

std::string RanksText(const std::vector<int>& ranks) {
  std::string text;
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    text += StrCat(text.empty() ? "" : ", ", ranks[i]);
    if (last > i) text += StrCat(last == i + 1 ? ", " : "-", ranks[last]);
    i = last + 1;
  }
  return text;
}

std::string VerdictText(const Verdict& verdict) {
  std::string text = Headline(verdict);
  std::string sure(NameOf(verdict.confidence));
  sure[0] = static_cast<char>(sure[0] - 'a' + 'A');
  text += StrCat(sure, ": ", EvidenceText(verdict), ".\n");
  if (const Collective* waited = WaitedFor(verdict); waited != nullptr && waited->since_ns > 0) {
    const std::string waits =
        waited->waited_ns > 0
            ? StrCat("had waited for ", FormatDuration(Nanos{waited->waited_ns}), " in ")
            : std::string("has waited in ");
    text += StrCat("Rank ", waited->first_waiter, " ", waits, waited->op, " #", waited->seq,
                   waited->waited_ns > 0 ? ", since " : " since ", TimeText(waited->since_ns));
    if (waited->usual_gap_ns > 0)
      text += StrCat("; before, there was one every ", FormatDuration(Nanos{waited->usual_gap_ns}));
    text += ".\n";
  }
  if (!verdict.looked_at.twice && verdict.looked_at.flight_records > 0 &&
      verdict.kind != StallClass::kProgressing)
    text +=
        "Seen once, a job that runs can look like this: it holds only if the job stands still.\n";
  if (!verdict.without_evidence.empty())
    text += StrCat("Without evidence: ", verdict.without_evidence.size() == 1 ? "rank " : "ranks ",
                   RanksText(verdict.without_evidence), ".\n");
  return text;
}

std::string VerdictJson(const Verdict& verdict, int indent) {
  VerdictObject culprits = VerdictObject::array(), ranks = VerdictObject::array();
  for (const Culprit& culprit : verdict.culprits) {
    culprits.push_back(JsonOf(culprit));
    ranks.push_back(culprit.rank);
  }
  VerdictObject object = {{"class", std::string(NameOf(verdict.kind))},
                          {"confidence", std::string(NameOf(verdict.confidence))},
                          {"ranks", std::move(ranks)},
                          {"culprits", std::move(culprits)},
                          {"waiters", verdict.waiters},
                          {"withoutEvidence", verdict.without_evidence},
                          {"reason", verdict.reason}};
  if (verdict.collective) object["collective"] = JsonOf(*verdict.collective);
  const LookedAt& looked = verdict.looked_at;
  object["evidence"] = {{"flightRecords", looked.flight_records},
                        {"stacks", looked.stacks},
                        {"rasReports", looked.ras_reports},
                        {"twice", looked.twice},
                        {"rasAgrees", looked.ras_agrees}};
  object["text"] = VerdictText(verdict);
  return JsonText(object, indent);
}

}  // namespace strobe::stall

// Fuzz targets for the evidence of a job that stands still.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "collector/stall/evidence_files.h"
#include "collector/stall/flight_pickle.h"
#include "collector/stall/judge.h"
#include "collector/stall/ras_report.h"
#include "collector/stall/stack_groups.h"
#include "collector/stall/verdict_text.h"
#include "tests/fuzz/allocations.h"
#include "tests/fuzz/targets.h"

namespace strobe::fuzz {
namespace {

// Judges what was read, and says so in all forms.
void JudgeAll(const stall::JobEvidence& evidence) {
  const stall::Verdict verdict = stall::JudgeStall(evidence);
  if (stall::VerdictText(verdict).empty()) std::abort();
  if (stall::VerdictJson(verdict, 2).empty()) std::abort();
  const auto groups = stall::GroupStacks(evidence, /*all_threads=*/true);
  if (stall::StackGroupsJson(groups, 2).empty()) std::abort();
  stall::StackGroupsText(groups, evidence.ranks.size());
}

// The bytes as two looks at one rank, and as one look at another.
bool AddThrice(std::string_view bytes, stall::JobEvidence& evidence) {
  const absl::Status first = stall::AddEvidence("0.a.x", bytes, evidence);
  const absl::Status second = stall::AddEvidence("0.b.x", bytes, evidence);
  const absl::Status third = stall::AddEvidence("rank_2", bytes, evidence);
  return first.ok() && third.ok() && (second.ok() || !evidence.ras.empty());
}

}  // namespace

bool Pickle(std::string_view bytes) {
  if (stall::LooksLikePickle(bytes)) {
    const Allocations allocations;
    const absl::StatusOr<stall::FlightRecord> record = stall::ReadFlightPickle(bytes);
    // What is not yet an entry is bounded, however little the memo needs to multiply it.
    const std::size_t most = (std::size_t{256} << 20) + 64 * bytes.size();
    if (allocations.peak() > most) {
      std::fprintf(stderr, "%zu bytes for a dump of %zu\n", allocations.peak(), bytes.size());
      std::abort();
    }
    if (!record.ok() && record.status().message().find("offset ") != 0) std::abort();
  }
  stall::JobEvidence evidence;
  const bool accepted = AddThrice(bytes, evidence);
  JudgeAll(evidence);
  return accepted && !evidence.ranks.empty();
}

bool Stacks(std::string_view bytes) {
  stall::JobEvidence evidence;
  const bool accepted = AddThrice(bytes, evidence);
  JudgeAll(evidence);
  return accepted && !evidence.ranks.empty();
}

bool Ras(std::string_view bytes) {
  const bool accepted = stall::ReadRasReport(bytes).ok();
  stall::JobEvidence evidence;
  AddThrice(bytes, evidence);
  JudgeAll(evidence);
  return accepted;
}

}  // namespace strobe::fuzz

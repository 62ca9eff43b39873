// Fuzz targets for the evidence of a job that stands still.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "agent/evidence/python_stacks.h"
#include "collector/stall/evidence_files.h"
#include "collector/stall/flight_dump.h"
#include "collector/stall/judge.h"
#include "collector/stall/ras_report.h"
#include "collector/stall/stack_dump.h"
#include "collector/stall/stack_groups.h"
#include "collector/stall/verdict.h"
#include "tests/fakes/fake_python.h"
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

// Two threads that share a function, in a process of 1.5 KiB.
agent::FakePython GoodPython() {
  agent::FakePython python;
  const std::uint64_t get = python.AddCode("/app/loader.py", "Loader.get", 88);
  const std::uint64_t train = python.AddCode("/app/train.py", "main", 12);
  python.GiveLock(python.AddThread(101, {get}));
  python.AddThread(100, {get, get, train});
  return python;
}

}  // namespace

// The input is read in fours: a place in words, and a word as an offset from the memory's begin or,
// if the last byte is odd, as it is.
bool ForgedPython(std::string_view bytes) {
  agent::FakePython python = GoodPython();
  const auto byte = [&](std::size_t at) { return static_cast<unsigned char>(bytes[at]); };
  const std::uint64_t words = python.bytes().size() / 8;
  for (std::size_t i = 0; i + 3 < bytes.size(); i += 4) {
    const std::uint64_t value = static_cast<std::uint64_t>(byte(i + 1)) << 8 | byte(i + 2);
    const bool is_number = byte(i + 3) % 2 == 1;
    python.Put(agent::FakePython::kBegin + 8 * (byte(i) % words),
               is_number ? value : agent::FakePython::kBegin + value % (8 * words));
  }
  const auto layout = agent::LayoutOf(python, agent::FakePython::kBegin, 11);
  if (!layout) std::abort();
  agent::StackReader reader(python, *layout, python.process());
  // It is soon late: each thread that looks changed is tried again a few times, with pauses.
  int left = 4;
  const agent::PythonStacks stacks = reader.Read(
      [](std::uint64_t tid) { return std::to_string(tid); }, [&left] { return --left < 0; });
  constexpr std::uint64_t kMostReads = 4 * 6 * 2 * (agent::kMaxStackDepth + 64) + 400'000;
  if (python.reads() > kMostReads) std::abort();
  const std::string text =
      agent::StacksText(stacks, 11, 0, [](std::uint64_t) { return agent::ThreadFacts(); });
  if (text.size() > agent::kMaxStacksText) std::abort();
  if (!stacks.threads.empty() && !stall::ReadStacks(text).ok()) std::abort();
  return !stacks.threads.empty() && !stacks.threads.back().frames.empty();
}

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

#include "cli/stall/why_command.h"

#include <algorithm>
#include <iostream>

#include "cli/base/common_flags.h"
#include "cli/base/open_location.h"
#include "cli/stall/evidence_places.h"
#include "cli/stall/sidecar_evidence.h"
#include "collector/stall/judge.h"
#include "collector/stall/stack_groups.h"
#include "collector/stall/verdict.h"
#include "common/base/strings.h"
#include "common/text/safe_text.h"

namespace strobe::cli {
namespace {

void AddPlaces(CLI::App& command, EvidenceFlags& flags) {
  command.add_option(
      "paths", flags.paths,
      "folders and files with the rank in each file's name, such as rank_3; two folders "
      "with the same names are two looks at the job");
  command
      .add_option("--workers", flags.workers,
                  "instead of files, the job's sidecars as host:port, separated by commas, in "
                  "the order of the ranks")
      ->type_name("ADDRESSES");
  command.add_flag("--insecure-plaintext", flags.insecure_plaintext,
                   "connect without TLS; required with --workers");
  AddOutputFlag(command, flags.output, "", {"text", "json"});
}

absl::StatusOr<FoundEvidence> Find(const EvidenceFlags& flags) {
  if (flags.paths.empty() == flags.workers.empty())
    return absl::InvalidArgumentError("give either files and folders, or --workers");
  if (flags.workers.empty()) return ReadEvidence(flags.paths);
  if (!flags.insecure_plaintext)
    return absl::InvalidArgumentError(
        "strobe has no certificates and talks to sidecars without TLS; pass --insecure-plaintext "
        "to accept that");
  return ReadEvidenceOfWorkers(flags.workers);
}

// Names in it were chosen by the program that stands still.
void PrintLines(std::ostream& out, const std::string& text) {
  std::vector<std::string> lines = Split(text, '\n');
  if (!lines.empty() && lines.back().empty()) lines.pop_back();
  for (const std::string& line : lines) out << WithoutControls(line) << "\n";
}

void WarnOf(const FoundEvidence& found) {
  for (const std::string& file : found.left_out)
    std::cerr << "left out: " << WithoutControls(file) << "\n";
  for (const std::string& note : found.notes) std::cerr << WithoutControls(note) << "\n";
}

}  // namespace

void AddWhyFlags(CLI::App& command, WhyFlags& flags) {
  AddPlaces(command, flags);
  command.footer(
      "Reads PyTorch's Flight Recorder dumps, answers of NCCL's RAS, Python stacks of "
      "faulthandler, "
      "py-spy dump or Strobe, and the files of Strobe's agent. The answer is certain only if there "
      "is evidence of every rank, twice.\n"
      "Examples:\n"
      "  strobe why /tmp/dumps\n"
      "  strobe why look1 look2                       # two looks tell whether the job moves\n"
      "  strobe why nccl_trace_rank_* ras.txt\n"
      "  strobe why --insecure-plaintext --workers 10.0.0.2:9470,10.0.0.3:9470\n"
      "  strobe why /tmp/dumps --output json | jq -r .class\n"
      "Exit code: 0 answered, also where nobody is named; 1 the files cannot be read or no sidecar "
      "answers, 2 a flag or a file is wrong.");
}

void AddStacksFlags(CLI::App& command, StacksFlags& flags) {
  AddPlaces(command, flags);
  command.add_flag("--threads", flags.threads, "show all threads, not only the main ones");
  command.footer(
      "Ranks with equal stacks are put together, the rarest first.\n"
      "Examples:\n"
      "  strobe stacks /tmp/dumps\n"
      "  strobe stacks rank_*.txt --threads\n"
      "Exit code: 0 shown, 1 the files cannot be read or have no stacks, 2 a flag or a file is "
      "wrong.");
}

int RunWhy(const WhyFlags& flags) {
  const absl::StatusOr<FoundEvidence> found = Find(flags);
  if (!found.ok()) return Complain(found.status());
  WarnOf(*found);
  const stall::Verdict verdict = stall::JudgeStall(found->evidence);
  if (flags.output == "json")
    std::cout << stall::VerdictJson(verdict, 2) << "\n";
  else
    PrintLines(std::cout, stall::VerdictText(verdict));
  return kExitOk;
}

int RunStacks(const StacksFlags& flags) {
  const absl::StatusOr<FoundEvidence> found = Find(flags);
  if (!found.ok()) return Complain(found.status());
  WarnOf(*found);
  const auto& ranks = found->evidence.ranks;
  const auto with_stacks = static_cast<std::size_t>(std::count_if(
      ranks.begin(), ranks.end(), [](const auto& one) { return one.second.stacks.has_value(); }));
  if (with_stacks == 0)
    return Complain(
        absl::NotFoundError("there are no stacks; py-spy dump --pid PID > rank_N.txt makes some"));
  const std::vector<stall::StackGroup> groups = stall::GroupStacks(found->evidence, flags.threads);
  if (flags.output == "json")
    std::cout << stall::StackGroupsJson(groups, 2) << "\n";
  else
    PrintLines(std::cout, stall::StackGroupsText(groups, with_stacks));
  return kExitOk;
}

}  // namespace strobe::cli

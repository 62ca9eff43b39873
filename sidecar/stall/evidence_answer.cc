#include "sidecar/stall/evidence_answer.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "common/base/duration.h"
#include "common/base/strings.h"
#include "common/text/json.h"
#include "common/text/safe_text.h"

namespace strobe::stall {
namespace {

using StateJson = nlohmann::json;

constexpr std::size_t kMaxNoteBytes = 300;

// The lines of {"unix_ns": 1, "lines": ["RuntimeError: ..."]}.
StateJson LinesOf(const std::string& exception) {
  StateJson lines = StateJson::array();
  if (exception.empty() || exception.size() > kMaxExceptionBytes) return lines;
  const StateJson read = ReadJson(exception, {.max_depth = 4});
  if (!read.is_object()) return lines;
  const auto found = read.find("lines");
  if (found == read.end() || !found->is_array()) return lines;
  for (const StateJson& line : *found) {
    if (line.is_string()) lines.push_back(WithoutControls(line.get_ref<const std::string&>()));
  }
  return lines;
}

// The process as people know it, by its own words.
std::string NameOf(const EvidenceProcess& process) {
  const std::string pid = StrCat("process ", process.pid);
  if (process.rank >= 0) return StrCat("rank ", process.rank, " (", pid, ")");
  return process.local_rank >= 0 ? StrCat("local rank ", process.local_rank, " (", pid, ")") : pid;
}

}  // namespace

void EvidenceAnswer::Add(std::string name, std::string content) {
  if (content.empty()) return;
  if (content.size() > left_ ||
      static_cast<std::size_t>(response_.files_size()) == kMaxEvidenceFiles) {
    response_.set_left_out_bytes(response_.left_out_bytes() + content.size());
    return;
  }
  left_ -= content.size();
  v1::EvidenceFile& file = *response_.add_files();
  file.set_name(std::move(name));
  file.set_content(std::move(content));
}

void EvidenceAnswer::Note(std::string note) {
  if (note.empty() || static_cast<std::size_t>(response_.notes_size()) == kMaxEvidenceNotes) return;
  response_.add_notes(WithoutControls(CutUtf8(note, kMaxNoteBytes)));
}

v1::ReadEvidenceResponse EvidenceAnswer::Take(std::int64_t looked_at_ns) {
  response_.set_looked_at_ns(looked_at_ns);
  return std::move(response_);
}

std::string ProcessStates(const std::map<int, EvidenceProcess>& processes,
                          const std::map<int, std::string>& exceptions,
                          const std::vector<std::string>& moves, std::uint64_t now_ns) {
  if (processes.empty() && moves.empty()) return "";
  StateJson states = StateJson::object(), ages = StateJson::object();
  StateJson raised = StateJson::object();
  std::int32_t world = 0;
  for (const auto& [rank, process] : processes) {
    world = std::max(world, process.world_size);
    const bool gone = !process.lives || process.has_ended;
    const char* const state = gone ? "gone" : IsSilent(process, now_ns) ? "T" : "S";
    states[std::to_string(rank)] = state;
    const std::uint64_t since_ns = gone ? process.beat_ns : BeganNs(process);
    ages[std::to_string(rank)] = static_cast<double>(now_ns - std::min(since_ns, now_ns)) / 1e9;
    const auto exception = exceptions.find(rank);
    if (exception == exceptions.end()) continue;
    StateJson lines = LinesOf(exception->second);
    if (!lines.empty()) raised[std::to_string(rank)] = std::move(lines);
  }
  const StateJson all = {{"world", world},
                         {"process_states", std::move(states)},
                         {"ages_s", std::move(ages)},
                         {"exceptions", std::move(raised)},
                         {"moves", moves}};
  return JsonText(all);
}

std::vector<std::string> MovesBetween(std::span<const v1::StepPace> before,
                                      std::span<const v1::StepPace> after, WallTime now) {
  std::vector<std::string> moves;
  for (const v1::StepPace& pace : after) {
    const auto earlier = std::find_if(before.begin(), before.end(), [&](const v1::StepPace& one) {
      return one.loop() == pace.loop() && one.process() == pace.process();
    });
    const std::string step = StrCat("step ", pace.number(), " of ", WithoutControls(pace.loop()));
    const Nanos age = std::max(now - FromUnixNanos(pace.began_ns()), Nanos{0});
    const Nanos usual{pace.period_ns()};
    if (earlier != before.end() && earlier->number() < pace.number())
      moves.push_back(StrCat(step, " began between the two looks"));
    else if (age < usual)
      moves.push_back(StrCat(step, " began ", FormatDuration(age), " ago, and steps take ",
                             FormatDuration(usual)));
  }
  return moves;
}

std::string WhyLess(const EvidenceProcess& process, std::uint64_t order, std::uint64_t now_ns) {
  if (!process.lives) return "";
  const std::string who = NameOf(process);
  if (IsSilent(process, now_ns))
    return StrCat(who, " could not be read: it has not run for ",
                  FormatDuration(Nanos{static_cast<std::int64_t>(now_ns - process.beat_ns)}),
                  ", as if it was stopped (SIGSTOP, a debugger) or frozen");
  if (process.answered != order)
    return StrCat(who, " could not be read: it has not answered in time");
  if (!process.has_stacks) return StrCat(who, ": no Python stacks, because ", process.refusal);
  if (!process.has_groups) return "";
  switch (process.flight) {
    case wire::FlightState::kRunning:
      return StrCat(who, ": its Flight Recorder's dump has not come back");
    case wire::FlightState::kNoRecorder:
      return StrCat(who, ": its PyTorch has no Flight Recorder that is known");
    case wire::FlightState::kFailed:
      return StrCat(who, ": its Flight Recorder could not be dumped");
    default:
      return "";
  }
}

}  // namespace strobe::stall

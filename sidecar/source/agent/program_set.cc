#include "sidecar/source/agent/program_set.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <string_view>
#include <utility>

#include "agent/wire/ticks.h"
#include "common/base/strings.h"
#include "common/text/safe_text.h"

namespace strobe::source {
namespace {

using wire::RingFileError;

// A directory with more files is damaged or hostile. Each file costs a mapping and its records.
constexpr std::ptrdiff_t kMaxMapped = 512;
// Including programs that have ended.
constexpr std::size_t kMaxPrograms = 65'536;

std::string FileName(const std::string& path) { return path.substr(path.rfind('/') + 1); }

v1::ProcessReport Unreadable(const OpenedRings& opened, const std::string& path) {
  if (opened.error == RingFileError::kOtherVersion) {
    return MissingProcess(
        StrCat("process ", opened.pid), Outcome::kVersionMismatch,
        StrCat("its agent writes ring files of version ", opened.version, ", this sidecar reads ",
               wire::kVersion, "; use the agent and the sidecar of the same release"));
  }
  if (opened.error == RingFileError::kUnreadable) {
    return MissingProcess(FileName(path), Outcome::kProfilerStartFailed,
                          "its ring file cannot be opened by the sidecar");
  }
  return MissingProcess(StrCat("process ", opened.pid), Outcome::kProfilerStartFailed,
                        "its ring file is damaged");
}

}  // namespace

ProgramSet::~ProgramSet() { SwitchOff(); }

void ProgramSet::Find(Nanos device_time) {
  if (first_) {
    began_ns_ = wire::MonotonicNs();
    directory_.ForgetFailures();
  }
  device_until_ns_ = wire::MonotonicNs() + static_cast<std::uint64_t>(device_time.count());
  for (const std::string& path : RingFiles(directory_.path())) {
    if (!programs_.contains(path)) Consider(path, device_time);
  }
  first_ = false;
}

void ProgramSet::Consider(const std::string& path, Nanos device_time) {
  if (missing_.contains(path)) return;
  const std::string container = wire::ContainerOf(path);
  const bool unwanted = !wishes_.container.empty() && container != wishes_.container;
  if (unwanted && !container.empty()) return;
  OpenedRings opened = OpenRings(path);
  wire::RingFile& file = opened.rings.file;
  const bool readable = opened.error == RingFileError::kNone;
  if (readable && !directory_.Concerns(file, ForkedFromOurs(file))) return;
  if (!readable) {
    // Reports the file only if its program runs.
    if (opened.lives) missing_.emplace(path, Unreadable(opened, path));
    return;
  }
  const bool killed = first_ && WasKilled(opened);
  if (first_ && !opened.lives && !file.HasHeirs() && !(killed && wishes_.ended_programs)) {
    // The program has ended, and the records from before the capture are not wanted.
    if (!(killed && directory_.keeps_ended())) RemoveRings(path);
    return;
  }
  const Rank rank = PlaceIn(*file.header(), wishes_.announced_ranks);
  if (!wishes_.wants(rank)) return;
  const std::string label =
      StrCat(CutUtf8(file.ProgramName(), wire::kProgramBytes), " ", opened.pid);
  const auto missing = [&](Outcome outcome, std::string message) {
    v1::ProcessReport& row =
        missing_.emplace(path, MissingProcess(label, outcome, std::move(message))).first->second;
    if (rank) *row.mutable_rank() = *rank;
  };
  if (unwanted) {
    if (!opened.lives) return;
    return missing(Outcome::kProfilerStartFailed,
                   "it does not say in which container it runs, so it may be in the requested one; "
                   "keep STROBE_CONTAINER in its environment");
  }
  const auto mapped = std::count_if(programs_.begin(), programs_.end(),
                                    [](const auto& entry) { return !entry.second->settled(); });
  if (mapped >= kMaxMapped || programs_.size() >= kMaxPrograms) {
    return missing(Outcome::kProfilerStartFailed,
                   "the worker has too many programs with the agent");
  }
  if (!file.Lease()) {
    if (opened.lives) missing(Outcome::kBusy, HeldBy(file));
    return;
  }
  const auto from = !first_                   ? RecordedProgram::From::kStart
                    : killed                  ? RecordedProgram::From::kEnded
                    : wishes_.look_back_to_ns ? RecordedProgram::From::kOldest
                                              : RecordedProgram::From::kNow;
  auto program = std::make_unique<RecordedProgram>(std::move(opened.rings), from, wishes_.level);
  program->SetRank(rank);
  if (from == RecordedProgram::From::kEnded) {
    if (wishes_.devices) program->records().devices().ReadLeft(wishes_.look_back_to_ns.value_or(0));
    programs_.emplace(path, std::move(program));
    return;
  }
  program->control().WriteRecorder(wishes_.recorder);
  program->control().RequestAttendance(wishes_.attend_until_ns);
  // CUPTI has one subscriber per process.
  const std::string name = ProcessName(program->identity().pid, program->identity().process_began);
  const bool left_to_framework = wishes_.framework_processes.contains(name);
  const std::uint32_t beside =
      wishes_.beside_kineto.contains(name) ? std::uint32_t{wire::kBesideKineto} : 0u;
  if (wishes_.devices && left_to_framework)
    program->records().devices().LeaveToFramework();
  else if (wishes_.devices)
    program->records().ArmDevice(device_time, wishes_.framework_ports,
                                 wishes_.look_back_to_ns.value_or(0), wishes_.device_mode | beside);
  if (on_) program->SwitchOn(wishes_.filter);
  programs_.emplace(path, std::move(program));
}

std::string ProgramSet::HeldBy(const wire::RingFile& file) const {
  const std::string_view text(file.header()->recorder, wire::kRecorderBytes);
  const std::string recorder = CutUtf8(text.substr(0, text.find('\0')), wire::kRecorderBytes);
  return StrCat("another sidecar records this process",
                recorder.empty() ? "" : StrCat(": ", recorder));
}

void ProgramSet::OrderNewborn(bool on) const {
  wire::Orders orders = NoOrders();
  orders.wishes[static_cast<std::size_t>(wire::Wisher::kIdle)] = wishes_.idle_level;
  if (on) {
    orders.wishes[static_cast<std::size_t>(wire::Wisher::kCapture)] = wishes_.level;
    orders.filter = wishes_.filter;
    orders.devices = wishes_.devices ? 1 : 0;
    orders.device_mode = static_cast<std::uint16_t>(wishes_.device_mode);
    orders.device_until = device_until_ns_;
    orders.attend_until = wishes_.attend_until_ns;
    orders.framework_ports = wishes_.framework_ports;
  }
  directory_.Order(orders);
}

void ProgramSet::SwitchOn() {
  on_ = true;
  OrderNewborn(true);
  for (const auto& [path, program] : programs_) program->SwitchOn(wishes_.filter);
}

bool ProgramSet::ForkedFromOurs(const wire::RingFile& file) const {
  const std::string parent = file.ForkedFrom();
  return !parent.empty() && programs_.contains(StrCat(directory_.path(), "/", parent));
}

// True for a program that is older than this capture and was not asked for anything by it.
bool ProgramSet::IsNoneOfOurs(const wire::RingFile& file) const {
  const wire::FileHeader& header = *file.header();
  return header.born_ns < began_ns_ &&
         header.wishes[static_cast<std::size_t>(wire::Wisher::kCapture)].load() == 0;
}

void ProgramSet::SwitchOff() {
  if (on_) Find(Nanos{0});
  const bool ordered = std::exchange(on_, false);
  if (ordered) OrderNewborn(false);
  for (const auto& [path, program] : programs_) program->SwitchOff();
  if (!ordered) return;
  // Finds programs that read the orders, or were forked, just before. Programs that start later
  // find no orders any more.
  for (const std::string& path : RingFiles(directory_.path())) {
    if (programs_.contains(path) || missing_.contains(path)) continue;
    OpenedRings opened = OpenRings(path);
    wire::RingFile& file = opened.rings.file;
    if (opened.error != RingFileError::kNone || !directory_.Concerns(file, ForkedFromOurs(file)) ||
        IsNoneOfOurs(file) || !file.Lease())
      continue;
    file.Wish(wire::Wisher::kCapture, 0);
    file.header()->attend_until.store(0);
    file.header()->device_control.store(0);
    file.WakeProgram();
  }
}

double ProgramSet::Drain(std::uint64_t& budget) {
  double filled = 0;
  for (const auto& [path, program] : programs_)
    filled = std::max(filled, program->Drain(buffer_, budget));
  return filled;
}

void ProgramSet::Settle(std::uint64_t& budget) {
  for (const auto& [path, program] : programs_) {
    if (!program->Lives() && program->lived())
      program->Settle(ParentLives(*program), directory_.keeps_ended(), buffer_, budget);
  }
}

void ProgramSet::CountUnseen() {
  for (const auto& [path, program] : programs_) program->CountUnseen();
}

bool ProgramSet::ParentLives(const RecordedProgram& program) const {
  const auto parent =
      programs_.find(StrCat(directory_.path(), "/", program.identity().forked_from));
  return parent != programs_.end() && parent->second->Lives();
}

std::vector<v1::StepPace> ProgramSet::Steps(std::int64_t wall_minus_monotonic_ns) const {
  std::vector<v1::StepPace> told;
  for (const auto& [path, program] : programs_) {
    if (program->lived()) program->AddSteps(wall_minus_monotonic_ns, told);
  }
  return told;
}

void ProgramSet::NoteCounting(std::string_view loop) {
  for (const auto& [path, program] : programs_) program->NoteCounting(loop);
}

bool ProgramSet::DevicesSettled() const {
  return std::all_of(programs_.begin(), programs_.end(),
                     [](const auto& entry) { return entry.second->DeviceSettled(); });
}

std::vector<RecordedProgram*> ProgramSet::Counted() const {
  std::vector<RecordedProgram*> counted;
  for (const auto& [path, program] : programs_) {
    if (program->lived()) counted.push_back(program.get());
  }
  return counted;
}

std::vector<ProgramFacts> ProgramSet::Facts() const {
  std::vector<ProgramFacts> all;
  for (const auto& entry : programs_) {
    const auto& program = entry.second;
    if (!program->lived()) continue;
    ProgramFacts facts = program->Facts();
    if (!program->settled()) facts.parent_lives = ParentLives(*program);
    const std::string container = wire::ContainerOf(entry.first);
    facts.replaced = std::any_of(programs_.begin(), programs_.end(), [&](const auto& other) {
      // Process IDs are unique only within a container.
      const ProgramIdentity &own = program->identity(), &its = other.second->identity();
      return wire::ContainerOf(other.first) == container && its.pid == own.pid &&
             own.process_began != 0 && its.process_began == own.process_began &&
             its.born_ns > own.born_ns && its.forked_from.empty();
    });
    all.push_back(std::move(facts));
  }
  return all;
}

std::vector<v1::ProcessReport> ProgramSet::Missing() const {
  std::vector<v1::ProcessReport> rows;
  for (const auto& [path, row] : missing_) rows.push_back(row);
  for (const FailedProgram& failed : directory_.Failures(began_ns_)) {
    if (!wishes_.container.empty() && !failed.container.empty() &&
        failed.container != wishes_.container)
      continue;
    rows.push_back(MissingProcess(failed.label, Outcome::kProfilerStartFailed, failed.message));
  }
  return rows;
}

}  // namespace strobe::source

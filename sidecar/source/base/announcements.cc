#include "sidecar/source/base/announcements.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "agent/wire/file_lock.h"
#include "collector/store/beneath.h"
#include "common/base/file_descriptor.h"
#include "common/base/strings.h"
#include "common/protocol/device_mode.h"
#include "common/text/safe_text.h"
#include "sidecar/source/base/json_fields.h"
#include "sidecar/source/base/process_roles.h"

namespace strobe::source {
namespace {

using nlohmann::json;

constexpr std::string_view kSuffix = ".process";
constexpr std::size_t kMaxBytes = 16 << 10;
constexpr std::size_t kMaxText = 256;
constexpr std::size_t kMaxPorts = 64;
constexpr std::size_t kMaxProcessFiles = 1024;
constexpr std::size_t kMaxTitle = 64;
constexpr int kFormat = 1;
constexpr char kLooksLikeLoader[] =
    "it is a daemon of multiprocessing that neither joined a process group nor told a step, as "
    "workers of data loaders are";

absl::Status Wrong(std::string_view what) {
  return absl::InvalidArgumentError(StrCat("the announcement's ", what));
}

// Text for messages, without control characters.
std::string LineOf(const json& object, const char* key) {
  return WithoutControls(TextField(object, key, kMaxText));
}

// The port of host:port if the host is `host`, else 0.
std::uint16_t PortOn(std::string_view host, std::string_view address) {
  if (!address.starts_with(host) || address.substr(host.size(), 1) != ":") return 0;
  address.remove_prefix(host.size() + 1);
  std::uint16_t port = 0;
  const auto [end, error] = std::from_chars(address.data(), address.data() + address.size(), port);
  return error == std::errc() && end == address.data() + address.size() ? port : 0;
}

std::vector<std::uint16_t> PortsIn(const json& object, const char* key) {
  std::vector<std::uint16_t> ports;
  const auto list = object.find(key);
  if (list == object.end() || !list->is_array()) return ports;
  for (const json& port : *list) {
    if (ports.size() == kMaxPorts) break;
    if (port.is_number_unsigned() && port.get<std::uint64_t>() <= 65535)
      ports.push_back(port.get<std::uint16_t>());
  }
  return ports;
}

void TakeEngine(const json& object, Announcement& process) {
  const auto told = object.find("engine");
  if (told == object.end() || !told->is_object()) return;
  process.engine = StrCat(LineOf(*told, "program"), " ", LineOf(*told, "version"));
  process.engine_file = LineOf(*told, "file");
  if (!IsFileName(process.engine_file)) process.engine_file.clear();
  process.engine_note = LineOf(*told, "note");
  process.schedules = told->value("schedules", json(false)) == json(true);
}

std::string BaseName(const std::string& path) { return path.substr(path.rfind('/') + 1); }

// False if a live program has replaced the file. Its locks then tell nothing, because the program
// may have released them.
bool HasName(const FileDescriptor& file) {
  struct stat info {};
  return fstat(file.get(), &info) == 0 && info.st_nlink > 0;
}

// A live program keeps its announcement locked, so a lock that can be taken means that the program
// is gone.
bool IsAbandoned(const FileDescriptor& file) {
  return flock(file.get(), LOCK_SH | LOCK_NB) == 0 && HasName(file);
}

// Like IsAbandoned, for a program that left the first lock to a child, which C code forked.
bool IsLeftToChild(const Announcement& process, const FileDescriptor& file) {
  if (!process.process_lock) return false;
  struct flock lock = wire::ByteLock(F_WRLCK, 0);
  return fcntl(file.get(), F_OFD_GETLK, &lock) == 0 && lock.l_type == F_UNLCK && HasName(file);
}

absl::StatusOr<Announcement> ReadOne(std::string_view name, const FileDescriptor& file) {
  std::string text(kMaxBytes + 1, '\0');
  const ssize_t size = pread(file.get(), text.data(), text.size(), 0);
  if (size < 0 || static_cast<std::size_t>(size) > kMaxBytes) return Wrong("size exceeds 16 KiB");
  return ParseAnnouncement(name, std::string_view(text).substr(0, static_cast<std::size_t>(size)));
}

// Marks announcements of processes that have several frameworks. `processes` is sorted.
void MarkFrameworksBeside(std::vector<Announcement>& processes) {
  for (std::size_t i = 1; i < processes.size(); ++i) {
    Announcement &one = processes[i - 1], &other = processes[i];
    if (one.container == other.container && one.pid == other.pid && one.began == other.began)
      one.beside = other.beside = true;
  }
}

using ProcessNames = std::set<std::string, std::less<>>;

// True for what a killed process was still writing, ".<process>-*", its socket and its steps. A
// finished trace stays for the capture that asked for it.
bool IsLeftover(std::string_view name, const ProcessNames& dead) {
  for (const std::string_view end : {".sock", ".steps", ".engine"}) {
    if (name.ends_with(end) && dead.contains(name.substr(0, name.size() - end.size()))) return true;
  }
  // A process's name may have dashes too.
  for (std::size_t at = name.starts_with('.') ? name.find('-') : name.npos; at != name.npos;
       at = name.find('-', at + 1)) {
    if (dead.contains(name.substr(1, at - 1))) return true;
  }
  return false;
}

void RemoveLeftovers(DIR* entries, const ProcessNames& dead) {
  rewinddir(entries);
  while (const dirent* entry = readdir(entries)) {
    if (IsLeftover(entry->d_name, dead)) (void)unlinkat(dirfd(entries), entry->d_name, 0);
  }
}

}  // namespace

bool IsFileName(std::string_view name) {
  return !name.empty() && name.size() < 200 && name.front() != '.' &&
         name.find('/') == std::string_view::npos && name.find('\0') == std::string_view::npos;
}

std::string Announcement::label() const {
  const std::string name = !title.empty() ? title : program.empty() ? framework : BaseName(program);
  return StrCat(name, " ", pid, beside ? StrCat(" (", framework, ")") : "");
}

std::string ProcessName(std::uint32_t pid, std::uint64_t began) {
  return StrCat(pid, "-", static_cast<std::uint32_t>(began));
}

Rank Announcement::job_rank() const {
  const auto known = [](const std::optional<std::uint32_t>& told) {
    return told ? std::int64_t{*told} : -1;
  };
  return Numbered(RankOf(known(rank), known(local_rank), known(world_size)));
}

Rank Announcement::Numbered(Rank told) const {
  if (told && number) {
    told->set_local_rank(*number);
    told->set_local_rank_assumed(false);
  }
  return told;
}

AnnouncedRanks PlacesOf(const std::vector<Announcement>& processes) {
  AnnouncedRanks places;
  for (const Announcement& process : processes) {
    if (const Rank place = process.job_rank()) places.emplace(process.process(), place);
  }
  return places;
}

Rank PlaceIn(const wire::FileHeader& header, const AnnouncedRanks& announced) {
  const auto found = announced.find(ProcessName(header.pid, header.process_began));
  return found == announced.end() ? RankIn(header) : found->second;
}

bool ListensOn(const Announcement& process, std::string_view address) {
  constexpr std::string_view kHosts[] = {"localhost", "127.0.0.1", "[::1]"};
  return std::any_of(std::begin(kHosts), std::end(kHosts), [&](std::string_view host) {
    const std::uint16_t port = PortOn(host, address);
    return port != 0 && std::count(process.listens.begin(), process.listens.end(), port) > 0;
  });
}

bool LeftToAgent(const v1::CapturePlan& plan, const Announcement& process) {
  const v1::Tracers& tracers = plan.tracers();
  const bool only_torch_can = tracers.python() > 0 || tracers.shapes() || tracers.stacks() ||
                              tracers.memory() || tracers.flops() || tracers.modules() ||
                              tracers.keep_original();
  // Steps are told in the process, which then records itself from their begin to their end. A
  // Kineto that a daemon told to record does not tell the process that it has CUPTI.
  return process.framework == "torch" && process.yields_cupti && !process.asks_kineto &&
         process.trains && plan.source() != v1::SOURCE_FRAMEWORK && plan.steps() == 0 &&
         !only_torch_can && WantsOnlyKernels(tracers.device());
}

std::vector<Announcement> InprocTargets(const v1::CapturePlan& plan,
                                        std::vector<Announcement> all) {
  // Containers of a pod share its ports, so servers are not asked if the plan names one of them.
  const bool servers_are_asked = plan.container().empty();
  std::erase_if(all, [&](const Announcement& process) {
    // A server cannot begin at a step, but the process itself can.
    const bool by_server =
        !process.address.empty() && (plan.steps() == 0 || !plan.framework_servers().empty());
    return !process.trains || LeftToAgent(plan, process) || (servers_are_asked && by_server) ||
           (!plan.container().empty() && process.container != plan.container()) ||
           !IsWanted(plan, process.job_rank());
  });
  return all;
}

absl::StatusOr<Announcement> ParseAnnouncement(std::string_view name, std::string_view text) {
  const json object = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object()) return Wrong("content is not a JSON object");
  if (NumberField<int>(object, "format") != kFormat)
    return Wrong("format is not 1; use the Python package and the sidecar of the same release");
  Announcement process;
  if (const std::size_t at = name.find('@'); at != std::string_view::npos)
    process.container = CutUtf8(WithoutControls(name.substr(0, at)), kMaxText);
  const auto pid = NumberField<std::uint32_t>(object, "pid");
  const auto began = NumberField<std::uint64_t>(object, "began");
  if (!pid || *pid == 0 || !began) return Wrong("pid or begin is missing");
  process.pid = *pid;
  process.began = *began;
  process.framework = LineOf(object, "framework");
  if (process.framework.empty()) return Wrong("framework is missing");
  process.version = LineOf(object, "version");
  process.program = LineOf(object, "program");
  process.title = CutUtf8(LineOf(object, "title"), kMaxTitle);
  process.rank = NumberField<std::uint32_t>(object, "rank");
  process.local_rank = NumberField<std::uint32_t>(object, "local_rank");
  process.world_size = NumberField<std::uint32_t>(object, "world_size");
  process.local_world_size = NumberField<std::uint32_t>(object, "local_world_size");
  process.joined = object.value("joined", json(false)) == json(true);
  process.stepped = object.value("stepped", json(false)) == json(true);
  process.parent_pid = NumberField<std::uint32_t>(object, "parent_pid").value_or(0);
  process.address = LineOf(object, "address");
  // A program must not direct our requests to a server on another machine.
  if (!process.address.empty() && PortOn("127.0.0.1", process.address) == 0)
    return Wrong("address is not on 127.0.0.1");
  process.listens = PortsIn(object, "listens");
  process.socket = LineOf(object, "socket");
  if (!IsFileName(process.socket)) return Wrong("socket is not a file name");
  process.process_lock = object.value("process_lock", json(false)) == json(true);
  process.kineto = LineOf(object, "kineto");
  process.asks_kineto = object.value("asks_kineto", json(true)) != json(false);
  process.yields_cupti = object.value("yields_cupti", json(false)) == json(true);
  process.refuses = object.value("refuses", json(false)) == json(true);
  process.steps = LineOf(object, "steps");
  if (!process.steps.empty() && !IsFileName(process.steps))
    return Wrong("steps is not a file name");
  process.note = LineOf(object, "note");
  process.job_role = LineOf(object, "role");
  process.job_role_from = LineOf(object, "role_from");
  TakeEngine(object, process);
  const auto child = object.find("multiprocessing");
  const bool daemon = child != object.end() && child->is_object() &&
                      child->value("daemon", json(false)) == json(true);
  const bool launcher = object.value("is_launcher", json(false)) == json(true);
  const bool loads = daemon && !process.joined && !process.stepped && !process.schedules;
  process.trains = !launcher && !loads;
  if (loads && !launcher) process.why_not = kLooksLikeLoader;
  return process;
}

std::vector<Announcement> ReadAnnouncements(const std::string& directory) {
  std::vector<Announcement> processes;
  const FileDescriptor fd(open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  DIR* const entries = fd.get() < 0 ? nullptr : fdopendir(dup(fd.get()));
  if (entries == nullptr) return processes;
  ProcessNames dead;
  while (const dirent* entry = readdir(entries)) {
    const std::string_view name = entry->d_name;
    if (!name.ends_with(kSuffix) || !IsFileName(name)) continue;
    const absl::StatusOr<FileDescriptor> file = storage::OpenFileIn(fd, entry->d_name);
    if (!file.ok()) continue;
    absl::StatusOr<Announcement> process = ReadOne(name, *file);
    if (IsAbandoned(*file) || (process.ok() && IsLeftToChild(*process, *file))) {
      (void)unlinkat(fd.get(), entry->d_name, 0);
      dead.emplace(name.substr(0, name.size() - kSuffix.size()));
      continue;
    }
    if (process.ok()) processes.push_back(*std::move(process));
    if (processes.size() == kMaxProcessFiles) break;
  }
  if (!dead.empty()) RemoveLeftovers(entries, dead);
  closedir(entries);
  AssignRoles(processes);
  NumberWorkers(processes);
  std::sort(processes.begin(), processes.end(), [](const Announcement& a, const Announcement& b) {
    return std::tuple(!a.trains, a.local_rank, a.container, a.pid, a.began, a.framework) <
           std::tuple(!b.trains, b.local_rank, b.container, b.pid, b.began, b.framework);
  });
  MarkFrameworksBeside(processes);
  // Workers of data loaders can be many, and must not take the places of those that train.
  if (processes.size() > kMaxAnnouncements)
    processes.erase(processes.begin() + kMaxAnnouncements, processes.end());
  return processes;
}

}  // namespace strobe::source

#include "sidecar/stall/evidence_processes.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <span>
#include <string_view>
#include <utility>

#include "agent/wire/file_lock.h"
#include "collector/stall/flight_record.h"
#include "collector/store/beneath.h"
#include "common/base/strings.h"
#include "common/text/safe_text.h"

namespace strobe::stall {
namespace {

constexpr std::string_view kEvidenceSuffix = ".evidence";
constexpr std::uint64_t kKeepEndedNs = 1'800'000'000'000;
constexpr std::size_t kMaxEndedKept = 64;
constexpr auto kLooks =
    std::to_array<std::string_view>({".a.stacks", ".b.stacks", ".a.fr", ".b.fr"});
constexpr auto kRecords = std::to_array<std::string_view>({".evidence", ".groups", ".exception"});

void RemoveKinds(const FileDescriptor& directory, std::string_view stem,
                 std::span<const std::string_view> kinds) {
  for (const std::string_view kind : kinds)
    (void)unlinkat(directory.get(), StrCat(stem, kind).c_str(), 0);
}

// What a program leaves that is killed while it writes.
void RemoveUnfinished(const FileDescriptor& directory, std::string_view stem,
                      std::span<const std::string_view> kinds) {
  for (const std::string_view kind : kinds)
    (void)unlinkat(directory.get(), StrCat(".", stem, kind, ".new").c_str(), 0);
}

// A regular file, which nobody can make block this process.
FileDescriptor OpenInDirectory(const FileDescriptor& directory, const std::string& name,
                               int access) {
  FileDescriptor file(
      openat(directory.get(), name.c_str(), access | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat status = {};
  if (file.get() < 0 || fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) return {};
  return file;
}

template <typename Value>
void PutAt(const FileDescriptor& file, std::size_t offset, Value value) {
  (void)!pwrite(file.get(), &value, sizeof value, static_cast<off_t>(offset));
}

std::string RefusalOf(const wire::EvidenceHeader& header) {
  const char* const end = std::find(header.refusal, header.refusal + wire::kRefusalBytes, '\0');
  return WithoutControls(std::string(header.refusal, end));
}

std::vector<std::string> StemsIn(const FileDescriptor& directory) {
  std::vector<std::string> stems;
  const auto entries = storage::ReadFolder(directory);
  if (!entries.ok()) return stems;
  for (const storage::FolderEntry& entry : *entries) {
    if (!entry.is_folder && entry.name.ends_with(kEvidenceSuffix))
      stems.push_back(entry.name.substr(0, entry.name.size() - kEvidenceSuffix.size()));
  }
  return stems;
}

EvidenceProcess OpenEvidence(const FileDescriptor& directory, std::string stem) {
  EvidenceProcess process;
  process.file = OpenInDirectory(directory, StrCat(stem, kEvidenceSuffix), O_RDWR);
  process.stem = std::move(stem);
  return process;
}

bool Runs(const EvidenceProcess& process) { return process.lives && !process.has_ended; }

// Children that load data or evaluate have their parent's number in their environment, and join no
// job, or a smaller one.
bool IsBetter(const EvidenceProcess& a, const EvidenceProcess& b) {
  if (Runs(a) != Runs(b)) return Runs(a);
  if (a.has_groups != b.has_groups) return a.has_groups;
  if (a.world_size != b.world_size) return a.world_size > b.world_size;
  return a.began != b.began ? a.began > b.began : a.beat_ns > b.beat_ns;
}

// When the newest process began that runs and has joined a job; 0 if none does.
std::uint64_t NewestBeganNs(const std::vector<EvidenceProcess>& processes) {
  std::uint64_t newest = 0;
  for (const EvidenceProcess& process : processes) {
    if (Runs(process) && process.has_groups) newest = std::max(newest, BeganNs(process));
  }
  return newest;
}

bool AreRivals(const EvidenceProcess& a, const EvidenceProcess& b) {
  return Runs(a) && Runs(b) && a.has_groups && b.has_groups && a.world_size == b.world_size;
}

}  // namespace

FileDescriptor OpenEvidenceDirectory(const std::string& path) {
  return FileDescriptor(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
}

bool RefreshEvidence(EvidenceProcess& process) {
  wire::EvidenceHeader header{};
  if (process.file.get() < 0 ||
      pread(process.file.get(), &header, sizeof header, 0) != ssize_t{sizeof header} ||
      header.magic != wire::kEvidenceMagic || header.version != wire::kEvidenceVersion)
    return false;
  process.pid = header.pid;
  process.began = header.began;
  process.rank = header.rank.load();
  process.local_rank = header.local_rank.load();
  process.world_size = header.world_size.load();
  process.has_groups = header.has_groups.load() != 0;
  process.has_stacks = header.has_stacks.load() != 0;
  process.refusal = RefusalOf(header);
  process.beat_ns = header.beat_ns.load();
  process.answered = header.answered.load();
  process.has_ended = header.ended_ns.load() != 0;
  const std::uint32_t flight = header.flight.load();
  process.flight = flight <= static_cast<std::uint32_t>(wire::FlightState::kFailed)
                       ? static_cast<wire::FlightState>(flight)
                       : wire::FlightState::kFailed;
  process.lives = wire::ByteIsLocked(process.file.get(), wire::kEvidenceLifeByte);
  return true;
}

std::vector<EvidenceProcess> ReadEvidenceProcesses(const FileDescriptor& directory) {
  std::vector<EvidenceProcess> processes;
  for (std::string& stem : StemsIn(directory)) {
    if (processes.size() == kMaxEvidenceProcesses) break;
    EvidenceProcess process = OpenEvidence(directory, std::move(stem));
    if (RefreshEvidence(process)) processes.push_back(std::move(process));
  }
  return processes;
}

// The number comes last: with it the program sees the rest.
void OrderEvidence(const EvidenceProcess& process, const EvidenceOrder& order) {
  using Header = wire::EvidenceHeader;
  PutAt(process.file, offsetof(Header, between_ns),
        static_cast<std::uint64_t>(order.between_looks.count()));
  PutAt(process.file, offsetof(Header, wants), order.wants);
  PutAt(process.file, offsetof(Header, order), order.number);
}

std::uint64_t BeganNs(const EvidenceProcess& process) {
  static const auto kTickNs =
      std::uint64_t{1'000'000'000} / static_cast<std::uint64_t>(std::max(sysconf(_SC_CLK_TCK), 1L));
  return process.began * kTickNs;
}

bool IsSilent(const EvidenceProcess& process, std::uint64_t now_ns) {
  return process.lives && process.beat_ns + kSilentNs < now_ns;
}

std::map<int, EvidenceProcess> ByRank(std::vector<EvidenceProcess> processes) {
  const auto any = [&](const auto& has) {
    return std::any_of(processes.begin(), processes.end(), has);
  };
  const bool has_ranks = any([](const EvidenceProcess& one) { return one.rank >= 0; });
  const bool has_local = any([](const EvidenceProcess& one) { return one.local_rank >= 0; });
  std::sort(processes.begin(), processes.end(),
            [](const EvidenceProcess& a, const EvidenceProcess& b) { return a.began < b.began; });
  // What ended before is of a former attempt, whose ranks may be those of other pods by now.
  const std::uint64_t newest_ns = NewestBeganNs(processes);
  std::map<int, EvidenceProcess> by_rank;
  int next = 0;
  for (EvidenceProcess& process : processes) {
    const int rank = has_ranks ? process.rank : has_local ? process.local_rank : next++;
    if (rank < 0 || rank > kMaxRank) continue;
    if (!Runs(process) && process.beat_ns < newest_ns) continue;
    const auto there = by_rank.find(rank);
    if (there == by_rank.end()) {
      by_rank.emplace(rank, std::move(process));
      continue;
    }
    const bool rivals = AreRivals(process, there->second);
    if (IsBetter(process, there->second)) there->second = std::move(process);
    there->second.has_rival = there->second.has_rival || rivals;
  }
  return by_rank;
}

std::string ReadEvidenceFile(const FileDescriptor& directory, const EvidenceProcess& process,
                             const std::string& kind, std::size_t max_bytes) {
  const FileDescriptor file = OpenInDirectory(directory, StrCat(process.stem, ".", kind), O_RDONLY);
  struct stat status = {};
  if (file.get() < 0 || fstat(file.get(), &status) != 0 || status.st_size <= 0 ||
      static_cast<std::uint64_t>(status.st_size) > max_bytes)
    return "";
  std::string content(static_cast<std::size_t>(status.st_size), '\0');
  const ssize_t got = pread(file.get(), content.data(), content.size(), 0);
  content.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  return content;
}

void RemoveLooks(const FileDescriptor& directory, const EvidenceProcess& process) {
  RemoveKinds(directory, process.stem, kLooks);
}

void RemoveOldEvidence(const FileDescriptor& directory, std::uint64_t now_ns) {
  std::vector<std::pair<std::uint64_t, std::string>> ended;  // When it beat last, and the stem.
  for (std::string& stem : StemsIn(directory)) {
    EvidenceProcess process = OpenEvidence(directory, std::move(stem));
    const bool is_one = RefreshEvidence(process);
    if (!is_one || !process.lives) ended.emplace_back(is_one ? process.beat_ns : 0, process.stem);
  }
  std::sort(ended.rbegin(), ended.rend());
  for (std::size_t i = 0; i < ended.size(); ++i) {
    const auto& [beat_ns, stem] = ended[i];
    // A file without a header may be about to get one.
    const bool is_old = beat_ns != 0 && beat_ns + kKeepEndedNs < now_ns;
    if (!is_old && i < kMaxEndedKept) continue;
    RemoveKinds(directory, stem, kLooks);
    RemoveKinds(directory, stem, kRecords);
    RemoveUnfinished(directory, stem, kLooks);
    RemoveUnfinished(directory, stem, kRecords);
  }
}

}  // namespace strobe::stall

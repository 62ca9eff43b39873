// The ring file of one process, for the program and for the sidecar. POSIX and the C++ standard
// library only; no exceptions.
#pragma once
#include <sys/stat.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "agent/wire/ring_memory.h"

namespace strobe::wire {

// The place of this process in its job, as launchers write it into its environment; -1 where that
// does not tell it.
struct JobRanks {
  std::int32_t rank = -1;        // The number of the process in the job.
  std::int32_t local_rank = -1;  // Its number on its machine or in its pod.
  std::int32_t world_size = -1;  // The number of processes of the job.
};

// Reads the variables of torchrun, JAX, Open MPI, Slurm and TPU pods, in this order. The Python
// package reads the same ones (sdk/python/strobe/_inproc/process.py).
JobRanks OwnJobRanks();

// When this process began, in the kernel's ticks since boot; 0 if that is not known.
std::uint64_t ProcessBegan();
// That by the text of its file "stat" in /proc. Pure.
std::uint64_t BeganIn(std::string_view stat);

// A ring file with its memory, its locks and its descriptor.
class RingFile : public RingMemory {
 public:
  RingFile() = default;
  ~RingFile() { Close(); }
  RingFile(RingFile&& other) noexcept { *this = static_cast<RingFile&&>(other); }
  RingFile& operator=(RingFile&& other) noexcept;
  RingFile(const RingFile&) = delete;
  RingFile& operator=(const RingFile&) = delete;

  // ---- For the program.

  struct Created;
  // Creates a file in `directory` that is not visible until Publish. `forked_from` names the ring
  // file of the process that this one was forked from. The file stays locked while the process
  // lives: the mapping holds the lock, even if the program closes all its descriptors.
  static Created Create(const std::string& directory, const RingFileShape& shape,
                        std::string_view forked_from = {});
  // Renames the file to "<directory>/<pid>-<time>.rings", with the prefix "<container>@" if
  // OwnContainer is not empty. On failure returns false and sets errno.
  bool Publish();
  // Reserves space for the first `words` words of a ring, because a write to a page without space
  // would kill the program. False if the volume is full.
  bool Reserve(std::uint32_t index, std::uint64_t words);
  // Reserves space for the whole device ring. False if the volume is full.
  bool ReserveDevice();
  // True if the descriptor still refers to this file. A program that closes all its descriptors
  // also closes this one, and another file may then reuse its number.
  bool OwnsDescriptor() const;
  // Opens the file again if the program has closed the descriptor. False if that fails.
  bool RenewDescriptor();
  // For a forked child. Maps the file again at the same address, because the parent's mapping would
  // hold the parent's lock beyond its death. Takes a lock that tells the sidecar that a child uses
  // the file. False if the file cannot be opened any more.
  bool Inherit();
  // Maps `other` at the address of this file, which is closed; pointers into this file then refer
  // to the other. If `other` is null or has another shape, the address range becomes private,
  // zeroed memory.
  void ReplaceBy(RingFile other);
  // True if a sidecar holds the lease on this program.
  bool Leased() const;

  // ---- For the sidecar.

  // Maps a file without looking at its content. Until Check returns kNone, only memory(), size(),
  // path() and the locks may be used.
  static RingFile Map(const std::string& path);
  // Maps and checks a file. Returns a null file if either fails.
  static RingFile Open(const std::string& path);
  // True if the program that created the file at `path` holds its lock. Works for files that cannot
  // be mapped. Also true if it cannot be determined.
  static bool MayLive(const std::string& path);
  // True if the program that created the file still runs.
  bool ProgramLives() const;
  // True if a forked child without a file of its own uses this one.
  bool HasHeirs() const;
  // Takes the exclusive right to record this program. The destructor releases it. False if another
  // sidecar holds it.
  bool Lease();

  // ---- For both.

  const std::string& path() const { return path_; }
  std::string_view name() const;  // The file's name without its directory.
  void Close();

 private:
  // Remembers the device and inode of the descriptor, because Close must not close another file.
  bool Identify(struct stat& status);

  std::string path_;
  int fd_ = -1;
  std::uint64_t device_ = 0, inode_ = 0;  // The file that the descriptor must refer to.
};

struct RingFile::Created {
  RingFile file{};
  FailureStep step{};  // The step that failed, if `file` is null.
  int error = 0;       // The errno of that step.
};

// The name of this process's container, which injection sets in $STROBE_CONTAINER in pods with
// several trainers. Empty if it is not set or not a valid container name.
std::string OwnContainer();
// The container in a ring file's name. Empty if the name has none.
std::string ContainerOf(const std::string& path);

}  // namespace strobe::wire

// The file of one process, from either end. C++ standard library and POSIX only; no exceptions.
#pragma once
#include <sys/stat.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "agent/wire/layout.h"

namespace strobe::wire {

struct RingFileShape {
  std::uint32_t max_rings = 512;          // Threads that may record at one time.
  std::uint64_t ring_words = 1ull << 16;  // 512 KiB; rounded up to a power of two and whole blocks.
  std::uint64_t device_words = 1ull << 21;  // 16 MiB of what devices did; as above.
};

// Why a file is not read.
enum class RingFileError {
  kNone,
  kUnreadable,    // It could not be opened or mapped.
  kNotOurs,       // No ring file, or one that is not whole yet.
  kOtherVersion,  // A ring file of another version of the agent.
  kDamaged        // Its numbers do not fit its size.
};

// A mapped file. Pages of a file that somebody truncates raise SIGBUS when they are touched; a
// sidecar guards the mapping (common/base/foreign_memory.h).
class RingFile {
 public:
  RingFile() = default;
  ~RingFile() { Close(); }
  RingFile(RingFile&& other) noexcept { *this = static_cast<RingFile&&>(other); }
  RingFile& operator=(RingFile&& other) noexcept;
  RingFile(const RingFile&) = delete;
  RingFile& operator=(const RingFile&) = delete;

  // ---- The program's end.

  struct Created;
  // A fresh file in `directory` that nobody sees until Publish. `forked_from` names the ring file
  // of the process that this one was forked from. The file stays locked while the process lives:
  // the mapping holds the lock, also when the program closes all its descriptors.
  static Created Create(const std::string& directory, const RingFileShape& shape,
                        std::string_view forked_from = {});
  // Puts the file into its place, "<directory>/<pid>-<time>.rings", with "<container>@" before the
  // pid when OwnContainer has a name. False with errno.
  bool Publish();
  // Makes sure that writing the first `words` words of a ring cannot fail for want of space: a
  // program must not be killed because a volume is full. False when there is none.
  bool Reserve(std::uint32_t index, std::uint64_t words);
  bool ReserveDevice();
  // Whether the descriptor is still this file's. A program that closes all descriptors closes ours,
  // and another file may have its number.
  bool OwnsDescriptor() const;
  // Opens the file again after the program closed our descriptor. False when that fails.
  bool RenewDescriptor();
  // In a forked child: maps the file anew at the same address, because the parent's mapping would
  // keep the parent's lock beyond its death, and holds a lock of its own by which the sidecar knows
  // that somebody still looks at the file. False when the file cannot be opened any more.
  bool Inherit();
  // Puts `other` at the very addresses of this one, which is given up: pointers into it then point
  // into the other. Without another file of the same shape there is private memory with nothing in
  // it.
  void ReplaceBy(RingFile other);
  // Is a sidecar recording this program?
  bool Leased() const;

  // ---- The sidecar's end.

  // Maps a file and looks at nothing in it: until Check says kNone only memory(), size(), path()
  // and the locks may be used.
  static RingFile Map(const std::string& path);
  // Is it a ring file whose numbers fit its size?
  RingFileError Check();
  // Map and Check; a null file when either fails.
  static RingFile Open(const std::string& path);
  // Does the program that made the file at `path` still run, as far as its lock says, which can be
  // read of files that cannot be mapped? True as well when even that cannot be found out.
  static bool MayLive(const std::string& path);
  // Does the program that made it still run?
  bool ProgramLives() const;
  // Does a forked child look at this file, because it has none of its own?
  bool HasHeirs() const;
  // Takes the right to record this program, which ends with this object or by EndLease. False when
  // another sidecar has it.
  bool Lease();
  void EndLease();
  // The program's thread that waits on device_control, if there is one, looks at the header anew.
  void WakeProgram() const;
  // Asks for a level on behalf of `wisher`; 0 takes the wish back.
  void Wish(Wisher wisher, std::uint32_t level) const;
  // As the program called itself. It need not be text.
  std::string ProgramName() const;
  // Name of the ring file of the program that it was forked from; empty when there is none.
  std::string ForkedFrom() const;

  // ---- Either end.

  explicit operator bool() const { return header_ != nullptr; }
  FileHeader* header() const { return header_; }
  const std::string& path() const { return path_; }
  std::string_view name() const;  // Of the file, without its directory.
  void* memory() const { return header_; }
  std::size_t size() const { return size_; }
  std::uint32_t max_rings() const { return max_rings_; }
  std::uint64_t ring_words() const { return ring_words_; }
  RingHeader* ring(std::uint32_t index) const;
  std::atomic<std::uint64_t>* data(std::uint32_t index) const;
  RingHeader* device_ring() const;
  std::atomic<std::uint64_t>* device_data() const;
  std::uint64_t device_words() const { return device_words_; }
  void Close();

 private:
  // Says which file the descriptor is: only what is known to be ours is closed.
  bool Identify(struct stat& status);
  bool MapOpened(std::size_t size);
  bool ReserveBytes(std::uint64_t offset, std::uint64_t bytes) const;

  std::string path_;
  int fd_ = -1;
  std::uint64_t device_ = 0, inode_ = 0;  // What the descriptor must be open on.
  std::size_t size_ = 0;
  FileHeader* header_ = nullptr;
  // Copies: what lies in the file may be changed by whoever can write to it.
  std::uint32_t max_rings_ = 0;
  std::uint64_t ring_words_ = 0, ring_stride_ = 0, rings_offset_ = 0;
  std::uint64_t device_words_ = 0, device_offset_ = 0;
};

struct RingFile::Created {
  RingFile file{};
  FailureStep step{};  // Of a null file,
  int error = 0;       // with errno.
};

// As injection says to the programs of a pod with several trainers, in $STROBE_CONTAINER; empty
// when it does not, or what it says is no name of a container.
std::string OwnContainer();
// The container that a ring file's program says it is in, by the file's name; empty when it does
// not say.
std::string ContainerOf(const std::string& path);

}  // namespace strobe::wire

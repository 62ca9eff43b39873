// A range of addresses without memory. The first access to a block of it asks for that block and
// waits until somebody has put it there.
#pragma once
#include <signal.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "absl/status/statusor.h"

namespace strobe {

// Readers see ordinary memory. The kernel raises SIGSEGV on an access to a block that is not there;
// the signal handler writes a Request into a pipe and sleeps, and the access is repeated once the
// block is readable. The owner reads the pipe and places blocks.
//
// System calls do not wait: with the address of a block that is not there they fail with EFAULT.
// The first range installs the handler. Signals for other addresses are passed to the handler that
// was installed before.
class FaultRange {
 public:
  enum class State : std::uint32_t {
    kAbsent,    // No memory.
    kExpected,  // On its way, but nobody waits for it.
    kWanted,    // On its way, and a reader waits.
    kHidden,    // In memory, not readable: the next access asks again and so shows use.
    kReadable
  };
  struct Request {
    std::uint32_t range = 0, block = 0;
  };

  // `block` is a multiple of the page size. ResourceExhausted if there are 16,384 ranges already,
  // or not enough addresses.
  static absl::StatusOr<std::unique_ptr<FaultRange>> Reserve(std::size_t size, std::size_t block,
                                                             int request_pipe);
  // Nobody may read the bytes any more.
  ~FaultRange();
  FaultRange(const FaultRange&) = delete;
  FaultRange& operator=(const FaultRange&) = delete;

  // Returns memory for a block of this size, to be given to Place or Discard. Null if memory is
  // short. Safe for concurrent use.
  static char* NewBlock(std::size_t block);
  static void Discard(char* memory, std::size_t block);

  std::uint32_t number() const { return number_; }  // As in Request.
  std::uint32_t blocks() const { return blocks_; }
  std::string_view bytes() const { return {begin_, size_}; }

  // The rest is for one owner, which calls it from one thread at a time.
  State state(std::uint32_t block) const;
  // Sets the state to kAbsent, kExpected or kWanted.
  void Set(std::uint32_t block, State state);
  // Moves the memory to the block's place at once, so that no reader sees a part of it. False if
  // the kernel has no room for another mapping; the memory is then still the caller's.
  bool Map(std::uint32_t block, char* memory, bool readable);
  // Makes the block readable as zeros, which take no memory.
  void PlaceZeros(std::uint32_t block);
  void Show(std::uint32_t block);  // From kHidden to kReadable.
  void Hide(std::uint32_t block);  // From kReadable to kHidden.
  void Drop(std::uint32_t block);  // From kHidden to kAbsent.

 private:
  struct Slot;
  static Slot* Slots();
  static bool OnFault(const siginfo_t& info);
  static bool Await(Slot& slot, std::uint32_t number, std::uintptr_t address);

  FaultRange() = default;
  char* At(std::uint32_t block) const { return begin_ + std::size_t{block} * block_; }

  char* begin_ = nullptr;
  std::size_t size_ = 0, block_ = 0;
  std::uint32_t blocks_ = 0, number_ = 0;
  Slot* slot_ = nullptr;
  // By block: its state in the low bits and above them a number that each change increments, so
  // that a reader which was asleep meanwhile does not miss a change.
  std::unique_ptr<std::atomic<std::uint32_t>[]> words_;
};

}  // namespace strobe

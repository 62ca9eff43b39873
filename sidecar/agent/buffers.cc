#include "sidecar/agent/buffers.h"

#include <sys/mman.h>

#include <array>
#include <mutex>

namespace strobe::agent {
namespace {

// Plain static data: CUPTI may ask for a buffer while the program's destructors run.
constinit std::mutex mutex;
constinit std::array<std::uint8_t*, kMostBuffers> idle{};
constinit std::size_t idle_count = 0, made = 0;

std::uint8_t* Map() {
  void* memory =
      mmap(nullptr, kBufferBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<std::uint8_t*>(memory);
}

}  // namespace

std::uint8_t* BorrowBuffer() {
  std::lock_guard<std::mutex> lock(mutex);
  if (idle_count > 0) return idle[--idle_count];
  if (made >= kMostBuffers) return nullptr;
  std::uint8_t* fresh = Map();
  if (fresh != nullptr) ++made;
  return fresh;
}

void ReturnBuffer(std::uint8_t* buffer) {
  std::lock_guard<std::mutex> lock(mutex);
  idle[idle_count++] = buffer;
}

}  // namespace strobe::agent

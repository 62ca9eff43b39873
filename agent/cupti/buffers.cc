#include "agent/cupti/buffers.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <new>

namespace strobe::agent {
namespace {

struct Buffer {
  std::uint8_t* memory = nullptr;
  bool lent = false;
  bool lost = false;  // CountLostBuffers has counted it.
};

// Constant-initialized and trivially destroyed, because CUPTI may ask for a buffer while the
// program's destructors run.
constinit std::mutex mutex;
constinit std::array<Buffer, kMaxBuffers> buffers{};

Buffer* Find(const std::uint8_t* memory) {
  Buffer* const found = std::find_if(
      buffers.begin(), buffers.end(),
      [memory](const Buffer& buffer) { return memory != nullptr && buffer.memory == memory; });
  return found == buffers.end() ? nullptr : found;
}

// A record begins with its kind, which is never 0. LendBuffer sets it to 0, so another value means
// that CUPTI has written records.
std::uint32_t& FirstKind(const Buffer& buffer) {
  return *reinterpret_cast<std::uint32_t*>(buffer.memory);
}

bool IsOutWithRecords(const Buffer& buffer) {
  return buffer.lent && !buffer.lost && FirstKind(buffer) != 0;
}

}  // namespace

std::uint8_t* LendBuffer() {
  std::lock_guard<std::mutex> lock(mutex);
  for (Buffer& buffer : buffers) {
    if (buffer.lent) continue;
    if (buffer.memory == nullptr) {
      void* memory =
          mmap(nullptr, kBufferBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (memory == MAP_FAILED) return nullptr;
      buffer.memory = static_cast<std::uint8_t*>(memory);
    }
    buffer.lent = true;
    buffer.lost = false;
    FirstKind(buffer) = 0;
    return buffer.memory;
  }
  return nullptr;
}

bool IsLent(const std::uint8_t* buffer) {
  std::lock_guard<std::mutex> lock(mutex);
  const Buffer* const found = Find(buffer);
  return found != nullptr && found->lent;
}

void ReturnBuffer(std::uint8_t* buffer) {
  std::lock_guard<std::mutex> lock(mutex);
  if (Buffer* const found = Find(buffer)) found->lent = false;
}

bool RecordsAreOut() {
  std::lock_guard<std::mutex> lock(mutex);
  return std::any_of(buffers.begin(), buffers.end(), &IsOutWithRecords);
}

std::size_t CountLostBuffers() {
  std::lock_guard<std::mutex> lock(mutex);
  std::size_t count = 0;
  for (Buffer& buffer : buffers) {
    if (!IsOutWithRecords(buffer)) continue;
    buffer.lost = true;
    ++count;
  }
  return count;
}

void ForgetBuffers() {
  new (&mutex) std::mutex;  // A thread of the parent may have held the mutex during the fork.
  buffers = {};
}

}  // namespace strobe::agent

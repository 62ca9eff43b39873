#include "tests/fuzz/allocations.h"

#include <malloc.h>

#include <algorithm>
#include <cstdlib>
#include <new>

namespace {

thread_local std::size_t t_held = 0, t_peak = 0;

}  // namespace

// Sanitizers replace these operators to check for mismatches. Builds with them count nothing.
#ifndef STROBE_SANITIZED
void* operator new(std::size_t size) {
  void* const memory = std::malloc(size == 0 ? 1 : size);
  if (memory == nullptr) throw std::bad_alloc();
  t_held += malloc_usable_size(memory);
  t_peak = std::max(t_peak, t_held);
  return memory;
}
void operator delete(void* memory) noexcept {
  // This may be memory that another thread allocated, which t_held does not include.
  if (memory != nullptr) t_held -= std::min(t_held, malloc_usable_size(memory));
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept { operator delete(memory); }
#endif

namespace strobe::fuzz {

Allocations::Allocations() : before_(t_held) { t_peak = t_held; }
std::size_t Allocations::peak() const { return t_peak - std::min(before_, t_peak); }

}  // namespace strobe::fuzz

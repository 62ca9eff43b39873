// Converts CUPTI's activity records to records of the device ring.
#pragma once
#include <cupti.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

#include "agent/wire/device_records.h"
#include "agent/wire/ring_writer.h"

namespace strobe::agent {

// Assigns numbers to texts and writes each text to the ring. A text is written again after
// wire::AgainAfter words of other records.
class Texts {
 public:
  explicit Texts(std::uint64_t ring_words) : again_after_(wire::AgainAfter(ring_words)) {}

  // Forgets which texts were written, so that each is written again. Numbers are not reused, so
  // that none has two meanings in a ring.
  void Forget() {
    std::unordered_map<const void*, Entry>().swap(entries_);  // clear() would keep the buckets.
    bytes_ = 0;
  }

  // The number of `text`; 0 for null. CUPTI returns the same pointer for the same text, but reuses
  // pointers after a module was unloaded, so the bytes are compared as well.
  std::uint32_t Number(const char* text, wire::RingWriter& ring);

 private:
  static constexpr std::size_t kMax = 65'536;
  static constexpr std::size_t kMaxBytes = 16 << 20;

  struct Entry {
    std::string text;
    std::uint32_t number = 0;
    std::uint64_t written_at = 0;
  };
  const std::uint64_t again_after_;
  std::unordered_map<const void*, Entry> entries_;
  std::size_t bytes_ = 0;  // The sum of the sizes of their texts.
  std::uint32_t last_ = 0;
};

// `call_name` returns the name of a call of CUDA's runtime or driver, or null.
using CallName = const char* (*)(CUpti_CallbackDomain domain, CUpti_CallbackId id);
// Converts `record` and writes it to the ring. Ignores kinds of records that the agent does not
// request.
void WriteActivity(const CUpti_Activity& record, CallName call_name, Texts& texts,
                   wire::RingWriter& ring);

}  // namespace strobe::agent

// Converts CUPTI's activity records to records of the device ring.
#pragma once
#include <cupti.h>

#include <array>
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

  struct Written {
    std::uint32_t number = 0;
    std::uint64_t again_at = 0;  // The ring's position at which it must be written again.
  };
  // Writes `text`, which is not null, unless the ring has it. CUPTI returns the same pointer for
  // the same text, but reuses pointers after a module was unloaded, so the bytes are compared as
  // well.
  Written Write(const char* text, wire::RingWriter& ring);

 private:
  static constexpr std::size_t kMax = 65'536;
  static constexpr std::size_t kMaxBytes = 16 << 20;

  struct Entry {
    std::string text;
    Written written;
  };
  const std::uint64_t again_after_;
  std::unordered_map<const void*, Entry> entries_;
  std::size_t bytes_ = 0;  // The sum of the sizes of their texts.
  std::uint32_t last_ = 0;
};

// `call_name` returns the name of a call of CUDA's runtime or driver, or null.
using CallName = const char* (*)(CUpti_CallbackDomain domain, CUpti_CallbackId id);

// Converts the records of one buffer and writes them to the ring. Until the buffer is returned, a
// pointer means one text, so each text is compared once per buffer.
class ActivityWriter {
 public:
  ActivityWriter(CallName call_name, Texts& texts, wire::RingWriter& ring)
      : call_name_(call_name), texts_(texts), ring_(ring) {}

  // Ignores kinds of records that the agent does not request.
  void Write(const CUpti_Activity& record);

 private:
  static constexpr int kIndexBits = 6;

  struct Name {
    const char* text = nullptr;
    Texts::Written written;
  };
  // The number of `text`; 0 for null.
  std::uint32_t Number(const char* text);

  const CallName call_name_;
  Texts& texts_;
  wire::RingWriter& ring_;
  std::array<Name, 1 << kIndexBits> names_{};  // By a hash of the pointer.
};

}  // namespace strobe::agent

// CUPTI's activity records, rewritten as records of the device ring.
#pragma once
#include <cupti.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

#include "agent/wire/ring_writer.h"

namespace strobe::agent {

// Numbers for texts. A text is written again when half a ring lies behind its last time, so that
// whatever the ring still holds can be read.
class Texts {
 public:
  explicit Texts(std::uint64_t ring_words) : again_after_(ring_words / 2) {}

  // 0 for no text. CUPTI hands out the same pointer for the same text; the bytes are compared,
  // because a module that is unloaded gives its pointers back.
  std::uint32_t Number(const char* text, wire::RingWriter& ring);

 private:
  static constexpr std::size_t kMost = 65'536;

  struct Known {
    std::string text;
    std::uint32_t number = 0;
    std::uint64_t written_at = 0;
  };
  const std::uint64_t again_after_;
  std::unordered_map<const void*, Known> known_;
  std::uint32_t last_ = 0;
};

// `call_name` gives a runtime's or driver's call its name, or null. Records of kinds that were not
// asked for are passed over.
using CallName = const char* (*)(CUpti_CallbackDomain domain, CUpti_CallbackId id);
void WriteActivity(const CUpti_Activity& record, CallName call_name, Texts& texts,
                   wire::RingWriter& ring);

}  // namespace strobe::agent

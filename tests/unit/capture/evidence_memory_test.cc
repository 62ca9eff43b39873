#include "capture/evidence_memory.h"

#include <gtest/gtest.h>

#include <optional>

namespace strobe::capture {
namespace {

TEST(EvidenceMemory, IsFreeAgainOnceItIsDropped) {
  EvidenceMemory memory(10);
  std::shared_ptr<void> first = memory.Take(6);
  EXPECT_NE(first, nullptr);
  EXPECT_EQ(memory.Take(5), nullptr);
  const std::shared_ptr<void> second = memory.Take(4);
  EXPECT_NE(second, nullptr);
  first.reset();
  EXPECT_NE(memory.Take(6), nullptr);
}

TEST(EvidenceMemory, MayEndBeforeWhatWasTaken) {
  std::optional<EvidenceMemory> memory(std::in_place, 10);
  std::shared_ptr<void> held = memory->Take(10);
  memory.reset();
  held.reset();
}

}  // namespace
}  // namespace strobe::capture

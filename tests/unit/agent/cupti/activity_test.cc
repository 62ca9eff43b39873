#include "agent/cupti/activity.h"

#include <gmock/gmock.h>

#include <array>
#include <string>
#include <vector>

#include "agent/wire/ring_reader.h"

namespace strobe::agent {
namespace {

using testing::Contains;
using testing::ElementsAre;
using wire::RecordType;

constexpr std::uint64_t kWords = 8 * wire::kBlockWords;

class ActivityTest : public testing::Test {
 protected:
  static CUpti_ActivityKernel9 KernelNamed(const char* name) {
    CUpti_ActivityKernel9 kernel{};
    kernel.kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
    kernel.name = name;
    return kernel;
  }
  ActivityWriter NewBuffer() {
    return {[](CUpti_CallbackDomain, CUpti_CallbackId) -> const char* { return nullptr; }, texts_,
            ring_};
  }
  static void Write(ActivityWriter& writer, const char* name) {
    const CUpti_ActivityKernel9 kernel = KernelNamed(name);
    writer.Write(reinterpret_cast<const CUpti_Activity&>(kernel));
  }

  // What was written since the last call, as "1=gemm" for a text and "1" for a kernel's name.
  std::vector<std::string> Read() {
    std::vector<std::string> found;
    wire::RecordBuffer buffer;
    reader_.DrainRecords(
        buffer, [&](RecordType type, std::uint8_t, std::span<const std::uint64_t> words) {
          if (type == RecordType::kText) {
            const std::string text(reinterpret_cast<const char*>(words.data() + 1), words[0] >> 32);
            found.push_back(std::to_string(words[0] & 0xffff'ffff) + "=" + text);
          } else if (type == RecordType::kKernel) {
            found.push_back(std::to_string(wire::FromWords<wire::KernelRecord>(words).name));
          }
        });
    return found;
  }

  wire::RingHeader header_{};
  std::array<std::atomic<std::uint64_t>, kWords> data_{};
  wire::RingWriter ring_{&header_, data_.data(), kWords};
  wire::RingReader reader_{&header_, data_.data(), kWords};
  Texts texts_{kWords};
};

TEST_F(ActivityTest, FieldsKeepTheirPlaces) {
  CUpti_ActivityKernel9 from = KernelNamed(nullptr);
  from.start = 10;
  from.end = 20;
  from.deviceId = 1;
  from.contextId = 2;
  from.streamId = 3;
  from.correlationId = 4;
  from.graphId = 5;
  from.graphNodeId = 6;
  from.gridX = 7;
  from.blockZ = 8;
  from.dynamicSharedMemory = 9;
  from.registersPerThread = 11;
  ActivityWriter writer = NewBuffer();
  writer.Write(reinterpret_cast<const CUpti_Activity&>(from));
  wire::KernelRecord to;
  wire::RecordBuffer buffer;
  reader_.DrainRecords(buffer, [&](RecordType, std::uint8_t, std::span<const std::uint64_t> words) {
    to = wire::FromWords<wire::KernelRecord>(words);
  });
  EXPECT_EQ(to.begin, 10u);
  EXPECT_EQ(to.end, 20u);
  EXPECT_THAT((std::array{to.device, to.context, to.stream, to.correlation, to.graph}),
              ElementsAre(1, 2, 3, 4, 5));
  EXPECT_EQ(to.graph_node, 6u);
  EXPECT_THAT(to.grid, ElementsAre(7, 0, 0));
  EXPECT_THAT(to.block, ElementsAre(0, 0, 8));
  EXPECT_EQ(to.dynamic_shared, 9u);
  EXPECT_EQ(to.registers, 11u);
  EXPECT_EQ(to.name, 0u) << "it has none";
}

TEST_F(ActivityTest, ANameIsWrittenOnceForAllBuffers) {
  ActivityWriter writer = NewBuffer();
  for (const char* name : {"gemm", "relu", "gemm"}) Write(writer, name);
  EXPECT_THAT(Read(), ElementsAre("1=gemm", "1", "2=relu", "2", "1"));
  ActivityWriter next = NewBuffer();
  Write(next, "relu");
  EXPECT_THAT(Read(), ElementsAre("2"));
}

// CUPTI reuses the memory of a name after its module was unloaded.
TEST_F(ActivityTest, AnotherNameAtTheSameAddressIsNoticedInTheNextBuffer) {
  std::string name = "gemm";
  ActivityWriter writer = NewBuffer();
  Write(writer, name.c_str());
  name.replace(0, name.size(), "relu");
  ActivityWriter next = NewBuffer();
  Write(next, name.c_str());
  EXPECT_THAT(Read(), ElementsAre("1=gemm", "1", "2=relu", "2"));
}

// More names than a buffer's writer remembers at a time.
TEST_F(ActivityTest, ManyNamesKeepTheirNumbers) {
  std::vector<std::string> names;
  for (int i = 0; i < 150; ++i) names.push_back("kernel " + std::to_string(i));
  ActivityWriter writer = NewBuffer();
  for (const std::string& name : names) Write(writer, name.c_str());
  EXPECT_THAT(Read(), Contains("150=kernel 149"));
  for (const std::string& name : names) Write(writer, name.c_str());
  std::vector<std::string> numbers;
  for (int i = 1; i <= 150; ++i) numbers.push_back(std::to_string(i));
  std::vector<std::string> again = Read();
  std::erase_if(again, [](const std::string& found) { return found.find('=') != found.npos; });
  EXPECT_EQ(again, numbers);
}

// A reader that begins in the middle of a ring learns each name within wire::AgainAfter words.
TEST_F(ActivityTest, ANameIsWrittenAgainWithinABufferToo) {
  ActivityWriter writer = NewBuffer();
  Write(writer, "gemm");
  EXPECT_THAT(Read(), ElementsAre("1=gemm", "1"));
  std::vector<std::string> found;
  do {
    Write(writer, "gemm");
    found = Read();
  } while (found.size() == 1 && ring_.position() < kWords);
  EXPECT_THAT(found, ElementsAre("1=gemm", "1"));
  EXPECT_GE(ring_.position(), wire::AgainAfter(kWords));
  EXPECT_LE(ring_.position(), wire::AgainAfter(kWords) + 3 * wire::kWordsOf<wire::KernelRecord>);
}

TEST_F(ActivityTest, WhatIsForgottenIsWrittenAgainByAnotherNumber) {
  ActivityWriter writer = NewBuffer();
  Write(writer, "gemm");
  EXPECT_THAT(Read(), ElementsAre("1=gemm", "1"));
  texts_.Forget();
  ActivityWriter next = NewBuffer();
  Write(next, "gemm");
  EXPECT_THAT(Read(), ElementsAre("2=gemm", "2"));
}

}  // namespace
}  // namespace strobe::agent

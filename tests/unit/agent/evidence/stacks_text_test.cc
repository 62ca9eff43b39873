#include "agent/evidence/stacks_text.h"

#include <gtest/gtest.h>

#include "collector/stall/stack_dump.h"

namespace strobe::agent {
namespace {

ThreadFacts SleepingFacts(std::uint64_t) {
  return {.state = 'S', .wchan = "futex_do_wait", .syscall = "202", .name = "a loader\nx"};
}

// The witness is the reader of collector/stall, which knows other tools' formats too.
TEST(StacksText, IsReadAgain) {
  const PythonStacks stacks{
      .threads = {{.id = 0x7f01, .tid = 8, .frames = {{.file = "b.py", .name = "<lambda>"}}},
                  {.id = 0x7f00,
                   .tid = 7,
                   .proof = StackProof::kProven,
                   .holds_gil = true,
                   .frames = {{.file = "/app/my \"x\".py", .name = "Loader.get", .line = 88},
                              {.file = "/app/train.py", .name = "main", .line = 3}}}},
      .gil_is_held = true};
  const std::string text = StacksText(stacks, 11, 1'700'000'000'000'000'000, &SleepingFacts);
  ASSERT_TRUE(stall::LooksLikeStacks(text));
  const auto dump = stall::ReadStacks(text);
  ASSERT_TRUE(dump.ok()) << text;
  EXPECT_EQ(dump->looked_at_ns, 1'700'000'000'000'000'000);
  ASSERT_EQ(dump->threads.size(), 2u);
  const stall::StackThread& main = *dump->main_thread();
  EXPECT_EQ(main.tid, 7u);
  EXPECT_TRUE(main.holds_gil);
  EXPECT_FALSE(main.running);
  EXPECT_EQ(main.state, "S");
  EXPECT_EQ(main.wchan, "futex_do_wait");
  EXPECT_EQ(main.syscall, 202);
  EXPECT_EQ(main.name, "a loader?x");
  ASSERT_EQ(main.frames.size(), 2u);
  EXPECT_EQ(main.frames[0].file, "/app/my \"x\".py");
  EXPECT_EQ(main.frames[0].line, 88);
  EXPECT_EQ(main.frames[0].name, "Loader.get");
  EXPECT_TRUE(dump->threads[0].running);
  EXPECT_EQ(dump->threads[0].frames[0].line, -1);
}

TEST(StacksText, IsBounded) {
  PythonStacks stacks;
  stacks.threads.resize(kMaxStackThreads);
  for (PythonThread& thread : stacks.threads)
    thread.frames.assign(8, {.file = std::string(512, 'f'), .name = std::string(512, 'n')});
  EXPECT_LE(StacksText(stacks, 11, 0, &SleepingFacts).size(), kMaxStacksText);
}

}  // namespace
}  // namespace strobe::agent

#include "collector/stall/stack_dump.h"

#include <gmock/gmock.h>

#include <string>

#include "tests/fakes/hang_cases.h"

namespace strobe::stall {
namespace {

constexpr char kFaulthandler[] = R"(Timeout (0:00:01)!
Thread 0x00007f1e0a7fc6c0 [loader] (most recent call first):
  File "/usr/lib/python3.13/threading.py", line 359 in wait
  File "/app/job.py", line 30 in produce

Current thread 0x00007f1e5c3b4b80 (most recent call first):
  File "/app/a "b", line 3.py", line 39 in culprit
  File "/app/job.py", line 141 in <module>
)";

constexpr char kPySpy[] = R"(Process 26339: python job.py
Python v3.11.2 (/usr/bin/python3.11)

Thread 26339 (active+gil): "MainThread"
    all_reduce (torch/distributed/distributed_c10d.py:4181)
    wrapper (/x/torch/distributed/c10d_logger.py:83)
    optimizer (/app/job.py:51)
Thread 26389 (idle): "loader"
    wait (threading.py:327)
)";

TEST(StackDump, ReadsTheAgents) {
  const auto cases = UnpackHangCases("cases.tar.gz");
  const auto stacks = ReadStacks(cases.at("w4_gil").at("2.a.stacks"));
  ASSERT_TRUE(stacks.ok()) << stacks.status();
  ASSERT_EQ(stacks->threads.size(), 3u);
  const StackThread* main = stacks->main_thread();
  EXPECT_EQ(main->id, 0x7feee3663b80u);
  EXPECT_EQ(main->tid, 26339u);
  EXPECT_EQ(main->state, "S");
  EXPECT_EQ(main->wchan, "hrtimer_nanosleep");
  EXPECT_EQ(main->syscall, 230);
  EXPECT_EQ(main->name, "python");
  EXPECT_FALSE(main->running);
  EXPECT_EQ(stacks->gil_holder(), main);
  EXPECT_EQ(main->frames.size(), 4u);
  EXPECT_EQ(main->frames[0],
            (StackFrame{.file = "/app/job.py", .line = 39, .name = "train.<locals>.culprit_gil"}));
  EXPECT_EQ(MainThreadOf(*stacks).doing, MainDoing::kHost);
  EXPECT_EQ(FrameText(OwnFrame(*main)), "job.py:39 in train.<locals>.culprit_gil");
  EXPECT_EQ(FrameText(OwnFrame(stacks->threads[0])), "job.py:30 in train.<locals>.produce");
}

TEST(StackDump, KnowsWhatTheMainThreadDoes) {
  const auto cases = UnpackHangCases("cases.tar.gz");
  const auto doing = [&](const char* which, const char* file) {
    const auto stacks = ReadStacks(cases.at(which).at(file));
    EXPECT_TRUE(stacks.ok()) << which << file;
    const MainThread main = MainThreadOf(*stacks);
    return std::make_pair(main.doing, main.call);
  };
  EXPECT_EQ(doing("w4_sleep", "0.a.stacks"),
            std::make_pair(MainDoing::kCollective, std::string("all_reduce")));
  EXPECT_EQ(doing("w4_p2p", "2.a.stacks"),
            std::make_pair(MainDoing::kCollective, std::string("send")));
  EXPECT_EQ(doing("w4_newgroup", "0.a.stacks").first, MainDoing::kRendezvous);
  EXPECT_EQ(doing("w4_newgroup", "2.a.stacks").first, MainDoing::kHost);
  // Work.wait() has no frame of its own.
  EXPECT_EQ(doing("w4_async", "0.a.stacks").first, MainDoing::kHost);
}

TEST(StackDump, ReadsFaulthandlers) {
  const auto stacks = ReadStacks(kFaulthandler);
  ASSERT_TRUE(stacks.ok()) << stacks.status();
  ASSERT_EQ(stacks->threads.size(), 2u);
  EXPECT_EQ(stacks->threads[0].name, "loader");
  EXPECT_EQ(stacks->main, 1u);
  EXPECT_EQ(stacks->threads[1].id, 0x7f1e5c3b4b80u);
  EXPECT_EQ(stacks->threads[1].frames[0].file, "/app/a \"b\", line 3.py");
  EXPECT_EQ(stacks->threads[1].frames[0].line, 39);
}

TEST(StackDump, ReadsPySpys) {
  const auto stacks = ReadStacks(kPySpy);
  ASSERT_TRUE(stacks.ok()) << stacks.status();
  ASSERT_EQ(stacks->threads.size(), 2u);
  EXPECT_EQ(stacks->main, 0u);
  EXPECT_EQ(stacks->gil_holder(), &stacks->threads[0]);
  EXPECT_EQ(stacks->threads[0].frames[2],
            (StackFrame{.file = "/app/job.py", .line = 51, .name = "optimizer"}));
  EXPECT_EQ(MainThreadOf(*stacks).doing, MainDoing::kCollective);
}

TEST(StackDump, RefusesOtherText) {
  EXPECT_FALSE(ReadStacks("").ok());
  EXPECT_FALSE(ReadStacks("Traceback (most recent call last):\n  File \"a\", line 1 in b\n").ok());
  EXPECT_FALSE(LooksLikeStacks("a log\nThreads are many\nThread pool started\nThread "));
  EXPECT_TRUE(LooksLikeStacks(kFaulthandler));
  EXPECT_TRUE(LooksLikeStacks(kPySpy));
}

}  // namespace
}  // namespace strobe::stall

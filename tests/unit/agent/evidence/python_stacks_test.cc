#include "agent/evidence/python_stacks.h"

#include <gtest/gtest.h>

#include <map>
#include <optional>

#include "collector/stall/stack_dump.h"
#include "tests/fakes/fake_python.h"

namespace strobe::agent {
namespace {

std::string Sleeps(std::uint64_t) { return "1 0 1"; }
std::string Runs(std::uint64_t) { return ""; }
bool NeverLate() { return false; }

PythonStacks StacksOf(const FakePython& python, const StackReader::Asleep& asleep = &Sleeps) {
  StackReader reader(python, *LayoutOf(python, FakePython::kBegin, 11), python.process());
  return reader.Read(asleep, &NeverLate);
}

TEST(PythonStacks, HasEachThreadWithItsFrames) {
  FakePython python;
  const std::uint64_t get = python.AddCode("/app/loader.py", "Loader.get", 88);
  const std::uint64_t train = python.AddCode("/app/train.py", "main", 12);
  const std::uint64_t worker = python.AddThread(101, {get});
  python.AddThread(100, {get, train});
  python.GiveLock(worker);
  const PythonStacks stacks = StacksOf(python);
  ASSERT_EQ(stacks.threads.size(), 2u);
  const PythonThread& main = stacks.threads.back();
  EXPECT_EQ(main.tid, 100u);
  EXPECT_EQ(main.id, 0x7f00'0000'0064u);
  EXPECT_EQ(main.proof, StackProof::kProven);
  ASSERT_EQ(main.frames.size(), 2u);
  EXPECT_EQ(main.frames[0].file, "/app/loader.py");
  EXPECT_EQ(main.frames[0].name, "Loader.get");
  EXPECT_EQ(main.frames[0].line, 88);
  EXPECT_EQ(main.frames[1].name, "main");
  EXPECT_EQ(main.frames[1].line, 12);
  EXPECT_FALSE(main.holds_gil);
  EXPECT_TRUE(stacks.threads.front().holds_gil);
  EXPECT_TRUE(stacks.gil_is_held);
  EXPECT_FALSE(stacks.cut);
}

// Readers take the last thread for the main one, wherever the interpreter has it.
TEST(PythonStacks, HasTheMainThreadLast) {
  FakePython python;
  const std::uint64_t code = python.AddCode("a.py", "f", 1);
  python.AddThread(100, {code});
  python.AddThread(102, {code});
  python.AddThread(101, {code});
  const PythonStacks stacks = StacksOf(python);
  ASSERT_EQ(stacks.threads.size(), 3u);
  EXPECT_EQ(stacks.threads[0].tid, 102u);
  EXPECT_EQ(stacks.threads[1].tid, 101u);
  EXPECT_EQ(stacks.threads[2].tid, 100u);
}

TEST(PythonStacks, ProvesNothingOfAThreadThatRuns) {
  FakePython python;
  python.AddThread(100, {python.AddCode("a.py", "f", 1)});
  EXPECT_EQ(StacksOf(python, &Runs).threads[0].proof, StackProof::kStable);
  int asked = 0;
  const PythonStacks between =
      StacksOf(python, [&asked](std::uint64_t) { return std::to_string(++asked); });
  EXPECT_EQ(between.threads[0].proof, StackProof::kStable) << "it ran while it was read";
  EXPECT_EQ(asked, 12);
}

// A thread that gets the lock between two tries is not taken for one without it.
TEST(PythonStacks, HasTheHolderOfTheTryThatIsProven) {
  FakePython python;
  const std::uint64_t thread = python.AddThread(100, {python.AddCode("a.py", "f", 1)});
  int asked = 0;
  const PythonStacks stacks = StacksOf(python, [&](std::uint64_t) {
    if (++asked == 2) python.GiveLock(thread);
    return asked < 3 ? std::to_string(asked) : "3";
  });
  EXPECT_EQ(stacks.threads[0].proof, StackProof::kProven);
  EXPECT_TRUE(stacks.threads[0].holds_gil);
  EXPECT_TRUE(stacks.gil_is_held);
}

TEST(PythonStacks, SeesThatAFrameChangedMeanwhile) {
  class Changing final : public MemoryView {
   public:
    explicit Changing(FakePython& python) : python_(python) {}
    bool Read(std::uint64_t at, void* to, std::size_t size) const override {
      // The instruction of the frame moves with each read of it.
      if (at == frame && size > 8) python_.Put(at + 56, ++instruction_);
      return python_.Read(at, to, size);
    }
    std::uint64_t frame = 0;

   private:
    FakePython& python_;
    mutable std::uint64_t instruction_ = 0x20000;
  };
  FakePython python;
  const std::uint64_t thread = python.AddThread(100, {python.AddCode("a.py", "f", 1)});
  Changing memory(python);
  std::uint64_t call = 0;
  ASSERT_TRUE(python.Get(thread + 56, call));
  ASSERT_TRUE(python.Get(call + 8, memory.frame));
  StackReader reader(memory, *LayoutOf(python, FakePython::kBegin, 11), python.process());
  EXPECT_EQ(reader.Read(&Sleeps, &NeverLate).threads[0].proof, StackProof::kRunning);
}

TEST(PythonStacks, LeavesOutWhatIsNoCode) {
  FakePython python;
  const std::uint64_t code = python.AddCode("a.py", "f", 1), other = python.AddCode("b.py", "g", 1);
  python.Put(other + 8, 0x1234);  // It has another type.
  python.AddThread(100, {other, code, 0, 7});
  const PythonStacks stacks = StacksOf(python);
  ASSERT_EQ(stacks.threads[0].frames.size(), 1u);
  EXPECT_EQ(stacks.threads[0].frames[0].name, "f");
}

TEST(PythonStacks, EndsInACircleOfThreads) {
  FakePython python;
  const std::uint64_t code = python.AddCode("a.py", "f", 1);
  const std::uint64_t first = python.AddThread(101, {code});
  const std::uint64_t second = python.AddThread(100, {code});
  python.Put(second + 8, first);
  const PythonStacks stacks = StacksOf(python);
  EXPECT_EQ(stacks.threads.size(), kMaxStackThreads);
  EXPECT_TRUE(stacks.cut);
}

TEST(PythonStacks, EndsInACircleOfFrames) {
  FakePython python;
  const std::uint64_t code = python.AddCode("a.py", "f", 1);
  const std::uint64_t thread = python.AddThread(100, {code, code});
  std::uint64_t call = 0, inner = 0, outer = 0;
  ASSERT_TRUE(python.Get(thread + 56, call) && python.Get(call + 8, inner) &&
              python.Get(inner + 48, outer));
  python.Put(outer + 48, inner);
  const PythonStacks stacks = StacksOf(python);
  EXPECT_EQ(stacks.threads[0].frames.size(), kMaxStackDepth);
  EXPECT_TRUE(stacks.cut);
  python.Put(outer + 48, outer);
  EXPECT_EQ(StacksOf(python).threads[0].proof, StackProof::kRunning);
}

TEST(PythonStacks, StopsWhenItIsLate) {
  FakePython python;
  const std::uint64_t code = python.AddCode("a.py", "f", 1);
  for (std::uint64_t tid = 100; tid < 120; ++tid) python.AddThread(tid, {code});
  StackReader reader(python, *LayoutOf(python, FakePython::kBegin, 11), python.process());
  int left = 5;
  const PythonStacks stacks = reader.Read(&Sleeps, [&left] { return --left < 0; });
  EXPECT_EQ(stacks.threads.size(), 5u);
  EXPECT_TRUE(stacks.cut);
}

TEST(PythonStacks, ReadsOneThread) {
  FakePython python;
  const std::uint64_t code = python.AddCode("a.py", "f", 1), own = python.AddCode("b.py", "g", 2);
  python.AddThread(101, {code});
  python.GiveLock(python.AddThread(100, {own}));
  StackReader reader(python, *LayoutOf(python, FakePython::kBegin, 11), python.process());
  const PythonThread thread = reader.ReadThread(100);
  ASSERT_EQ(thread.frames.size(), 1u);
  EXPECT_EQ(thread.frames[0].name, "g");
  EXPECT_TRUE(thread.holds_gil);
  EXPECT_TRUE(reader.ReadThread(7).frames.empty());
}

ThreadFacts SleepingFacts(std::uint64_t) {
  return {.state = 'S',
          .wchan = "futex_do_wait",
          .syscall = "202",
          .name = "a loader\nx",
          .ran = "1234"};
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
  EXPECT_EQ(main.ran_ns, 1234);
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

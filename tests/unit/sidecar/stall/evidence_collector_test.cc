#include "sidecar/stall/evidence_collector.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include "agent/wire/evidence_file.h"
#include "agent/wire/file_lock.h"
#include "agent/wire/ticks.h"
#include "collector/stall/evidence_files.h"
#include "collector/stall/sockets.h"

namespace strobe::stall {
namespace {

constexpr char kHeading[] =
    "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid\n";
// 10.77.0.10 to 10.77.0.11, twice, of which the second retransmits; and one that listens.
constexpr char kLines[] =
    "   0: 0A004D0A:A871 0B004D0A:6D3C 01 00000000:00000000 00:00000000 00000000     0\n"
    "   1: 0A004D0A:A872 0B004D0A:6D3C 01 000005B4:00000000 01:0000001E 00000003     0\n"
    "   2: 0A004D0A:A873 0B004D0A:6D3C 01 00000000:00000000 00:00000000 00000000     0\n"
    "   3: 00000000:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0\n"
    "   4: 0100007F:1F90 0100007F:0016 01 00000000:00000000 00:00000000 00000000     0\n";

TEST(SocketTable, KeepsOneConnectionOfEachPair) {
  const std::string text = ShortSocketTable(std::string(kHeading) + kLines + kHeading);
  EXPECT_TRUE(LooksLikeSockets(text));
  const std::vector<TcpLink> links = ReadSockets(text);
  ASSERT_EQ(links.size(), 1u) << text;
  EXPECT_EQ(links[0].local, "10.77.0.10");
  EXPECT_EQ(links[0].remote, "10.77.0.11");
  EXPECT_TRUE(links[0].retransmits);
}

TEST(SocketTable, IsEmptyWithoutAHeading) {
  EXPECT_EQ(ShortSocketTable(kLines), "");
  EXPECT_EQ(ShortSocketTable(""), "");
}

TEST(SocketTable, IsThatOfThisMachine) { EXPECT_TRUE(LooksLikeSockets(ReadSocketTable())); }

using namespace std::chrono_literals;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

// A process that answers orders as the agent does, with files of its own making.
class AnsweringProgram {
 public:
  AnsweringProgram(std::string folder, std::string stem, std::int32_t rank)
      : folder_(std::move(folder)),
        stem_(std::move(stem)),
        file_(open((folder_ + "/" + stem_ + ".evidence").c_str(), O_RDWR | O_CREAT | O_CLOEXEC,
                   0666)) {
    wire::EvidenceHeader header{};
    header.magic = wire::kEvidenceMagic;
    header.version = wire::kEvidenceVersion;
    header.pid = 7;
    header.rank = rank;
    header.local_rank = -1;
    header.world_size = 2;
    header.has_stacks = 1;
    header.beat_ns = wire::MonotonicNs();
    EXPECT_EQ(pwrite(file_.get(), &header, sizeof header, 0), ssize_t{sizeof header});
    EXPECT_TRUE(wire::TryLockByte(file_.get(), F_WRLCK, wire::kEvidenceLifeByte));
    thread_ = std::thread([this] { Answer(); });
  }
  ~AnsweringProgram() {
    ends_ = true;
    thread_.join();
  }
  AnsweringProgram(const AnsweringProgram&) = delete;
  AnsweringProgram& operator=(const AnsweringProgram&) = delete;

  void Leave(const std::string& kind, const std::string& content) const {
    std::ofstream(folder_ + "/" + stem_ + "." + kind) << content;
  }

 private:
  void Answer() {
    using Header = wire::EvidenceHeader;
    while (!ends_) {
      wire::EvidenceHeader header{};
      (void)!pread(file_.get(), &header, sizeof header, 0);
      const std::uint64_t beat = wire::MonotonicNs(), order = header.order.load();
      (void)!pwrite(file_.get(), &beat, sizeof beat, offsetof(Header, beat_ns));
      if (order != header.answered.load()) {
        const std::uint32_t wants = header.wants.load();
        if ((wants & wire::kWantStacks) != 0)
          Leave("a.stacks", "# python 3.11\nThread 0x1 tid 1\n");
        if ((wants & wire::kWantCollectives) != 0) Leave("a.fr", "pickle");
        (void)!pwrite(file_.get(), &order, sizeof order, offsetof(Header, answered));
      }
      std::this_thread::sleep_for(5ms);
    }
  }

  const std::string folder_, stem_;
  const FileDescriptor file_;
  std::atomic<bool> ends_{false};
  std::thread thread_;
};

class EvidenceCollectorTest : public testing::Test {
 protected:
  EvidenceCollectorTest() {
    std::string path = testing::TempDir() + "evidence_collector_XXXXXX";
    EXPECT_NE(mkdtemp(path.data()), nullptr);
    path_ = path;
  }
  ~EvidenceCollectorTest() override { std::filesystem::remove_all(path_); }

  static v1::ReadEvidenceRequest Request(std::vector<v1::EvidenceKind> kinds) {
    v1::ReadEvidenceRequest request;
    request.set_between_looks_ns(1'000'000);
    for (const v1::EvidenceKind kind : kinds) request.add_kinds(kind);
    return request;
  }
  static std::vector<std::string> NamesIn(const v1::ReadEvidenceResponse& response) {
    std::vector<std::string> names;
    for (const v1::EvidenceFile& file : response.files()) names.push_back(file.name());
    return names;
  }

  SystemClock clock_;
  std::string path_;
};

TEST_F(EvidenceCollectorTest, AsksEachProcessAndReadsWhatItLeaves) {
  const AnsweringProgram first(path_, "5-1", 0), second(path_, "6-1", 1);
  second.Leave("groups", R"([{"name": "0", "desc": "", "ranks": [0, 1]}])");
  EvidenceCollector collector(clock_, path_);
  const auto response =
      collector.Read(Request({v1::EVIDENCE_STACKS, v1::EVIDENCE_COLLECTIVES}), [] { return true; });
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_THAT(NamesIn(*response), UnorderedElementsAre("processes.json", "1.groups", "0.a.fr",
                                                       "1.a.fr", "0.a.stacks", "1.a.stacks"));
  EXPECT_THAT(response->notes(), IsEmpty());
  EXPECT_GT(response->looked_at_ns(), 0);
}

TEST_F(EvidenceCollectorTest, ReturnsTheKindsThatAreAskedFor) {
  const AnsweringProgram program(path_, "5-1", 3);
  EvidenceCollector collector(clock_, path_);
  const auto response = collector.Read(Request({v1::EVIDENCE_STACKS}), [] { return true; });
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_THAT(NamesIn(*response), UnorderedElementsAre("processes.json", "3.a.stacks"));
  EXPECT_FALSE(std::filesystem::exists(path_ + "/5-1.a.stacks")) << "it takes memory no more";
}

TEST_F(EvidenceCollectorTest, LeavesOutWhatAnEarlierOrderLeft) {
  const AnsweringProgram program(path_, "5-1", 0);
  {
    AnsweringProgram dead(path_, "6-1", 1);
    dead.Leave("a.stacks", "# python 3.11\nThread 0x1 tid 1\n");
    dead.Leave("exception", R"({"lines": ["RuntimeError: x"]})");
  }
  EvidenceCollector collector(clock_, path_);
  const auto response = collector.Read(Request({v1::EVIDENCE_STACKS}), [] { return true; });
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_THAT(NamesIn(*response), UnorderedElementsAre("processes.json", "0.a.stacks"));
  JobEvidence evidence;
  ASSERT_TRUE(AddEvidence("processes.json", response->files(0).content(), evidence).ok());
  EXPECT_EQ(evidence.ranks[1].state, ProcessState::kGone);
  EXPECT_EQ(evidence.ranks[1].exception, "RuntimeError: x");
}

TEST_F(EvidenceCollectorTest, TellsThatStepsGoOn) {
  const AnsweringProgram program(path_, "5-1", 0);
  std::int64_t step = 7;
  EvidenceCollector collector(clock_, path_, {}, [&step] {
    v1::StepPace pace;
    pace.set_loop("train");
    pace.set_number(step++);
    return std::vector<v1::StepPace>{pace};
  });
  const auto response = collector.Read(Request({v1::EVIDENCE_STACKS}), [] { return true; });
  ASSERT_TRUE(response.ok()) << response.status();
  JobEvidence evidence;
  ASSERT_TRUE(AddEvidence("processes.json", response->files(0).content(), evidence).ok());
  EXPECT_THAT(evidence.moves, ElementsAre("step 8 of train began between the two looks"));
}

TEST_F(EvidenceCollectorTest, MissesRasWhereNcclIsUsed) {
  const AnsweringProgram program(path_, "5-1", 0);
  program.Leave("groups", R"([{"name": "0", "desc": "", "backend": "cuda:nccl", "ranks": [0]}])");
  EvidenceCollector collector(clock_, path_, {.port = 1});
  const auto response = collector.Read(Request({v1::EVIDENCE_RAS}), [] { return true; });
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_THAT(response->notes(), Contains(HasSubstr("no RAS of NCCL")));
}

TEST_F(EvidenceCollectorTest, SaysThatNothingIsThere) {
  EvidenceCollector collector(clock_, path_, {.port = 1});
  const auto response =
      collector.Read(Request({v1::EVIDENCE_STACKS, v1::EVIDENCE_RAS}), [] { return true; });
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_THAT(NamesIn(*response), IsEmpty());
  EXPECT_THAT(response->notes(), Contains(HasSubstr("no process of this worker")));
  EXPECT_EQ(response->notes_size(), 1) << "that there is no RAS is nothing new without NCCL";
  EXPECT_TRUE(absl::IsCancelled(
      collector.Read(Request({v1::EVIDENCE_STACKS}), [] { return false; }).status()));
  EvidenceCollector nowhere(clock_, path_ + "/none");
  EXPECT_TRUE(absl::IsFailedPrecondition(
      nowhere.Read(Request({v1::EVIDENCE_STACKS}), [] { return true; }).status()));
}

}  // namespace
}  // namespace strobe::stall

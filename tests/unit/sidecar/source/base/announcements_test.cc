#include "sidecar/source/base/announcements.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <thread>

#include "common/base/file_descriptor.h"
#include "common/base/strings.h"

namespace strobe::source {
namespace {

constexpr char kTorch[] =
    R"({"format": 1, "pid": 42, "began": 777, "framework": "torch", "version": "2.15.0", "rank": 3,
        "local_rank": 1, "world_size": 8, "channel": "session", "address": null,
        "socket": "42-777.sock", "steps": null, "program": "/app/train.py", "is_launcher": false,
        "multiprocessing": null})";

std::string With(std::string_view key, const std::string& value) {
  std::string text = kTorch;
  const std::size_t at = text.find(std::string("\"") + std::string(key) + "\":");
  const std::size_t begin = text.find(':', at) + 2, end = text.find_first_of(",}", begin);
  return text.replace(begin, end - begin, value);
}

TEST(ParseAnnouncement, ReadsWhatAProcessTells) {
  const auto process = ParseAnnouncement("trainer@42-777.process", kTorch);
  ASSERT_TRUE(process.ok()) << process.status();
  EXPECT_EQ(process->container, "trainer");
  EXPECT_EQ(process->label(), "train.py 42");
  EXPECT_EQ(process->process(), "42-777");
  EXPECT_EQ(process->framework, "torch");
  EXPECT_EQ(process->rank, 3u);
  EXPECT_EQ(process->local_rank, 1u);
  EXPECT_EQ(process->local_world_size, std::nullopt);
  EXPECT_EQ(
      ParseAnnouncement("x", With("steps", R"(null, "local_world_size": 4)"))->local_world_size,
      4u);
  EXPECT_TRUE(process->trains);
  EXPECT_EQ(process->address, "");
}

TEST(ParseAnnouncement, ReadsWhatAnInferenceServerTells) {
  const auto told = [](const std::string& engine) {
    return ParseAnnouncement(
        "x",
        With("steps", StrCat(R"(null, "role": "decode", "role_from": "kv", "engine": )", engine)));
  };
  const auto process = told(
      R"({"program": "vllm", "version": "0.32.0", "file": "42-777.engine", "runs": true,
          "schedules": true, "note": null})");
  ASSERT_TRUE(process.ok()) << process.status();
  EXPECT_EQ(process->engine, "vllm 0.32.0");
  EXPECT_EQ(process->engine_file, "42-777.engine");
  EXPECT_EQ(process->job_role, "decode");
  EXPECT_EQ(process->job_role_from, "kv");
  EXPECT_TRUE(process->schedules);
  EXPECT_EQ(told("null")->engine, "");
  EXPECT_EQ(told("7")->engine_file, "");
  EXPECT_EQ(told(R"({"file": "../x"})")->engine_file, "");
  EXPECT_FALSE(told(R"({"schedules": 1})")->schedules);
}

TEST(ParseAnnouncement, OlderPackagesDoNotYieldCupti) {
  EXPECT_FALSE(ParseAnnouncement("x", kTorch)->yields_cupti);
  EXPECT_TRUE(ParseAnnouncement("x", With("steps", R"(null, "yields_cupti": true)"))->yields_cupti);
}

TEST(ParseAnnouncement, SaysWhatARecordingNeeds) {
  EXPECT_EQ(ParseAnnouncement("x", kTorch)->note, "");
  EXPECT_EQ(ParseAnnouncement("x", With("steps", R"(null, "note": "needs this")"))->note,
            "needs this");
}

TEST(ParseAnnouncement, LaunchersAndLoadersDoNotTrain) {
  EXPECT_FALSE(ParseAnnouncement("x", With("is_launcher", "true"))->trains);
  EXPECT_FALSE(
      ParseAnnouncement("x", With("multiprocessing", R"({"name": "p", "daemon": true})"))->trains);
  EXPECT_TRUE(
      ParseAnnouncement("x", With("multiprocessing", R"({"name": "p", "daemon": false})"))->trains);
}

// Regression: the workers of inference servers are daemons of multiprocessing, and were left out.
TEST(ParseAnnouncement, ADaemonThatJoinedOrToldAStepIsAWorker) {
  const auto daemon = [](std::string_view more) {
    return ParseAnnouncement(
        "x", With("multiprocessing", StrCat(R"({"name": "p", "daemon": true})", more)));
  };
  EXPECT_FALSE(daemon("")->trains);
  EXPECT_THAT(daemon("")->why_not, testing::HasSubstr("daemon of multiprocessing"));
  EXPECT_TRUE(daemon(R"(, "joined": true)")->trains);
  EXPECT_TRUE(daemon(R"(, "stepped": true)")->trains);
  EXPECT_TRUE(daemon(R"(, "engine": {"schedules": true})")->trains);
  EXPECT_EQ(daemon(R"(, "joined": true)")->why_not, "");
  EXPECT_EQ(ParseAnnouncement("x", With("is_launcher", "true"))->why_not, "");
}

TEST(ParseAnnouncement, TheLabelIsTheProcesssOwnName) {
  const auto labelled = [](const std::string& title) {
    return ParseAnnouncement("x", With("steps", StrCat(R"(null, "title": ")", title, "\"")))
        ->label();
  };
  EXPECT_EQ(labelled("VLLM::Worker_TP0"), "VLLM::Worker_TP0 42");
  EXPECT_EQ(labelled(""), "train.py 42");
  EXPECT_EQ(labelled("a/b"), "a/b 42") << "it is no path";
  EXPECT_EQ(labelled(std::string(300, 'x')), std::string(64, 'x') + " 42");
}

TEST(ParseAnnouncement, NobodyElsesServerIsAsked) {
  EXPECT_EQ(ParseAnnouncement("x", With("address", R"("127.0.0.1:4711")"))->address,
            "127.0.0.1:4711");
  for (const char* address :
       {R"("10.0.0.1:80")", R"("127.0.0.1:0")", R"("127.0.0.1:65536")", R"("127.0.0.1:1/x")",
        R"("127.0.0.1:")", R"("localhost:1")", R"("unix:/x")"})
    EXPECT_FALSE(ParseAnnouncement("x", With("address", address)).ok()) << address;
}

TEST(ParseAnnouncement, KnowsWhereTheProcessListens) {
  std::string text = kTorch;
  text.insert(1, R"("listens": [9012, 70000, "9013", -1, 0, null, 9014], )");
  const auto process = ParseAnnouncement("x", text);
  ASSERT_TRUE(process.ok()) << process.status();
  for (const char* ours : {"localhost:9012", "127.0.0.1:9012", "[::1]:9014"})
    EXPECT_TRUE(ListensOn(*process, ours)) << ours;
  for (const char* other : {"localhost:9013", "10.0.0.1:9012", "localhost:90120", "localhost", "",
                            "localhost:", "localhost:0", "localhost:9012x"})
    EXPECT_FALSE(ListensOn(*process, other)) << other;
  EXPECT_FALSE(ListensOn(*ParseAnnouncement("x", kTorch), "localhost:9012"));
}

TEST(ParseAnnouncement, KnowsTheSocketOfKineto) {
  std::string text = kTorch;
  text.insert(1, R"("kineto": "dynoconfigclient1", )");
  EXPECT_EQ(ParseAnnouncement("x", text)->kineto, "dynoconfigclient1");
  EXPECT_TRUE(ParseAnnouncement("x", text)->asks_kineto) << "an older package does not tell";
  EXPECT_FALSE(ParseAnnouncement("x", With("steps", R"(null, "asks_kineto": false)"))->asks_kineto);
  EXPECT_EQ(ParseAnnouncement("x", kTorch)->kineto, "");
}

TEST(ParseAnnouncement, KnowsWhoRefusesEveryCapture) {
  std::string text = kTorch;
  text.insert(1, R"("refuses": true, )");
  EXPECT_TRUE(ParseAnnouncement("x", text)->refuses);
  EXPECT_FALSE(ParseAnnouncement("x", kTorch)->refuses);
  text.replace(text.find("true"), 4, "\"yes\"");
  EXPECT_FALSE(ParseAnnouncement("x", text)->refuses);
}

TEST(PlaceIn, WhatTheProcessAnnouncedElseWhatItsRingFileTells) {
  const Announcement process = *ParseAnnouncement("x", kTorch);
  Announcement silent = process;
  silent.rank.reset();
  silent.local_rank.reset();
  const auto header = std::make_unique<wire::FileHeader>();
  header->pid = 42;
  header->process_began = 777;
  header->rank = 7;
  header->local_rank = header->world_size = -1;
  EXPECT_EQ(PlaceIn(*header, PlacesOf({process}))->rank(), 3u);
  EXPECT_EQ(PlaceIn(*header, PlacesOf({silent}))->rank(), 7u);
  header->process_began = 778;
  EXPECT_EQ(PlaceIn(*header, PlacesOf({process}))->rank(), 7u) << "another process had its ID";
  const Announcement late = *ParseAnnouncement("x", With("began", "4294968074"));
  EXPECT_EQ(PlaceIn(*header, PlacesOf({late}))->rank(), 3u) << "497 days after the machine's start";
}

TEST(ParseAnnouncement, AContainerIsTextWhateverTheFileIsCalled) {
  const auto process = ParseAnnouncement("a\xff\n@42-777.process", kTorch);
  ASSERT_TRUE(process.ok()) << process.status();
  EXPECT_EQ(process->container, "a\ufffd ");
}

TEST(ParseAnnouncement, RefusesWhatNoReleaseWrites) {
  for (const std::string& text :
       {std::string("[]"), std::string("{"), std::string(""), std::string(100'000, '['),
        With("format", "2"), With("pid", "0"), With("pid", "-1"), With("pid", "99999999999"),
        With("began", "null"), With("framework", "7"), With("socket", R"("../x.sock")"),
        With("steps", R"("../x.steps")"), With("socket", R"(".x")"), With("socket", "null")})
    EXPECT_FALSE(ParseAnnouncement("x", text).ok()) << text.substr(0, 100);
}

class ReadAnnouncementsTest : public testing::Test {
 protected:
  ReadAnnouncementsTest() : directory_(mkdtemp(name_.data())) {}
  ~ReadAnnouncementsTest() override { std::filesystem::remove_all(directory_); }
  // Writes the file as a program does, which keeps it locked while it lives.
  FileDescriptor Write(const std::string& name, const std::string& text) {
    const std::string path = directory_ + "/" + name;
    std::ofstream(path) << text;
    FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    EXPECT_EQ(flock(file.get(), LOCK_EX | LOCK_NB), 0);
    return file;
  }
  std::set<std::string> Names() const {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(directory_))
      names.insert(entry.path().filename());
    return names;
  }
  std::string name_ = "/tmp/strobe-announcements-XXXXXX";
  const std::string directory_;
};

TEST_F(ReadAnnouncementsTest, ThoseOfLiveProcessesInTheOrderOfTheirRanks) {
  const FileDescriptor second = Write("b.process", kTorch);
  const FileDescriptor first = Write("a.process", With("local_rank", "0"));
  const FileDescriptor hidden = Write(".c.process.new", kTorch);
  const FileDescriptor wrong = Write("d.process", "{");
  const auto processes = ReadAnnouncements(directory_);
  ASSERT_EQ(processes.size(), 2u);
  EXPECT_EQ(processes[0].local_rank, 0u);
  EXPECT_EQ(processes[1].local_rank, 1u);
}

TEST_F(ReadAnnouncementsTest, TwoFrameworksOfAProcessAreTold) {
  const FileDescriptor one = Write("42-777.process", kTorch);
  const FileDescriptor other = Write("42-777-jax.process", With("framework", R"("jax")"));
  const FileDescriptor reused = Write("42-778.process", With("began", "778"));
  const auto processes = ReadAnnouncements(directory_);
  ASSERT_EQ(processes.size(), 3u);
  std::set<std::string> labels;
  for (const Announcement& process : processes) labels.insert(process.label());
  EXPECT_THAT(labels,
              testing::ElementsAre("train.py 42", "train.py 42 (jax)", "train.py 42 (torch)"));
}

TEST_F(ReadAnnouncementsTest, LaunchersAndHelpersOfThoseThatJoinedDoNotTrain) {
  const auto write = [&](const char* name, int pid, int parent, bool joined, bool stepped) {
    std::string text = kTorch;
    text.replace(text.find("42"), 2, std::to_string(pid));
    text.insert(text.rfind('}'), std::string(", \"parent_pid\": ") + std::to_string(parent) +
                                     ", \"joined\": " + (joined ? "true" : "false") +
                                     ", \"stepped\": " + (stepped ? "true" : "false"));
    return Write(name, text);
  };
  const auto training = [&] {
    std::set<std::uint32_t> pids;
    for (const Announcement& process : ReadAnnouncements(directory_)) {
      if (process.trains) pids.insert(process.pid);
    }
    return pids;
  };
  const FileDescriptor launcher = write("1.process", 1, 0, false, false);
  const FileDescriptor trainer = write("2.process", 2, 1, true, true);
  const FileDescriptor helper = write("3.process", 3, 2, false, false);
  EXPECT_THAT(training(), testing::ElementsAre(2));
  ASSERT_EQ(unlink((directory_ + "/1.process").c_str()), 0);
  const FileDescriptor steps = write("1.process", 1, 0, false, true);
  EXPECT_THAT(training(), testing::ElementsAre(1, 2)) << "it trains beside what it started";
}

TEST_F(ReadAnnouncementsTest, ThoseOfKilledProcessesAreRemoved) {
  { const FileDescriptor killed = Write("t@1-7.process", kTorch); }
  for (const char* name :
       {"t@1-7.sock", "t@1-7.steps", ".t@1-7-99.json.new", "t@1-7-99.json", "t@1-78.sock"})
    std::ofstream(directory_ + "/" + name) << "x";
  EXPECT_TRUE(ReadAnnouncements(directory_).empty());
  EXPECT_THAT(Names(), testing::ElementsAre("t@1-7-99.json", "t@1-78.sock"));
}

TEST_F(ReadAnnouncementsTest, NamesOfKilledProcessesMayHaveDashesAndEndAnyhow) {
  { const FileDescriptor killed = Write("a-b@1-7.process", kTorch); }
  for (const char* name : {"a-b@1-7.engine", ".a-b@1-7-9.sock", ".a-b@1-7-c-d.new", ".a-b@1-70-9",
                           "-a-b@1-7-9", ".a-b@1-7"})
    std::ofstream(directory_ + "/" + name) << "x";
  EXPECT_TRUE(ReadAnnouncements(directory_).empty());
  EXPECT_THAT(Names(), testing::ElementsAre("-a-b@1-7-9", ".a-b@1-7", ".a-b@1-70-9"));
}

// Regression: each file was compared with the names of all killed processes.
TEST_F(ReadAnnouncementsTest, ManyKilledProcessesMayLeaveManyFiles) {
  constexpr int kMany = 12'000;
  const std::string long_name(180, 'x');
  for (int i = 0; i < kMany; ++i) {
    for (const char* end : {".process", ".json"})
      std::ofstream(directory_ + "/" + long_name + std::to_string(i) + end);
  }
  EXPECT_TRUE(ReadAnnouncements(directory_).empty());
  EXPECT_EQ(Names().size(), static_cast<std::size_t>(kMany)) << "finished traces stay";
}

// Regression: a child that C code forked kept its dead parent alive.
TEST_F(ReadAnnouncementsTest, AForkedChildDoesNotStandForItsParent) {
  const std::string path = directory_ + "/42-777.process";
  std::string text = kTorch;
  text.insert(text.rfind('}'), ", \"process_lock\": true");
  std::ofstream(path) << text;
  const FileDescriptor inherited(open(path.c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_EQ(flock(inherited.get(), LOCK_EX | LOCK_NB), 0);
  int to_parent[2], to_child[2];
  ASSERT_EQ(pipe2(to_parent, O_CLOEXEC), 0);
  ASSERT_EQ(pipe2(to_child, O_CLOEXEC), 0);
  char byte = 0;
  const pid_t program = fork();
  if (program == 0) {
    struct flock whole {};
    whole.l_type = F_WRLCK;
    if (fcntl(inherited.get(), F_SETLK, &whole) != 0) _exit(1);
    (void)!write(to_parent[1], &byte, 1);
    (void)!read(to_child[0], &byte, 1);
    _exit(0);
  }
  ASSERT_EQ(read(to_parent[0], &byte, 1), 1);
  EXPECT_EQ(ReadAnnouncements(directory_).size(), 1u);
  (void)!write(to_child[1], &byte, 1);
  int status = 1;
  ASSERT_EQ(waitpid(program, &status, 0), program);
  ASSERT_EQ(status, 0);
  EXPECT_NE(flock(FileDescriptor(open(path.c_str(), O_RDONLY)).get(), LOCK_SH | LOCK_NB), 0);
  EXPECT_TRUE(ReadAnnouncements(directory_).empty());
  EXPECT_TRUE(Names().empty());
}

TEST_F(ReadAnnouncementsTest, OnlyALockThatCanBeTakenMeansDeath) {
  ASSERT_EQ(mkfifo((directory_ + "/fifo.process").c_str(), 0666), 0);
  ASSERT_EQ(symlink("/etc/passwd", (directory_ + "/link.process").c_str()), 0);
  ASSERT_EQ(symlink("nowhere", (directory_ + "/dangling.process").c_str()), 0);
  EXPECT_TRUE(ReadAnnouncements(directory_).empty());
  EXPECT_EQ(Names().size(), 3u);
}

TEST_F(ReadAnnouncementsTest, WithoutDescriptorsNobodyIsDead) {
  const FileDescriptor alive = Write("a.process", kTorch);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit few{256, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  std::vector<FileDescriptor> all;
  do {
    all.emplace_back(open("/dev/null", O_RDONLY | O_CLOEXEC));
  } while (all.back().get() >= 0);
  all.resize(all.size() - 3);  // Two remain, for the directory.
  EXPECT_TRUE(ReadAnnouncements(directory_).empty());
  all.clear();
  EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(ReadAnnouncements(directory_).size(), 1u);
}

TEST_F(ReadAnnouncementsTest, AnAnnouncementThatIsReplacedStays) {
  FileDescriptor locked = Write("a.process", kTorch);
  std::atomic<bool> done{false};
  std::thread program([&] {
    while (!done) {
      FileDescriptor next = Write(".a.process.new", kTorch);
      std::filesystem::rename(directory_ + "/.a.process.new", directory_ + "/a.process");
      locked = std::move(next);
    }
  });
  for (int i = 0; i < 3000; ++i) (void)ReadAnnouncements(directory_);
  EXPECT_THAT(Names(), testing::Contains("a.process"));
  done = true;
  program.join();
}

TEST_F(ReadAnnouncementsTest, WorkersOfDataLoadersTakeNoPlaceOfThoseThatTrain) {
  const std::string loader = With("multiprocessing", R"({"name": "p", "daemon": true})");
  std::vector<FileDescriptor> many;
  for (int i = 0; i < 200; ++i)
    many.push_back(Write("loader" + std::to_string(i) + ".process", loader));
  for (int i = 0; i < 64; ++i)
    many.push_back(Write("rank" + std::to_string(i) + ".process", kTorch));
  const std::vector<Announcement> processes = ReadAnnouncements(directory_);
  EXPECT_EQ(processes.size(), kMaxAnnouncements);
  EXPECT_EQ(std::count_if(processes.begin(), processes.end(),
                          [](const Announcement& process) { return process.trains; }),
            64);
}

TEST_F(ReadAnnouncementsTest, HostileFilesDoNoHarm) {
  ASSERT_EQ(mkfifo((directory_ + "/fifo.process").c_str(), 0666), 0);
  ASSERT_EQ(symlink("/etc/passwd", (directory_ + "/link.process").c_str()), 0);
  ASSERT_EQ(mkdir((directory_ + "/folder.process").c_str(), 0777), 0);
  const FileDescriptor large = Write("large.process", std::string(1 << 20, ' '));
  std::vector<FileDescriptor> many;
  for (int i = 0; i < 200; ++i) many.push_back(Write("m" + std::to_string(i) + ".process", kTorch));
  EXPECT_EQ(ReadAnnouncements(directory_).size(), kMaxAnnouncements);
  EXPECT_TRUE(ReadAnnouncements(directory_ + "/none").empty());
  EXPECT_TRUE(ReadAnnouncements("").empty());
}

}  // namespace
}  // namespace strobe::source

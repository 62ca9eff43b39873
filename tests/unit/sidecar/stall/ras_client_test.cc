#include "sidecar/stall/ras_client.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/file_descriptor.h"

namespace strobe::stall {
namespace {

using namespace std::chrono_literals;

bool Always() { return true; }

// Speaks RAS's protocol, written from NCCL's src/ras/client_support.cc: lines, one answer to each,
// and the connection's end behind the report.
class FakeRas {
 public:
  struct Behaviour {
    int mute = 0;  // The first so many connections are never answered.
    bool has_json = true, is_ras = true, is_slow = false;
    std::string report = "{\"nccl_version\": \"2.30.7\"}\n";
  };
  explicit FakeRas(Behaviour behaviour)
      : behaviour_(std::move(behaviour)), listening_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(bind(listening_.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(listen(listening_.get(), 8), 0);
    EXPECT_EQ(getsockname(listening_.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { Serve(); });
  }
  ~FakeRas() {
    shutdown(listening_.get(), SHUT_RDWR);
    thread_.join();
  }
  FakeRas(const FakeRas&) = delete;
  FakeRas& operator=(const FakeRas&) = delete;

  RasOptions Options() const {
    return {.port = port_, .tries = 3, .greeting = 200ms, .answer = 20s};
  }
  int connections() const { return connections_; }

 private:
  void Serve() {
    std::vector<FileDescriptor> held;
    for (;;) {
      FileDescriptor connection(accept(listening_.get(), nullptr, nullptr));
      if (connection.get() < 0) return;
      if (++connections_ <= behaviour_.mute)
        held.push_back(std::move(connection));
      else
        Talk(connection);
    }
  }

  void Talk(const FileDescriptor& connection) const {
    std::string read;
    std::array<char, 256> part{};
    for (;;) {
      const ssize_t got = recv(connection.get(), part.data(), part.size(), 0);
      if (got <= 0) return;
      read.append(part.data(), static_cast<std::size_t>(got));
      for (std::size_t end = read.find('\n'); end != std::string::npos; end = read.find('\n')) {
        const std::string line = read.substr(0, end);
        read.erase(0, end + 1);
        const std::string answer = AnswerTo(line);
        if (send(connection.get(), answer.data(), answer.size(), MSG_NOSIGNAL) < 0) return;
        if (line == "VERBOSE STATUS" && !behaviour_.is_slow) return;
      }
    }
  }

  std::string AnswerTo(const std::string& line) const {
    if (!behaviour_.is_ras) return "HTTP/1.1 400 Bad Request\r\n\r\n";
    if (line.starts_with("CLIENT PROTOCOL ")) return "SERVER PROTOCOL 2\n";
    if (line.starts_with("TIMEOUT ")) return "OK\n";
    if (line == "SET FORMAT json")
      return behaviour_.has_json ? "OK\r\n" : "ERROR: Unknown command set format json\n";
    if (line == "VERBOSE STATUS") return behaviour_.report;
    return "ERROR: Unknown command\n";
  }

  const Behaviour behaviour_;
  FileDescriptor listening_;
  std::uint16_t port_ = 0;
  std::atomic<int> connections_{0};
  std::thread thread_;
};

TEST(RasClient, ReadsTheReportToItsEnd) {
  std::string report = "{\"communicators\": [";
  for (int i = 0; i < 20'000; ++i) report += "{\"rank\": 1},\n";
  const FakeRas ras({.report = report});
  const absl::StatusOr<std::string> answer = AskRas(ras.Options(), &Always);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(*answer, report);
}

TEST(RasClient, TakesTextFromAnOlderVersion) {
  const FakeRas ras({.has_json = false, .report = "NCCL version 2.24.3\n"});
  const absl::StatusOr<std::string> answer = AskRas(ras.Options(), &Always);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(*answer, "NCCL version 2.24.3\n");
}

// A stopped process of the pod may be the one whose connection it is.
TEST(RasClient, TriesAnotherConnectionIfTheFirstIsNotGreeted) {
  const FakeRas ras({.mute = 2});
  EXPECT_TRUE(AskRas(ras.Options(), &Always).ok());
  EXPECT_EQ(ras.connections(), 3);
}

TEST(RasClient, GivesUpIfNobodyGreets) {
  const FakeRas ras({.mute = 100});
  const absl::Status status = AskRas(ras.Options(), &Always).status();
  EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
  EXPECT_EQ(ras.connections(), 3);
}

TEST(RasClient, EndsAtItsDeadlineAndWhenNobodyWaits) {
  const FakeRas ras({.is_slow = true, .report = "{"});
  RasOptions options = ras.Options();
  options.answer = 300ms;
  EXPECT_TRUE(absl::IsDeadlineExceeded(AskRas(options, &Always).status()));
  int looks = 0;
  const absl::Status status = AskRas(ras.Options(), [&looks] { return ++looks < 12; }).status();
  EXPECT_TRUE(absl::IsCancelled(status)) << status;
}

TEST(RasClient, SaysThatNobodyListens) {
  RasOptions options;
  {
    const FakeRas ras(FakeRas::Behaviour{});
    options = ras.Options();
  }
  const absl::Status status = AskRas(options, &Always).status();
  EXPECT_TRUE(absl::IsNotFound(status)) << status;
}

TEST(RasClient, RefusesAnotherServerAndTooLargeAnswers) {
  const FakeRas other({.is_ras = false});
  EXPECT_TRUE(absl::IsDataLoss(AskRas(other.Options(), &Always).status()));
  const FakeRas large({.report = std::string(100'000, 'x')});
  RasOptions options = large.Options();
  options.max_bytes = 5000;
  EXPECT_TRUE(absl::IsResourceExhausted(AskRas(options, &Always).status()));
}

}  // namespace
}  // namespace strobe::stall

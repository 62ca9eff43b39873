#include "operator/request/notifier.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "tests/fakes/scripted_transport.h"

namespace strobe::request {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;
using testing::HasSubstr;

kube::HttpResponse Code(int status, std::optional<Nanos> retry_after = std::nullopt) {
  return {status, "", retry_after};
}

TEST(WebhookSignature, IsThatOfStandardWebhooks) {
  // The example of the specification's reference libraries.
  EXPECT_EQ(WebhookSignature("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
                             "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, R"({"test": 2432232314})"),
            "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
  EXPECT_NE(WebhookSignature("plain", "a", 1, "x"), WebhookSignature("plain", "a", 2, "x"));
}

TEST(RetryDelay, OnlyWhatPassesIsTriedAgain) {
  EXPECT_EQ(RetryDelay(1, Code(204)), std::nullopt);
  EXPECT_EQ(RetryDelay(1, Code(503)), 1s);
  EXPECT_EQ(RetryDelay(3, absl::UnavailableError("")), 4s);
  EXPECT_EQ(RetryDelay(1, Code(429, 30s)), 30s);
  EXPECT_EQ(RetryDelay(8, Code(503)), std::nullopt) << "often enough";
  for (const int final : {301, 400, 401, 403, 404, 410})
    EXPECT_EQ(RetryDelay(1, Code(final)), std::nullopt);
}

TEST(MakeReceiver, NamesWhatIsWrongWithTheUrl) {
  const SystemClock clock;
  for (const char* wrong : {"", "ftp://a/b", "https://", "https:///x", "https://user@host/x"})
    EXPECT_THAT(std::string(MakeReceiver(clock, wrong, "").status().message()),
                HasSubstr("notify.url"))
        << wrong;
  EXPECT_EQ(MakeReceiver(clock, "https://host:8443/a/b?c=d", "")->path, "/a/b?c=d");
  EXPECT_EQ(MakeReceiver(clock, "http://host", "")->path, "/");
}

TEST(MakeReceiver, ATokenIsNotSentInTheClear) {
  const SystemClock clock;
  std::string name = "/tmp/strobe-notify-XXXXXX";
  const std::string directory = mkdtemp(name.data());
  std::ofstream(directory + "/token") << "secret";
  EXPECT_THAT(std::string(MakeReceiver(clock, "http://host/x", directory).status().message()),
              HasSubstr("https"));
  EXPECT_TRUE(MakeReceiver(clock, "https://host/x", directory).ok());
  fs::remove_all(directory);
}

class NotifierTest : public testing::Test {
 protected:
  std::unique_ptr<Notifier> Make(kube::FileOrData key = {}) {
    auto transport = std::make_unique<kube::ScriptedTransport>();
    server_ = transport.get();
    return std::make_unique<Notifier>(
        clock_, Receiver{.transport = std::move(transport), .path = "/hook", .signing_key = key},
        "test", [this](Notified result) { ++told_[static_cast<std::size_t>(result)]; });
  }
  int told(Notified result) const { return told_[static_cast<std::size_t>(result)]; }
  void Await(Notified result, int count) const {
    for (int i = 0; i < 3000 && told(result) < count; ++i) std::this_thread::sleep_for(10ms);
    ASSERT_EQ(told(result), count) << Name(result);
  }

  const SystemClock clock_{};
  kube::ScriptedTransport* server_ = nullptr;
  std::array<std::atomic<int>, 4> told_{};
};

TEST_F(NotifierTest, SignsAndRepeatsUntilItIsDelivered) {
  const auto notifier = Make({.data = "key\n"});
  std::atomic<int> asked = 0;
  server_->OnUnary([&](const kube::HttpRequest&) { return Code(++asked < 2 ? 503 : 200); });
  notifier->Send("ml", "one.ended", "{}");
  Await(Notified::kDelivered, 1);
  const std::vector<kube::HttpRequest> requests = server_->requests();
  ASSERT_EQ(requests.size(), 2u);
  for (kube::HttpRequest request : requests) {
    EXPECT_EQ(request.method + request.path, "POST/hook");
    EXPECT_EQ(request.content_type, "application/cloudevents+json");
    EXPECT_EQ(request.headers["webhook-id"], "one.ended");
    EXPECT_EQ(request.headers["webhook-signature"],
              WebhookSignature("key", "one.ended",
                               std::atoll(request.headers["webhook-timestamp"].c_str()), "{}"));
  }
}

TEST_F(NotifierTest, AnEventThatIsRefusedHoldsUpNoOther) {
  const auto notifier = Make();
  server_->OnUnary([](const kube::HttpRequest& request) {
    return Code(request.body == "bad" ? 400 : request.body == "later" ? 503 : 200);
  });
  for (const char* body : {"later", "bad", "good"}) notifier->Send("ml", body, body);
  Await(Notified::kRefused, 1);
  Await(Notified::kDelivered, 1);
}

TEST_F(NotifierTest, NothingGoesOutUnsignedWhileTheKeyCannotBeRead) {
  const auto notifier = Make({.file = "/nowhere/signing-key"});
  notifier->Send("ml", "one", "{}");
  std::this_thread::sleep_for(50ms);
  EXPECT_TRUE(server_->requests().empty());
}

TEST_F(NotifierTest, TheQueueIsBoundedAndEachDropIsCounted) {
  auto notifier = Make();
  Notification go;
  server_->OnUnary([&](const kube::HttpRequest&) {
    go.WaitFor(10s);
    return absl::StatusOr<kube::HttpResponse>(absl::UnavailableError("down"));
  });
  for (std::size_t i = 0; i < Notifier::kQueue + 10; ++i) notifier->Send("ml", "x", "{}");
  EXPECT_GE(told(Notified::kDropped), 9) << "one may be under way";
  go.Notify();
  notifier.reset();
  EXPECT_EQ(told(Notified::kDropped) + told(Notified::kUndelivered),
            static_cast<int>(Notifier::kQueue) + 10);
}

TEST_F(NotifierTest, AStormInOneNamespaceCostsAnotherNothing) {
  auto notifier = Make();
  Notification begun, go;
  server_->OnUnary([&](const kube::HttpRequest&) {
    begun.Notify();
    go.WaitFor(10s);
    return Code(200);
  });
  notifier->Send("noisy", "x", "{}");
  begun.Wait();
  for (std::size_t i = 0; i < Notifier::kQueue + 10; ++i) notifier->Send("noisy", "x", "{}");
  notifier->Send("quiet", "y", "quiet");
  go.Notify();
  Await(Notified::kDelivered, static_cast<int>(Notifier::kQueue) + 1);
  const std::vector<kube::HttpRequest> requests = server_->requests();
  EXPECT_EQ(requests[1].body, "quiet") << "its turn comes next";
  EXPECT_EQ(told(Notified::kDropped), 11);
}

}  // namespace
}  // namespace strobe::request

#include "operator/trigger/alert_receiver.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <thread>

#include "common/base/strings.h"
#include "operator/trigger/alert_payload.h"
#include "tests/fakes/loopback_client.h"
#include "tests/fakes/simulated_time.h"

namespace strobe::trigger {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

constexpr char kGoodToken[] = "a-token-of-some-length";

class RecordingSink final : public AlertSink {
 public:
  absl::Status Take(std::span<const Alert> alerts, MonoTime until) override {
    MutexLock lock(&mutex_);
    EXPECT_GT(until, SystemClock().MonoNow());
    if (!answer_.ok()) return answer_;
    taken_.insert(taken_.end(), alerts.begin(), alerts.end());
    ++calls_;
    return absl::OkStatus();
  }
  void Answer(absl::Status answer) {
    MutexLock lock(&mutex_);
    answer_ = std::move(answer);
  }
  std::vector<Alert> taken() const {
    MutexLock lock(&mutex_);
    return taken_;
  }
  int calls() const {
    MutexLock lock(&mutex_);
    return calls_;
  }

 private:
  mutable Mutex mutex_;
  absl::Status answer_ ABSL_GUARDED_BY(mutex_);
  std::vector<Alert> taken_ ABSL_GUARDED_BY(mutex_);
  int calls_ ABSL_GUARDED_BY(mutex_) = 0;
};

// Keeps counts by words such as "code 401" and "refused token".
class CountingObserver final : public AlertReceiverObserver {
 public:
  void Answered(int code) override { Add(StrCat("code ", code), 1); }
  void Read(std::size_t bytes) override { Add("bytes", bytes); }
  void Taken(std::size_t firing, std::size_t resolved) override {
    Add("firing", firing);
    Add("resolved", resolved);
  }
  void Refused(std::string_view reason) override { Add(StrCat("refused ", reason), 1); }
  void Dropped(std::string_view reason, std::uint64_t count) override {
    Add(StrCat("dropped ", reason), count);
  }
  std::uint64_t operator[](const std::string& what) const {
    MutexLock lock(&mutex_);
    const auto found = counts_.find(what);
    return found == counts_.end() ? 0 : found->second;
  }

 private:
  void Add(const std::string& what, std::uint64_t count) {
    MutexLock lock(&mutex_);
    counts_[what] += count;
  }
  mutable Mutex mutex_;
  std::map<std::string, std::uint64_t> counts_ ABSL_GUARDED_BY(mutex_);
};

std::string AlertJson(const std::string& job, const std::string& more = "") {
  return StrCat(R"({"status":"firing","labels":{"job":")", job, "\"", more,
                R"(},"annotations":{},"startsAt":"2026-11-24T10:00:00Z","fingerprint":"ab12"})");
}

std::string PostJson(const std::string& alerts) {
  return StrCat(R"({"version":"4","truncatedAlerts":2,"alerts":[)", alerts, "]}");
}

class AlertReceiverTest : public testing::Test {
 protected:
  AlertReceiverTest() {
    std::string pattern = testing::TempDir() + "/receiver-XXXXXX";
    directory_ = mkdtemp(pattern.data());
    Write("token", kGoodToken);
  }
  ~AlertReceiverTest() override {
    receiver_.reset();
    std::filesystem::remove_all(directory_);
  }

  std::string Path(const std::string& name) const { return directory_ + "/" + name; }
  void Write(const std::string& name, const std::string& text) {
    std::ofstream(Path(name)) << text;
  }
  AlertReceiverOptions Options() {
    return {.listen = "127.0.0.1:0", .token_files = {Path("token")}, .identity = &identity_};
  }
  absl::Status Start(const AlertReceiverOptions& options) {
    auto started = AlertReceiver::Start(clock_, options, sink_, observer_);
    if (!started.ok()) return started.status();
    receiver_ = *std::move(started);
    return absl::OkStatus();
  }

  // Returns the answer with its head; empty if there is none.
  std::string Send(const std::string& line, const std::string& headers, const std::string& body,
                   const KeyPair& own = {}) {
    return TlsClient{authority_.certificate, "operator.svc", own}.Exchange(
        receiver_->port(), StrCat(line, " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n", headers,
                                  "Content-Length: ", body.size(), "\r\n\r\n", body));
  }
  std::string Post(const std::string& body, const KeyPair& own = {}) {
    return Send(
        "POST /alerts",
        StrCat("Content-Type: application/json\r\nAuthorization: Bearer ", kGoodToken, "\r\n"),
        body, own);
  }

  const SystemClock clock_{};
  const Validity validity_{clock_.WallNow() - std::chrono::hours(1),
                           clock_.WallNow() + std::chrono::hours(1)};
  const KeyPair authority_ = *NewAuthority("ours", validity_);
  LiveIdentity identity_{
      {*NewCertificate(authority_, {"x", {"operator.svc"}, Usage::kServer, validity_}),
       authority_.certificate}};
  std::string directory_;
  RecordingSink sink_;
  CountingObserver observer_;
  std::unique_ptr<AlertReceiver> receiver_;
};

TEST_F(AlertReceiverTest, AnswersOnceTheSinkHasDecided) {
  ASSERT_TRUE(Start(Options()).ok());
  const std::string body = PostJson(AlertJson("a") + "," + AlertJson("b"));
  EXPECT_THAT(Post(body), StartsWith("HTTP/1.1 200 OK"));
  EXPECT_EQ(sink_.calls(), 1);
  ASSERT_EQ(sink_.taken().size(), 2u);
  EXPECT_EQ(sink_.taken()[1].labels.at("job"), "b");
  EXPECT_EQ(observer_["code 200"], 1u);
  EXPECT_EQ(observer_["bytes"], body.size());
  EXPECT_EQ(observer_["firing"], 2u);
  EXPECT_EQ(observer_["dropped truncated"], 2u);
  EXPECT_THAT(Post(PostJson("")), HasSubstr("200 OK"));
  EXPECT_EQ(sink_.calls(), 1) << "there was nothing to decide";
}

// Alertmanager repeats 5xx and nothing else.
TEST_F(AlertReceiverTest, WhatIsNotDecidedIsToBeSentAgain) {
  ASSERT_TRUE(Start(Options()).ok());
  for (const auto& [error, code] : {std::pair(absl::UnavailableError("no leader"), "503"),
                                    std::pair(absl::DeadlineExceededError("slow"), "503"),
                                    std::pair(absl::InternalError("a secret detail"), "500")}) {
    sink_.Answer(error);
    const std::string answer = Post(PostJson(AlertJson("a")));
    EXPECT_THAT(answer, StartsWith(StrCat("HTTP/1.1 ", code)));
    EXPECT_THAT(answer, HasSubstr("Retry-After: 1"));
    EXPECT_THAT(answer, Not(HasSubstr("secret detail")));
  }
  EXPECT_EQ(observer_["code 503"], 2u);
  EXPECT_EQ(observer_["code 500"], 1u);
  EXPECT_EQ(observer_["firing"], 0u);
  sink_.Answer(absl::OkStatus());
  EXPECT_THAT(Post(PostJson(AlertJson("a"))), HasSubstr("200 OK"));
}

TEST_F(AlertReceiverTest, NobodyGetsInWithoutATokenAndNoBodyOfTheirsIsRead) {
  ASSERT_TRUE(Start(Options()).ok());
  const std::string json = "Content-Type: application/json\r\n";
  const std::string good = StrCat("Authorization: Bearer ", kGoodToken, "\r\n");
  for (const std::string& headers :
       {std::string(), std::string("Authorization: Bearer another-token-of-length\r\n"),
        StrCat("Authorization: Basic ", kGoodToken, "\r\n"), good + good}) {
    const std::string answer = Send("POST /alerts", json + headers, PostJson(AlertJson("a")));
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 401")) << headers;
    EXPECT_THAT(answer, HasSubstr("WWW-Authenticate: Bearer"));
  }
  EXPECT_THAT(Send("GET /other", "", ""), StartsWith("HTTP/1.1 401"));
  EXPECT_EQ(observer_["code 401"], 5u);
  EXPECT_EQ(observer_["refused token"], 5u);
  EXPECT_EQ(observer_["bytes"], 0u);
  EXPECT_EQ(sink_.calls(), 0);
}

TEST_F(AlertReceiverTest, RefusesWhatIsNoPostOfAlerts) {
  ASSERT_TRUE(Start(Options()).ok());
  const std::string good = StrCat("Authorization: Bearer ", kGoodToken, "\r\n");
  const std::string json = "Content-Type: application/json\r\n";
  EXPECT_THAT(Send("POST /other", good + json, "{}"), StartsWith("HTTP/1.1 404"));
  EXPECT_THAT(Send("GET /alerts", good, ""), StartsWith("HTTP/1.1 405"));
  EXPECT_THAT(Send("PUT /alerts", good + json, "{}"), StartsWith("HTTP/1.1 405"));
  EXPECT_THAT(Send("POST /alerts", good, "{}"), StartsWith("HTTP/1.1 415"));
  EXPECT_THAT(Post("{"), HasSubstr("the body is not JSON"));
  EXPECT_EQ(observer_["refused malformed"], 5u);
  EXPECT_EQ(observer_["code 400"], 1u);
  EXPECT_THAT(Post(std::string(kMaxAlertPostBytes + 1, ' ')), StartsWith("HTTP/1.1 413"));
  EXPECT_EQ(observer_["refused too_long"], 1u);
  EXPECT_EQ(observer_["code 413"], 1u);
  EXPECT_EQ(sink_.calls(), 0);
}

TEST_F(AlertReceiverTest, OneInvalidAlertDoesNotCostTheOthers) {
  ASSERT_TRUE(Start(Options()).ok());
  const std::string invalid = AlertJson("a", StrCat(R"(,"x":")", std::string(600, 'x'), "\""));
  EXPECT_THAT(Post(PostJson(invalid + "," + AlertJson("b"))), StartsWith("HTTP/1.1 200"));
  ASSERT_EQ(sink_.taken().size(), 1u);
  EXPECT_EQ(sink_.taken()[0].labels.at("job"), "b");
  EXPECT_EQ(observer_["dropped invalid"], 1u);
  const std::string answer = Post(PostJson(invalid));
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 400")) << "nothing is left of it";
  EXPECT_THAT(answer, HasSubstr("label \"x\" has more than 512 bytes"));
}

// The clock stands still, so that nothing is refilled.
TEST_F(AlertReceiverTest, AnAddressHasItsShare) {
  SimulatedTime still;
  auto receiver = AlertReceiver::Start(still, Options(), sink_, observer_);
  ASSERT_TRUE(receiver.ok());
  receiver_ = *std::move(receiver);
  // All posts come on one connection.
  const std::string post =
      StrCat("POST /alerts HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n",
             "Authorization: Bearer ", kGoodToken, "\r\nContent-Length: ", PostJson("").size());
  std::string posts;
  for (int i = 0; i < 200; ++i) posts += StrCat(post, "\r\n\r\n", PostJson(""));
  posts += StrCat(post, "\r\nConnection: close\r\n\r\n", PostJson(""));
  const std::string answers =
      TlsClient{authority_.certificate, "operator.svc"}.Exchange(receiver_->port(), posts);
  EXPECT_EQ(observer_["code 200"], 200u);
  EXPECT_THAT(answers.substr(answers.rfind("HTTP/1.1")), StartsWith("HTTP/1.1 503"));
  EXPECT_THAT(answers, HasSubstr("Retry-After: 1"));
  EXPECT_EQ(observer_["refused rate"], 1u);
}

TEST_F(AlertReceiverTest, TokensAreReadAgain) {
  ASSERT_TRUE(Start(Options()).ok());
  Write("token", "the-next-token-of-all");
  EXPECT_THAT(Post(PostJson("")), HasSubstr("200 OK"));
  receiver_->ReloadFiles();
  EXPECT_THAT(Post(PostJson("")), HasSubstr("401"));
  Write("token", "short");
  receiver_->ReloadFiles();
  Write("token", kGoodToken);
  receiver_->ReloadFiles();
  EXPECT_THAT(Post(PostJson("")), HasSubstr("200 OK"));
}

TEST_F(AlertReceiverTest, ClientCertificatesInsteadOfTokens) {
  const KeyPair theirs = *NewAuthority("alertmanagers", validity_);
  Write("ca.crt", theirs.certificate);
  AlertReceiverOptions options = Options();
  options.token_files.clear();
  options.files.client_authority = Path("ca.crt");
  options.client_names = {"alertmanager"};
  ASSERT_TRUE(Start(options).ok());
  const auto client = [&](const KeyPair& authority, const char* name) {
    return *NewCertificate(authority, {name, {"client"}, Usage::kClient, validity_});
  };
  const auto send = [&](const KeyPair& own) {
    return Send("POST /alerts", "Content-Type: application/json\r\n", PostJson(AlertJson("a")),
                own);
  };
  EXPECT_THAT(send(client(theirs, "alertmanager")), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(send({}), IsEmpty());
  EXPECT_THAT(send(client(authority_, "alertmanager")), IsEmpty());
  EXPECT_THAT(send(client(theirs, "somebody")), IsEmpty());
  EXPECT_EQ(sink_.calls(), 1);
  // The client hears of the end of a handshake before the server's thread has counted it.
  for (int i = 0; i < 4000 && observer_["refused handshake"] < 3; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(observer_["refused handshake"], 3u);
}

TEST_F(AlertReceiverTest, WhereBothAreConfiguredBothAreDemanded) {
  Write("ca.crt", authority_.certificate);
  AlertReceiverOptions options = Options();
  options.files.client_authority = Path("ca.crt");
  ASSERT_TRUE(Start(options).ok());
  const KeyPair own = *NewCertificate(authority_, {"a", {"client"}, Usage::kClient, validity_});
  EXPECT_THAT(Post(PostJson("")), IsEmpty());
  EXPECT_THAT(Send("POST /alerts", "Content-Type: application/json\r\n", PostJson(""), own),
              StartsWith("HTTP/1.1 401"));
  EXPECT_THAT(Post(PostJson(""), own), StartsWith("HTTP/1.1 200"));
}

TEST_F(AlertReceiverTest, DoesNotStartWithoutAuthentication) {
  AlertReceiverOptions options = Options();
  options.token_files.clear();
  EXPECT_THAT(MessageOf(Start(options)),
              HasSubstr("neither a bearer token nor a client authority"));
  options.token_files = {Path("nothing")};
  EXPECT_THAT(MessageOf(Start(options)), HasSubstr("there is no bearer token in"));
  options.token_files.clear();
  options.files.client_authority = Path("nothing");
  EXPECT_THAT(MessageOf(Start(options)), HasSubstr("/nothing"));
}

}  // namespace
}  // namespace strobe::trigger

#include "sidecar/enroll/enroller.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <vector>

#include "common/base/files.h"
#include "common/grpc_tls/credentials.h"
#include "strobe/v1/enrollment.grpc.pb.h"
#include "tests/fakes/flush_watch.h"

namespace strobe::enroll {
namespace {

namespace fs = std::filesystem;
using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

TEST(NextRenewal, IsAtTwoThirdsByTheWallClock) {
  const WallTime now{seconds(1'800'000'000)};
  const Validity day = ValidFor(hours(24), now);
  EXPECT_GE(NextRenewal(day, now), now + hours(12));
  EXPECT_LE(NextRenewal(day, now), now + hours(16));
  const Validity years = ValidFor(10 * 365 * hours(24), now);
  EXPECT_GE(NextRenewal(years, now), now + 5 * 365 * hours(24));
}

// Regression: a sidecar whose clock was ahead by the time of a renewal called the operator twice a
// second.
TEST(NextRenewal, LeavesAPauseIfTheClockIsAhead) {
  const WallTime now{seconds(1'800'000'000)};
  const Validity day = ValidFor(hours(24), now);
  const WallTime ahead = now + hours(20);
  EXPECT_GE(NextRenewal(day, ahead), ahead + minutes(10));
  const Validity soon = ValidFor(seconds(6), now);
  EXPECT_LE(NextRenewal(soon, now + seconds(5)), now + seconds(6)) << "still before it expires";
}

class EnrollerTest : public testing::Test, public v1::Enrollment::Service {
 protected:
  EnrollerTest() : directory_(mkdtemp(name_.data())) {
    std::ofstream(directory_ + "/token") << "token";
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", AskingServerCredentials(own_), &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  ~EnrollerTest() override {
    server_->Shutdown(DeadlineIn(seconds(1)));
    fs::remove_all(directory_);
  }

  grpc::Status Enroll(grpc::ServerContext*, const v1::EnrollRequest* request,
                      v1::EnrollResponse* response) override {
    const Claim claim{"pod", {PodName("u1")}, Usage::kServer, validity_};
    response->set_certificate(*Certify(authority_, request->signing_request(), claim));
    if (++calls_ > without_roots_) response->set_roots(authority_.certificate);
    response->set_pod_uid("u1");
    return grpc::Status::OK;
  }

  Enroller::Options Options() const {
    return {{"operator.svc:9443", "127.0.0.1:" + std::to_string(port_)},
            directory_ + "/token",
            authority_.certificate,
            directory_};
  }

  std::string name_ = "/tmp/strobe-enroll-XXXXXX";
  const std::string directory_;
  const SystemClock clock_{};
  const Validity validity_ = ValidFor(hours(1), clock_.WallNow());
  const KeyPair authority_ = *NewAuthority("strobe", validity_);
  const KeyPair other_ = *NewAuthority("strobe", validity_);
  const LiveIdentity own_{
      {*NewCertificate(authority_, {"x", {"operator.svc"}, Usage::kServer, validity_}),
       authority_.certificate}};
  int port_ = 0;
  std::atomic<int> calls_{0}, without_roots_{0};  // The first answers have no roots.
  std::unique_ptr<grpc::Server> server_;
};

// Regression: roots without a newline at their end, followed by those of the earlier process, could
// not be read, so that the sidecar never enrolled again.
TEST_F(EnrollerTest, TrustsTheRootsOfItsPodAndThoseOfItsEarlierProcess) {
  std::string roots = authority_.certificate;
  while (roots.ends_with("\n")) roots.pop_back();
  std::ofstream(directory_ + "/roots.pem") << other_.certificate;
  Notification enrolled;
  std::string uid;
  Enroller enroller(clock_,
                    {{"operator.svc:9443", "127.0.0.1:" + std::to_string(port_)},
                     directory_ + "/token",
                     roots,
                     directory_},
                    [&](const Enroller::Enrolled& got) {
                      uid = got.pod.uid;
                      enrolled.Notify();
                    });
  enroller.Start();
  ASSERT_TRUE(enrolled.WaitFor(seconds(30)));
  enroller.Stop();
  EXPECT_EQ(uid, "u1");
  EXPECT_EQ(*ReadTextFile(directory_ + "/roots.pem"), authority_.certificate)
      << "what the operator says is kept for the next process";
}

// Regression: the sidecar trusted nobody after such an answer, until it was restarted.
TEST_F(EnrollerTest, AnAnswerWithoutRootsIsRefused) {
  without_roots_ = 1;
  Notification enrolled;
  Enroller enroller(clock_, Options(), [&](const Enroller::Enrolled&) { enrolled.Notify(); });
  enroller.Start();
  ASSERT_TRUE(enrolled.WaitFor(seconds(30)));
  enroller.Stop();
  EXPECT_EQ(calls_, 2) << "the first answer was taken";
}

TEST_F(EnrollerTest, RootsSurviveACrashOfTheMachineOnceTheyAreKept) {
  std::ofstream(directory_ + "/roots.pem") << other_.certificate;
  std::vector<std::string> flushed;
  const FlushWatch watch([&](const std::string& path) {
    const bool named = *ReadTextFile(directory_ + "/roots.pem") == authority_.certificate;
    flushed.push_back(path + (named ? " named" : ""));
  });
  Notification enrolled;
  Enroller enroller(clock_, Options(), [&](const Enroller::Enrolled&) { enrolled.Notify(); });
  enroller.Start();
  ASSERT_TRUE(enrolled.WaitFor(seconds(30)));
  enroller.Stop();
  EXPECT_THAT(flushed, testing::ElementsAre(testing::EndsWith(".part"),
                                            testing::EndsWith(directory_.substr(4) + " named")));
}

}  // namespace
}  // namespace strobe::enroll

#include "operator/trigger/sign_service.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>

#include <limits>
#include <set>

#include "absl/base/thread_annotations.h"
#include "common/base/mutex.h"
#include "common/grpc_tls/credentials.h"
#include "common/grpc_tls/grpc_server.h"
#include "common/tls/certificate.h"
#include "tests/fakes/simulated_time.h"

namespace strobe::trigger {
namespace {

using std::chrono::hours;
using testing::ElementsAre;

class SignSinkFake final : public SignSink {
 public:
  absl::StatusOr<SignOrders> Take(const WorkerSigns& told, MonoTime) override {
    MutexLock lock(&mutex);
    last = told;
    ++taken;
    return answer;
  }
  // A thread of the server calls Take, and ThreadSanitizer does not see what orders its calls.
  Mutex mutex;
  WorkerSigns last ABSL_GUARDED_BY(mutex);
  int taken ABSL_GUARDED_BY(mutex) = 0;
  absl::StatusOr<SignOrders> answer ABSL_GUARDED_BY(mutex) = SignOrders{
      {{"slow/NoStep", SignKind::kNoStep, 0, 0, std::chrono::minutes(2)}}, std::chrono::minutes(1)};
};

// A real server and sidecars with certificates, over TLS on loopback.
class SignServiceTest : public testing::Test {
 protected:
  SignServiceTest() {
    grpc::ResourceQuota quota;
    auto server = GrpcServer::Start(
        {.listen = "127.0.0.1:0", .credentials = AskingServerCredentials(identity_)}, quota,
        service_);
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }

  Validity Valid() const { return {clock_.WallNow() - hours(1), clock_.WallNow() + hours(1)}; }
  KeyPair Issued(const KeyPair& authority, const std::string& name, Usage usage) const {
    return *NewCertificate(authority, {"x", {name}, usage, Valid()});
  }
  grpc::Status Tell(const KeyPair& own, const v1::TellSignsRequest& request) {
    grpc::ChannelArguments arguments;
    arguments.SetString(GRPC_SSL_TARGET_NAME_OVERRIDE_ARG, "strobe");
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    const auto stub = v1::Signs::NewStub(grpc::CreateCustomChannel(
        "127.0.0.1:" + std::to_string(server_->port()),
        VerifyingChannelCredentials(clock_, {own, authority_.certificate}, nullptr), arguments));
    grpc::ClientContext context;
    context.set_deadline(DeadlineIn(std::chrono::seconds(20)));
    return stub->Tell(&context, request, &response_);
  }
  static v1::TellSignsRequest Request(const std::string& uid) {
    v1::TellSignsRequest request;
    request.set_namespace_("ml");
    request.set_pod("llm-0");
    request.set_pod_uid(uid);
    return request;
  }

  SystemClock clock_;
  KeyPair authority_ = *NewAuthority("authority", Valid());
  KeyPair stranger_ = *NewAuthority("stranger", Valid());
  LiveIdentity identity_{
      Identity{Issued(authority_, "strobe", Usage::kServer), authority_.certificate}};
  SignSinkFake sink_;
  std::multiset<std::string> refused_;
  SignService service_{clock_, identity_, sink_, [this](const std::string& reason) {
                         MutexLock lock(&sink_.mutex);
                         refused_.insert(reason);
                       }};
  std::unique_ptr<GrpcServer> server_;
  v1::TellSignsResponse response_;
};

TEST_F(SignServiceTest, AWorkerTellsWithTheCertificateThatItServesWith) {
  const KeyPair own = Issued(authority_, PodName("u-1"), Usage::kServer);
  const grpc::Status status = Tell(own, Request("u-1"));
  ASSERT_TRUE(status.ok()) << status.error_message();
  MutexLock lock(&sink_.mutex);
  EXPECT_EQ(sink_.last.uid, "u-1");
  EXPECT_EQ(sink_.last.pod, "llm-0");
  ASSERT_EQ(response_.rules_size(), 1);
  EXPECT_EQ(response_.rules(0).kind(), v1::SIGN_NO_STEP);
  EXPECT_EQ(response_.again_ns(), Nanos(std::chrono::minutes(1)).count());
}

TEST_F(SignServiceTest, NobodySpeaksForAnotherPod) {
  const KeyPair own = Issued(authority_, PodName("u-1"), Usage::kServer);
  for (const grpc::Status& status :
       {Tell(own, Request("u-2")), Tell(own, Request("")), Tell({}, Request("u-1")),
        Tell(Issued(stranger_, PodName("u-1"), Usage::kServer), Request("u-1")),
        Tell(Issued(authority_, kOperatorName, Usage::kClient), Request("u-1"))})
    EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAUTHENTICATED) << status.error_message();
  v1::TellSignsRequest unnamed = Request("u-1");
  unnamed.set_pod(std::string(300, 'p'));
  EXPECT_EQ(Tell(own, unnamed).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  MutexLock lock(&sink_.mutex);
  EXPECT_EQ(sink_.taken, 0);
  EXPECT_EQ(refused_.count("unauthenticated"), 5u);
  EXPECT_EQ(refused_.count("invalid"), 1u);
}

TEST_F(SignServiceTest, WhatCannotBeDecidedIsToldAgain) {
  const KeyPair own = Issued(authority_, PodName("u-1"), Usage::kServer);
  const auto answer = [this](absl::Status status) {
    MutexLock lock(&sink_.mutex);
    sink_.answer = std::move(status);
  };
  answer(absl::PermissionDeniedError("there is no such pod"));
  EXPECT_EQ(Tell(own, Request("u-1")).error_code(), grpc::StatusCode::PERMISSION_DENIED);
  answer(absl::InternalError("the API server's secret"));
  const grpc::Status status = Tell(own, Request("u-1"));
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(status.error_message(), "try again later");
}

TEST(ReadWorkerSigns, EverythingIsBounded) {
  v1::TellSignsRequest request;
  for (int i = 0; i < 100; ++i) {
    v1::Sign& sign = *request.add_signs();
    sign.set_began_ago_ns(std::numeric_limits<std::int64_t>::max());
    sign.set_step_ns(-5);
    sign.set_loop(std::string(10'000, 'a'));
    sign.set_process("a\nb\x1b[31m");
    v1::StepTime& time = *request.add_step_times();
    time.set_step_ns(i - 50);
    time.set_steps(1);
  }
  const WorkerSigns told = ReadWorkerSigns(request);
  EXPECT_EQ(told.signs.size(), kMaxReportedSigns);
  EXPECT_EQ(told.signs[0].began_ago, kMaxSignAge);
  EXPECT_EQ(told.signs[0].step, Nanos{0});
  EXPECT_LE(told.signs[0].loop.size(), kMaxSignText);
  EXPECT_EQ(told.signs[0].process, "a b [31m");
  EXPECT_EQ(told.step_times.size(), kMaxReportedStepTimes);
  EXPECT_GT(told.step_times[0].step, Nanos{0});
}

}  // namespace
}  // namespace strobe::trigger

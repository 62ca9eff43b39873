#include "common/grpc_tls/credentials.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <optional>

#include "common/base/mutex.h"
#include "common/grpc_tls/grpc_log.h"
#include "strobe/v1/worker.grpc.pb.h"

namespace strobe {
namespace {

using std::chrono::hours;
using std::chrono::seconds;

class Described final : public v1::Worker::Service {
  grpc::Status Describe(grpc::ServerContext*, const v1::DescribeRequest*,
                        v1::DescribeResponse* response) override {
    response->set_worker("w");
    return grpc::Status::OK;
  }
};

class Credentials : public testing::Test {
 protected:
  Validity Now() const { return {clock_.WallNow() - hours(1), clock_.WallNow() + hours(1)}; }
  KeyPair Issue(const KeyPair& authority, const std::string& name, Usage usage) const {
    return *NewCertificate(authority, {"x", {name}, usage, Now()});
  }

  void Serve(const KeyPair& own, const std::string& roots) {
    identity_.emplace(Identity{own, roots});
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0",
                             MutualServerCredentials(clock_, *identity_, kOperatorName,
                                                     [this](PeerVerdict verdict) {
                                                       MutexLock lock(&mutex_);
                                                       refused_.emplace_back(Name(verdict));
                                                     }),
                             &port_);
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
    ASSERT_NE(server_, nullptr);
  }

  grpc::Status Call(const std::shared_ptr<grpc::ChannelCredentials>& credentials,
                    const std::string& name = "u1.pod.strobe.dev") {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    arguments.SetString(GRPC_SSL_TARGET_NAME_OVERRIDE_ARG, name);
    const auto stub = v1::Worker::NewStub(
        grpc::CreateCustomChannel("127.0.0.1:" + std::to_string(port_), credentials, arguments));
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + seconds(20));
    v1::DescribeResponse response;
    return stub->Describe(&context, {}, &response);
  }
  grpc::Status CallAs(const KeyPair& own, const std::string& roots,
                      const std::string& name = "u1.pod.strobe.dev") {
    return Call(VerifyingChannelCredentials(clock_, {own, roots},
                                            [this](PeerVerdict verdict) {
                                              MutexLock lock(&mutex_);
                                              seen_.emplace_back(Name(verdict));
                                            }),
                name);
  }
  std::vector<std::string> refused() {
    MutexLock lock(&mutex_);
    return refused_;
  }
  std::vector<std::string> seen() {
    MutexLock lock(&mutex_);
    return seen_;
  }

  const SystemClock clock_{};
  const KeyPair authority_ = *NewAuthority("strobe", Now());
  const KeyPair worker_ = Issue(authority_, "u1.pod.strobe.dev", Usage::kServer);
  const KeyPair operator_ = Issue(authority_, kOperatorName, Usage::kClient);
  Described service_;
  std::optional<LiveIdentity> identity_;
  int port_ = 0;
  Mutex mutex_;
  std::vector<std::string> refused_, seen_;
  std::unique_ptr<grpc::Server> server_;
};

TEST_F(Credentials, TheOperatorGetsIn) {
  Serve(worker_, authority_.certificate);
  const grpc::Status status = CallAs(operator_, authority_.certificate);
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_THAT(refused(), testing::IsEmpty());
}

TEST_F(Credentials, NobodyElseDoesAndEachIsCounted) {
  Serve(worker_, authority_.certificate);
  std::atomic<int> failed{0};
  ObserveFailedHandshakes([&failed] { ++failed; });
  const KeyPair stranger = *NewAuthority("strobe", Now());
  const KeyPair old =
      *NewCertificate(authority_, {"x",
                                   {kOperatorName},
                                   Usage::kClient,
                                   {clock_.WallNow() - hours(2), clock_.WallNow() - hours(1)}});
  EXPECT_FALSE(CallAs(Issue(stranger, kOperatorName, Usage::kClient), authority_.certificate).ok());
  EXPECT_FALSE(
      CallAs(Issue(authority_, "u2.pod.strobe.dev", Usage::kClient), authority_.certificate).ok());
  EXPECT_FALSE(CallAs(worker_, authority_.certificate).ok());
  EXPECT_FALSE(CallAs(old, authority_.certificate).ok());
  EXPECT_FALSE(CallAs({}, authority_.certificate).ok());
  EXPECT_THAT(refused(), testing::IsSupersetOf({"untrusted", "wrong_name", "untrusted", "expired",
                                                "no_certificate"}));
  const grpc::Status plain = Call(grpc::InsecureChannelCredentials());
  EXPECT_FALSE(plain.ok());
  EXPECT_EQ(plain.error_message().find("strobe"), std::string::npos) << plain.error_message();
  EXPECT_GE(failed, 1);
}

TEST_F(Credentials, AClientRefusesTheWrongPod) {
  Serve(worker_, authority_.certificate);
  EXPECT_FALSE(CallAs(operator_, authority_.certificate, "u2.pod.strobe.dev").ok());
  EXPECT_THAT(seen(), testing::Contains("wrong_name"));
  const KeyPair stranger = *NewAuthority("strobe", Now());
  EXPECT_FALSE(CallAs(operator_, stranger.certificate).ok());
  EXPECT_THAT(seen(), testing::Contains("untrusted"));
}

TEST_F(Credentials, ARenewedCertificateIsServedWithoutARestart) {
  Serve(worker_, authority_.certificate);
  ASSERT_TRUE(CallAs(operator_, authority_.certificate).ok());
  const KeyPair next = *NewAuthority("strobe", Now());
  const std::string both = authority_.certificate + next.certificate;
  ASSERT_TRUE(identity_
                  ->Renew(*Certify(next, *NewSigningRequest(worker_.key),
                                   {"x", {"u1.pod.strobe.dev"}, Usage::kServer, Now()}),
                          both)
                  .ok());
  // The server reads the renewed certificate within one or two seconds.
  grpc::Status status;
  for (int i = 0; i < 100; ++i) {
    status = CallAs(Issue(next, kOperatorName, Usage::kClient), next.certificate);
    if (status.ok()) break;
    usleep(100'000);
  }
  EXPECT_TRUE(status.ok()) << status.error_message();
  // The operator's old certificate is good as long as its authority is trusted.
  EXPECT_TRUE(CallAs(operator_, both).ok());
}

}  // namespace
}  // namespace strobe

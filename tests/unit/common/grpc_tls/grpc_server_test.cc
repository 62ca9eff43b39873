#include "common/grpc_tls/grpc_server.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/resource_quota.h>
#include <gtest/gtest.h>

#include <thread>

#include "common/base/mutex.h"
#include "common/base/strings.h"
#include "strobe/v1/worker.grpc.pb.h"

namespace strobe {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class WatchedWorker final : public v1::Worker::Service {
 public:
  grpc::Status Describe(grpc::ServerContext*, const v1::DescribeRequest*,
                        v1::DescribeResponse* response) override {
    response->set_worker("w");
    return grpc::Status::OK;
  }
  // Returns only after the client's call was cancelled.
  grpc::Status Watch(grpc::ServerContext* context, const v1::WatchRequest*,
                     grpc::ServerWriter<v1::Report>*) override {
    watched.Notify();
    while (!context->IsCancelled()) std::this_thread::sleep_for(milliseconds(1));
    return grpc::Status::CANCELLED;
  }
  Notification watched;
};

class GrpcServers : public testing::Test {
 protected:
  absl::StatusOr<std::unique_ptr<GrpcServer>> Start(GrpcServerOptions options) {
    options.credentials = grpc::InsecureServerCredentials();
    return GrpcServer::Start(options, quota_, service_);
  }
  static std::unique_ptr<v1::Worker::Stub> Connect(const GrpcServer& server) {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    return v1::Worker::NewStub(
        grpc::CreateCustomChannel("127.0.0.1:" + std::to_string(server.port()),
                                  grpc::InsecureChannelCredentials(), arguments));
  }
  static grpc::Status Describe(v1::Worker::Stub& stub, std::size_t request_bytes = 0) {
    grpc::ClientContext context;
    context.set_deadline(DeadlineIn(seconds(20)));
    v1::DescribeRequest request;
    request.set_capture_id(std::string(request_bytes, 'x'));
    v1::DescribeResponse response;
    return stub.Describe(&context, request, &response);
  }

  grpc::ResourceQuota quota_;
  WatchedWorker service_;
};

TEST_F(GrpcServers, AnswersOnTheFreePortThatItPicked) {
  const auto server = Start({.listen = "127.0.0.1:0"});
  ASSERT_TRUE(server.ok()) << server.status();
  EXPECT_GT((*server)->port(), 0);
  EXPECT_TRUE(Describe(*Connect(**server)).ok());
}

TEST_F(GrpcServers, APortThatIsTakenIsAnErrorThatNamesIt) {
  const auto first = Start({.listen = "127.0.0.1:0"});
  ASSERT_TRUE(first.ok());
  const std::string address = StrCat("127.0.0.1:", (*first)->port());
  testing::internal::CaptureStderr();
  const absl::Status second = Start({.listen = address}).status();
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "") << "gRPC does not tell it as well";
  EXPECT_TRUE(absl::IsUnavailable(second));
  EXPECT_EQ(MessageOf(second), StrCat("cannot listen on ", address, ": Address already in use"));
}

TEST_F(GrpcServers, RefusesLargerRequests) {
  const auto server = Start({.listen = "127.0.0.1:0", .max_request_bytes = 1000});
  ASSERT_TRUE(server.ok());
  const auto stub = Connect(**server);
  EXPECT_TRUE(Describe(*stub, 900).ok());
  EXPECT_EQ(Describe(*stub, 2000).error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
}

TEST_F(GrpcServers, StopCancelsCallsAtItsDeadline) {
  const auto server = Start({.listen = "127.0.0.1:0"});
  ASSERT_TRUE(server.ok());
  const auto stub = Connect(**server);
  grpc::ClientContext context;
  context.set_deadline(DeadlineIn(seconds(60)));
  const auto reader = stub->Watch(&context, {});
  ASSERT_TRUE(service_.watched.WaitFor(seconds(20)));
  (*server)->Stop(DeadlineIn(milliseconds(10)));
  (*server)->Stop(DeadlineIn(milliseconds(10)));
  v1::Report report;
  EXPECT_FALSE(reader->Read(&report));
  EXPECT_FALSE(reader->Finish().ok());
}

}  // namespace
}  // namespace strobe

// Serves strobe.v1.Worker by calling another implementation of it, and logs and counts its
// exceptions. gRPC would catch them as well, but only the caller would learn of them.
#pragma once
#include "common/base/guard.h"
#include "strobe/v1/worker.grpc.pb.h"

namespace strobe::service {

class GuardedWorker final : public v1::Worker::Service {
 public:
  // `service` outlives it.
  explicit GuardedWorker(v1::Worker::Service& service) : service_(service) {}

  grpc::Status Describe(grpc::ServerContext* context, const v1::DescribeRequest* request,
                        v1::DescribeResponse* response) override {
    return Guarded([&] { return service_.Describe(context, request, response); });
  }
  grpc::Status ProbeClock(grpc::ServerContext* context,
                          grpc::ServerReaderWriter<v1::ClockPong, v1::ClockPing>* stream) override {
    return Guarded([&] { return service_.ProbeClock(context, stream); });
  }
  grpc::Status Arm(grpc::ServerContext* context, const v1::ArmRequest* request,
                   v1::ArmResponse* response) override {
    return Guarded([&] { return service_.Arm(context, request, response); });
  }
  grpc::Status Watch(grpc::ServerContext* context, const v1::WatchRequest* request,
                     grpc::ServerWriter<v1::Report>* writer) override {
    return Guarded([&] { return service_.Watch(context, request, writer); });
  }
  grpc::Status Cancel(grpc::ServerContext* context, const v1::CancelRequest* request,
                      v1::CancelResponse* response) override {
    return Guarded([&] { return service_.Cancel(context, request, response); });
  }
  grpc::Status ReadDigest(grpc::ServerContext* context, const v1::ReadDigestRequest* request,
                          v1::ReadDigestResponse* response) override {
    return Guarded([&] { return service_.ReadDigest(context, request, response); });
  }
  grpc::Status ReadEvidence(grpc::ServerContext* context, const v1::ReadEvidenceRequest* request,
                            v1::ReadEvidenceResponse* response) override {
    return Guarded([&] { return service_.ReadEvidence(context, request, response); });
  }
  grpc::Status Publish(grpc::ServerContext* context, const v1::PublishRequest* request,
                       v1::PublishResponse* response) override {
    return Guarded([&] { return service_.Publish(context, request, response); });
  }
  grpc::Status Reclaim(grpc::ServerContext* context, const v1::ReclaimRequest* request,
                       v1::ReclaimResponse* response) override {
    return Guarded([&] { return service_.Reclaim(context, request, response); });
  }

 private:
  template <typename Work>
  static grpc::Status Guarded(const Work& work) {
    grpc::Status status(grpc::StatusCode::INTERNAL, "the sidecar failed; its log says why");
    (void)RunGuarded("worker", [&] { status = work(); });
    return status;
  }

  v1::Worker::Service& service_;
};

}  // namespace strobe::service

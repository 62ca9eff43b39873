// strobe.v1.Signs: what sidecars tell of their workers. Bounds what they send, and makes sure that
// each speaks for its own pod.
#pragma once
#include <atomic>
#include <functional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/tls/live_identity.h"
#include "operator/trigger/sign.h"
#include "strobe/v1/signs.grpc.pb.h"

namespace strobe::trigger {

class SignService final : public v1::Signs::Service {
 public:
  // `own` has the authorities that certify sidecars. `refused` is called for each call that is
  // refused before it is decided on, with unauthenticated, invalid or busy. All outlive it.
  SignService(const Clock& clock, const LiveIdentity& own, SignSink& sink,
              std::function<void(const std::string& reason)> refused)
      : clock_(clock), own_(own), sink_(sink), refused_(std::move(refused)) {}

  grpc::Status Tell(grpc::ServerContext* context, const v1::TellSignsRequest* request,
                    v1::TellSignsResponse* response) override;

 private:
  grpc::Status Answer(const std::string& certificate, const v1::TellSignsRequest& request,
                      v1::TellSignsResponse& response);
  grpc::Status Decide(const v1::TellSignsRequest& request, v1::TellSignsResponse& response);

  const Clock& clock_;
  const LiveIdentity& own_;
  SignSink& sink_;
  const std::function<void(const std::string&)> refused_;
  std::atomic<int> deciding_{0};
};

// What the request tells, with bounded text. Pure.
WorkerSigns ReadWorkerSigns(const v1::TellSignsRequest& request);

}  // namespace strobe::trigger

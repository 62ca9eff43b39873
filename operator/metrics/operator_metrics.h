// The operator's numbers, low in cardinality: pod names stand in statuses and manifests only. Names
// of the controller and the client equal controller-runtime's, so that its dashboards work.
#pragma once
#include <memory>
#include <string>

#include "operator/controller/ports.h"

namespace strobe {

class OperatorMetrics final : public CaptureMetrics {
 public:
  OperatorMetrics();
  ~OperatorMetrics() override;

  void AttemptEnded(const ProfileRequest& request, const AttemptProgress& progress) override;
  void CaptureEnded(const ProfileRequest& request, const std::string& result) override;
  void ActiveCaptures(std::size_t count) override;

  // `result` is success, requeue_after or error.
  void Reconciled(const std::string& result, Nanos took);
  void QueueDepth(std::size_t depth);
  void Requested(const std::string& method, int status, Nanos took);
  void Leading(bool leading, const std::string& lease);

  // In Prometheus' text format.
  std::string Render() const;

 private:
  struct Families;
  const std::unique_ptr<Families> families_;
};

}  // namespace strobe

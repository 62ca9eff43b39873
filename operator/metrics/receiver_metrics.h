// The metrics of the receiver of alerts. Safe for concurrent use.
#pragma once
#include <memory>

#include "operator/trigger/ports.h"

namespace prometheus {
class Registry;
}  // namespace prometheus

namespace strobe::metrics {

class ReceiverMetrics final : public trigger::AlertReceiverObserver {
 public:
  explicit ReceiverMetrics(prometheus::Registry& registry);  // Must outlive it.
  ~ReceiverMetrics() override;

  void Answered(int code) override;
  void Read(std::size_t body_bytes) override;
  void Taken(std::size_t firing, std::size_t resolved) override;
  void Refused(std::string_view reason) override;
  void Dropped(std::string_view reason, std::uint64_t count) override;

 private:
  struct Families;
  const std::unique_ptr<Families> families_;
};

}  // namespace strobe::metrics

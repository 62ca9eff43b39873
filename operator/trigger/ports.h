// What the receiver of alerts tells about itself. Implemented by operator/metrics.
#pragma once
#include <array>
#include <cstdint>
#include <string_view>

namespace strobe::trigger {

// Why a connection or a post was refused.
inline constexpr std::array<std::string_view, 8> kAlertRefusals = {
    "handshake", "token", "too_long", "slow", "busy", "crowded", "rate", "malformed"};
// What was left out of accepted posts. "truncated": the sender itself had left alerts out.
inline constexpr std::array<std::string_view, 4> kAlertDrops = {"truncated", "too_many", "invalid",
                                                                "annotation"};

// Safe for concurrent use; must not block.
class AlertReceiverObserver {
 public:
  virtual ~AlertReceiverObserver() = default;
  virtual void Answered(int code) = 0;
  virtual void Read(std::size_t body_bytes) = 0;
  // Alerts that the sink has decided on.
  virtual void Taken(std::size_t firing, std::size_t resolved) = 0;
  // `reason` is one of kAlertRefusals.
  virtual void Refused(std::string_view reason) = 0;
  // `reason` is one of kAlertDrops.
  virtual void Dropped(std::string_view reason, std::uint64_t count) = 0;
};

}  // namespace strobe::trigger

// Gets a certificate for this process's key from the operator, and renews it before it expires.
// Runs on its own thread. Failures are retried without end, because a pod may start before its
// operator.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "common/base/mutex.h"
#include "common/tls/live_identity.h"
#include "sidecar/enroll/operator_channel.h"

namespace strobe::enroll {

// When a certificate that was got at `now` is renewed, by the wall clock. Later than the
// certificate asks for if this machine's clock is far ahead: otherwise the operator would be called
// without a pause.
WallTime NextRenewal(const Validity& validity, WallTime now);

class Enroller {
 public:
  struct Options {
    OperatorAddress address{};
    std::string token_file{};  // A projected service-account token of audience "strobe".
    std::string roots{};       // PEM; the authorities to trust at first.
    // Directory that keeps newer roots for a restarted container; empty = they are not kept.
    std::string state_dir{};
  };

  // What is known of this process once it has enrolled.
  struct Enrolled {
    const LiveIdentity& identity;  // Renewed in place; lives as long as the enroller.
    OwnPod pod{};
  };
  // `enrolled` is called once, on the enroller's thread, with the first certificate.
  Enroller(const Clock& clock, Options options, std::function<void(const Enrolled&)> enrolled);
  ~Enroller();
  Enroller(const Enroller&) = delete;
  Enroller& operator=(const Enroller&) = delete;

  void Start();
  // Ends the thread, which may take until a call in progress times out (10 s). The identity stays
  // usable.
  void Stop();
  bool enrolled() const { return enrolled_.is_set(); }

 private:
  void Run();
  absl::Status EnrollOnce();

  const Clock& clock_;
  const Options options_;
  const std::function<void(const Enrolled&)> on_enrolled_;

  // Used by the thread only.
  std::string key_, roots_;
  bool last_was_direct_ = false;  // The last attempt went to connect_to and failed.
  Validity validity_{};           // The newest certificate's.

  std::unique_ptr<LiveIdentity> identity_{};
  Notification enrolled_, stop_;
  std::thread thread_;
};

}  // namespace strobe::enroll

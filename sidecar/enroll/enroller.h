// Gets a certificate for this process's key from the operator, and renews it before it expires.
// Runs on its own thread. Failures are retried without end, because a pod may start before its
// operator.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "common/base/mutex.h"
#include "common/tls/live_identity.h"

namespace strobe {

class Enroller {
 public:
  struct Options {
    std::string address{};     // host:port of the operator; its certificate must carry the host.
    std::string token_file{};  // A projected service-account token of audience "strobe".
    std::string roots{};       // PEM; the authorities to trust at first.
    // Directory that keeps newer roots for a restarted container; empty = they are not kept.
    std::string state_dir{};
    // host:port to connect to, where the host of `address` may not be resolved; empty = `address`.
    std::string connect_to{};
  };

  // `enrolled` is called once, on the enroller's thread, with the first certificate. The identity
  // is renewed in place from then on and lives as long as the enroller.
  Enroller(const Clock& clock, Options options, std::function<void(const LiveIdentity&)> enrolled);
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
  const std::function<void(const LiveIdentity&)> on_enrolled_;

  // Used by the thread only.
  std::string key_, roots_;
  bool last_was_direct_ = false;  // The last attempt went to connect_to and failed.
  WallTime renewal_{};

  std::optional<LiveIdentity> identity_;
  Notification enrolled_, stop_;
  std::thread thread_;
};

}  // namespace strobe

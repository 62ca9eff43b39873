// Has the operator certify a key of this process for its pod, again and again. Runs on its own
// thread; whatever fails is tried again, because a pod may start before its operator.
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
    std::string address{};     // host:port of the operator; the host is the name it must carry.
    std::string token_file{};  // A projected service-account token of audience "strobe".
    std::string roots{};       // PEM: whom to trust at first.
    // Where newer roots are kept, so that a restarted container knows them; empty = nowhere.
    std::string state_dir{};
  };

  // `enrolled` is called once, on the thread, with the identity that is renewed from then on; it
  // lives as long as the enroller.
  Enroller(const Clock& clock, Options options, std::function<void(const LiveIdentity&)> enrolled);
  ~Enroller();
  Enroller(const Enroller&) = delete;
  Enroller& operator=(const Enroller&) = delete;

  void Start();
  // Renews no more and calls nobody any more; the identity stays as it is.
  void Stop();
  bool enrolled() const { return enrolled_.is_set(); }

 private:
  void Run();
  absl::Status EnrollOnce();

  const Clock& clock_;
  const Options options_;
  const std::function<void(const LiveIdentity&)> on_enrolled_;

  // Of the thread.
  std::string key_, roots_;
  WallTime renewal_{};

  std::optional<LiveIdentity> identity_;
  Notification enrolled_, stop_;
  std::thread thread_;
};

}  // namespace strobe

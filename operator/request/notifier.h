// Tells a receiver outside of the cluster how captures ended: one POST per event, signed, repeated
// while the receiver cannot take it. The queue is bounded, namespaces take turns in it, and each
// event that is not delivered is counted. Events in the queue are lost with the process, because
// the status of a request remains the truth.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/fair/fair_queue.h"
#include "operator/kube/credentials.h"
#include "operator/kube/transport.h"
#include "operator/request/ports.h"

namespace strobe::request {

// Where events go.
struct Receiver {
  std::unique_ptr<kube::Transport> transport{};
  std::string path = "/";          // Includes the query.
  kube::FileOrData signing_key{};  // Empty = events are not signed.
  bool grafana = false;            // Gets annotations instead of CloudEvents.
};

// Makes the receiver for an http or https URL. Of the files `token` (a bearer token), `signing-key`
// and `ca.crt` in `directory`, those that exist now are used, and read again later; there is none
// if `directory` is empty. InvalidArgument says what is wrong with the URL: with a token it must be
// https.
absl::StatusOr<Receiver> MakeReceiver(const Clock& clock, const std::string& url,
                                      const std::string& directory);

// What became of an event.
enum class Notified { kDelivered, kRefused, kUndelivered, kDropped };
std::string_view Name(Notified result);

// Standard Webhooks (standardwebhooks.com): "v1," and the HMAC-SHA256 of "<id>.<seconds>.<body>" in
// base64. A key that begins with "whsec_" is base64, any other is used as it is.
std::string WebhookSignature(std::string_view key, std::string_view id, std::int64_t seconds,
                             std::string_view body);

// After how long the answer to attempt number `tries` (from 1) is worth another one; none = it was
// delivered, it was refused for good, or it was tried often enough.
std::optional<Nanos> RetryDelay(int tries, const absl::StatusOr<kube::HttpResponse>& answer);

class Notifier {
 public:
  static constexpr std::size_t kQueue = 1000;
  using OnNotified = std::function<void(Notified)>;

  // `source` is CloudEvents' attribute: who tells. `told` is called by any thread and must not call
  // back. The clock must outlive the object.
  Notifier(const Clock& clock, Receiver receiver, std::string source, OnNotified told);
  ~Notifier();  // Tries queued events once more, for at most two seconds and one call.
  Notifier(const Notifier&) = delete;
  Notifier& operator=(const Notifier&) = delete;

  // To be called once the end is in the request's status. Never blocks.
  void NotifyEnd(const objects::ProfileRequest& request, const objects::RequestStatus& status,
                 CaptureEnd end);
  void Send(const std::string& ns, std::string id, std::string body);

 private:
  struct Pending {
    std::string ns{}, id{}, body{};
    int tries = 0;
  };
  void Run();
  // None when the object is being destroyed and nothing is left to do.
  std::optional<Pending> Next();
  void Try(Pending event);

  const Clock& clock_;
  const Receiver receiver_;
  const std::string source_;
  const OnNotified on_notified_;
  Mutex mutex_;
  fair::FairQueue<Pending> queue_ ABSL_GUARDED_BY(mutex_){kQueue};
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  MonoTime give_up_ ABSL_GUARDED_BY(mutex_){};
  std::thread thread_;  // Declared last: it uses the members above.
};

}  // namespace strobe::request

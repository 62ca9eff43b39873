// A transport that answers from a script, for tests of the API client's logic. tests/integration
// tests faults of real connections with a real API server behind a proxy.
#pragma once
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "common/base/mutex.h"
#include "operator/kube/transport.h"

namespace strobe::kube {

class ScriptedTransport final : public Transport {
 public:
  struct Script {
    absl::StatusOr<HttpResponse> end;
    std::vector<std::string> chunks;
  };
  using Handler = std::function<absl::StatusOr<HttpResponse>(const HttpRequest&)>;

  absl::StatusOr<HttpResponse> Unary(const HttpRequest& request) override {
    MutexLock lock(&mutex_);
    requests_.push_back(request);
    return handler_ ? handler_(request) : absl::UnavailableError("no script");
  }
  // Each call plays the next scripted stream. When there are no more, it sends nothing until
  // stopped.
  absl::StatusOr<HttpResponse> Stream(const HttpRequest& request, const Stop& stop,
                                      const std::function<bool(std::string_view)>& chunk) override {
    Script script{absl::UnknownError(""), {}};
    {
      MutexLock lock(&mutex_);
      requests_.push_back(request);
      if (streams_.empty()) {
        mutex_.Unlock();
        stop.WaitFor(std::chrono::hours(1));
        mutex_.Lock();
        return absl::CancelledError("stopped");
      }
      script = std::move(streams_.front());
      streams_.pop_front();
    }
    for (const std::string& piece : script.chunks) {
      if (!chunk(piece)) return absl::CancelledError("enough");
    }
    return script.end;
  }

  void OnUnary(Handler handler) {
    MutexLock lock(&mutex_);
    handler_ = std::move(handler);
  }
  void AddStream(std::vector<std::string> chunks,
                 absl::StatusOr<HttpResponse> end = HttpResponse{200, "", std::nullopt}) {
    MutexLock lock(&mutex_);
    streams_.push_back({std::move(end), std::move(chunks)});
  }
  std::vector<HttpRequest> requests() {
    MutexLock lock(&mutex_);
    return requests_;
  }

 private:
  Mutex mutex_;
  Handler handler_ ABSL_GUARDED_BY(mutex_);
  std::deque<Script> streams_ ABSL_GUARDED_BY(mutex_);
  std::vector<HttpRequest> requests_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace strobe::kube

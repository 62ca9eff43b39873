// The cluster IP of one of our Services, read again from time to time. Safe for concurrent use.
#pragma once
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "operator/kube/client.h"

namespace strobe::kube {

class ServiceAddress {
 public:
  // Clock and client outlive it.
  ServiceAddress(const Clock& clock, Client& client, const std::string& ns,
                 const std::string& name);

  // Empty if the Service has none or could not be read yet. Rarely blocks, and then for less than a
  // second, with one thread at most.
  std::string Get();

 private:
  const Clock& clock_;
  Client& client_;
  const std::string path_;
  Mutex mutex_;
  std::string ip_ ABSL_GUARDED_BY(mutex_);
  std::optional<MonoTime> asked_at_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace strobe::kube

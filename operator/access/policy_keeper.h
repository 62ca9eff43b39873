// Keeps the status of ProfilePolicies: whether each can be used as it is written. Only the leader
// writes, once per change of a policy.
#pragma once
#include <atomic>
#include <memory>
#include <string>

#include "operator/kube/client.h"
#include "operator/kube/object_cache.h"
#include "operator/kube/reconcile_threads.h"
#include "operator/kube/reflector.h"
#include "operator/kube/work_queue.h"

namespace strobe::access {

class PolicyKeeper {
 public:
  // Clock and client outlive it.
  PolicyKeeper(const Clock& clock, kube::Client& client, Nanos watch_timeout);

  // This process leads: watches the policies from now on. Called once.
  void Start();
  // Nothing is written after it returns. A policy that is being written is awaited.
  void Stop() { threads_.reset(); }
  // Writes the status of the policy with this key if it differs. An error is worth another try.
  absl::StatusOr<kube::ReconcileResult> Reconcile(const std::string& key);

  kube::ObjectCache& cache() { return cache_; }

 private:
  const Clock& clock_;
  kube::Client& client_;
  kube::ObjectCache cache_;
  kube::WorkQueue queue_;
  kube::Reflector reflector_;
  std::unique_ptr<kube::ReconcileThreads>
      threads_;  // Null until Start. Last: uses all of the above.
};

}  // namespace strobe::access

// Which workers a request wants.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "operator/base/job_kinds.h"

namespace strobe::job {

struct TargetSpec {
  // Its name in a request with several targets, which is the role of its workers; else empty.
  std::string name{};
  std::string min_workers{};  // How many must end well; empty = as the request says.
  std::string
      selector{};  // In the API server's syntax: "app=train,tier in (a,b)"; empty = not set.
  std::optional<kube::JobRef> job{};
  std::vector<std::string> pods{};
  std::string container{};
  std::size_t expected_workers = 0;         // 0 = according to the job.
  bool sample = false;                      // Record only some workers: `count` or `ranks` of them.
  std::size_t count = 0;                    // 0 = not set.
  std::optional<std::uint64_t> rotation{};  // Each turn of a rotation records other workers.
  // The request does not say which workers. Of replicas of a service, some are recorded and never
  // all, because recording holds up requests.
  bool some_replicas = false;
  std::vector<int> ranks{};
  std::vector<std::uint32_t> local_ranks{};  // Only these processes of each pod; empty = all.
};

// "kind/name", and the group where the kind alone does not tell it: "Job.batch.volcano.sh/name".
std::string JobText(const kube::JobRef& job);
// The job that a target names: JobText of its jobRef, else "Pod/a,b" or "Selector/app=train". Which
// of the workers are recorded makes no difference. Bounded: a longer text ends with a hash.
std::string TargetText(const TargetSpec& target);
// The text of a request's only target or, for several, "prefill=Deployment/a,decode=Deployment/b",
// bounded likewise.
std::string TextOfTargets(std::span<const TargetSpec> targets);
// The value of kTriggeredJobLabel.
std::string JobHash(std::string_view job);

}  // namespace strobe::job

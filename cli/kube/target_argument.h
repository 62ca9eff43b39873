// The workers that a command line names: "job/llm", "pods/a", or labels. Pure.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace strobe::cluster {

// Makes the spec.target. Exactly one of `names` and `selector` must be given; `names` are either
// one job, or pods. A kind may be written as kubectl takes it: "job", "jobs", "Job",
// "jobs.batch.volcano.sh", "sts". InvalidArgument says what to write instead.
absl::StatusOr<nlohmann::ordered_json> TargetOf(const std::vector<std::string>& names,
                                                const std::string& selector);

// Whether a word names a target, such as "prefill=deploy/vllm-p".
bool HasTargetName(const std::vector<std::string>& words);

// Makes the spec.targets of words such as "prefill=deploy/vllm-p" and "decode=app=vllm-d". All must
// have a name; several pods may have the same. InvalidArgument says what to write instead.
absl::StatusOr<nlohmann::ordered_json> NamedTargetsOf(const std::vector<std::string>& words);

// All kinds as people write them, in lower case and with "pod"; for completion.
std::vector<std::string> KindWords();

// "job/llm" and "decode=job/llm" -> "llm", "decode=app=llm" -> "decode"; of several names the
// first.
std::string NameOfTarget(const std::vector<std::string>& names);

}  // namespace strobe::cluster

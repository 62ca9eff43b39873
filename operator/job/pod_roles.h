// What a pod does in its service or job, such as "prefill", as others say it. Pure.
#pragma once
#include <string>
#include <string_view>

#include "operator/job/pod.h"

namespace strobe::job {

struct PodRole {
  std::string role{};  // Empty = nobody says it.
  std::string from{};  // Who says it, human-readable: "label llm-d.ai/role".
};

// Whether a label with this key tells a role: those of llm-d, NVIDIA Dynamo, RBG, Kthena and
// AIBrix.
bool IsRoleKey(std::string_view key);

// Labels count before the server's own options.
PodRole RoleOf(const PodInfo& pod);

// The role in a disaggregated service that the options of vLLM (--kv-transfer-config) or SGLang
// (--disaggregation-mode) say: "prefill", "decode", or empty. vLLM's kv_both says neither.
std::string RoleInCommand(std::string_view line);

}  // namespace strobe::job

#include "operator/job/pod_roles.h"

#include <algorithm>
#include <array>

#include "common/base/strings.h"

namespace strobe::job {
namespace {

struct RoleLabel {
  std::string_view key;
  // A key that any program may use for its own purposes counts only with these values.
  bool only_known = false;
};

// The first one that a pod has counts.
constexpr std::array kRoleLabels = {
    RoleLabel{.key = "llm-d.ai/role"},
    RoleLabel{.key = "nvidia.com/dynamo-sub-component-type"},
    RoleLabel{.key = "nvidia.com/dynamo-component-type"},
    RoleLabel{.key = "rbg.workloads.x-k8s.io/role-name"},
    RoleLabel{.key = "rolebasedgroup.workloads.x-k8s.io/role"},
    RoleLabel{.key = "modelserving.volcano.sh/role"},
    RoleLabel{.key = "role-name", .only_known = true},  // AIBrix.
};

bool IsPrefillOrDecode(std::string_view role) { return role == "prefill" || role == "decode"; }

// The word that follows `option` in the line, without what is between them, such as "=" or quotes.
std::string_view WordAfter(std::string_view line, std::string_view option) {
  const auto in_word = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  };
  const std::size_t at = line.find(option);
  if (at == std::string_view::npos) return "";
  line.remove_prefix(at + option.size());
  const auto begin = std::find_if(line.begin(), line.end(), in_word);
  const auto end = std::find_if_not(begin, line.end(), in_word);
  // Farther away it belongs to something else.
  constexpr std::ptrdiff_t kMaxBetween = 8;
  if (begin - line.begin() > kMaxBetween) return "";
  return line.substr(static_cast<std::size_t>(begin - line.begin()),
                     static_cast<std::size_t>(end - begin));
}

}  // namespace

bool IsRoleKey(std::string_view key) {
  return std::any_of(kRoleLabels.begin(), kRoleLabels.end(),
                     [key](const RoleLabel& label) { return label.key == key; });
}

std::string RoleInCommand(std::string_view line) {
  const std::string_view mode = WordAfter(line, "--disaggregation-mode");
  if (IsPrefillOrDecode(mode)) return std::string(mode);
  const std::string_view kv_role = WordAfter(line, "kv_role");
  if (kv_role == "kv_producer") return "prefill";
  return kv_role == "kv_consumer" ? "decode" : "";
}

PodRole RoleOf(const PodInfo& pod) {
  for (const RoleLabel& label : kRoleLabels) {
    const auto found = pod.labels.find(std::string(label.key));
    if (found == pod.labels.end() || found->second.empty()) continue;
    if (label.only_known && !IsPrefillOrDecode(found->second)) continue;
    return {found->second, StrCat("label ", label.key)};
  }
  for (const std::string& name : pod.trainers) {
    const ContainerInfo* container = FindContainer(pod, name);
    if (container != nullptr && !container->role.empty())
      return {container->role, StrCat("command of container ", name)};
  }
  return {};
}

}  // namespace strobe::job

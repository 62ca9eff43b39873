#include "operator/job/pod_env.h"

#include <optional>
#include <string_view>

#include "operator/base/json_members.h"
#include "operator/job/ranks.h"

namespace strobe::kube {
namespace {

using Json = nlohmann::json;
using Values = std::map<std::string, std::string>;

// References can multiply a text, and no rank is longer.
constexpr std::size_t kMaxExpandedBytes = 1024;

std::optional<std::string> LookUp(const Values& values, const std::string& key) {
  const auto found = values.find(key);
  return found == values.end() ? std::nullopt : std::optional(found->second);
}

// Returns the key in a path such as "metadata.labels['key']"; nothing for another path.
std::optional<std::string> KeyOf(std::string_view path, std::string_view map) {
  if (!path.starts_with(map) || !path.ends_with("']")) return std::nullopt;
  path.remove_prefix(map.size());
  if (!path.starts_with("['") || path.size() < 4) return std::nullopt;
  return std::string(path.substr(2, path.size() - 4));
}

std::optional<std::string> Field(const std::string& path, const PodInfo& pod) {
  if (path == "metadata.name") return pod.name;
  if (path == "metadata.uid") return pod.uid;
  // Kubernetes resolves a missing label to an empty text.
  if (const auto key = KeyOf(path, "metadata.labels")) return LookUp(pod.labels, *key).value_or("");
  if (const auto key = KeyOf(path, "metadata.annotations"))
    return LookUp(pod.annotations, *key).value_or("");
  return std::nullopt;
}

// Expands references as Kubernetes does; "$$" is "$". Nothing if a referenced variable is not
// known.
std::optional<std::string> Expand(const std::string& text, const Values& before) {
  if (text.find('$') == std::string::npos) return text;
  std::string expanded;
  for (std::size_t i = 0; i < text.size(); ++i) {
    // NOLINTNEXTLINE(bugprone-branch-clone): the last branch is what remains of the syntax.
    if (text[i] != '$' || i + 1 == text.size()) {
      expanded += text[i];
    } else if (text[i + 1] == '$') {
      expanded += text[++i];
    } else if (const std::size_t end = text.find(')', i);
               text[i + 1] == '(' && end != std::string::npos) {
      const auto value = LookUp(before, text.substr(i + 2, end - i - 2));
      if (!value) return std::nullopt;
      expanded += *value;
      i = end;
    } else {
      expanded += text[i];
    }
    if (expanded.size() > kMaxExpandedBytes) return std::nullopt;
  }
  return expanded;
}

std::optional<std::string> ValueOf(const Json& variable, const Values& before, const PodInfo& pod) {
  const Json& from = ObjectOf(variable, "valueFrom");
  if (from.empty()) return Expand(variable.value("value", ""), before);
  if (!from.contains("fieldRef")) return std::nullopt;
  return Field(from["fieldRef"].value("fieldPath", ""), pod);
}

}  // namespace

std::map<std::string, std::string> ReadRankVariables(const Json& container, const PodInfo& pod) {
  Values values;
  for (const Json& variable : ElementsOf(container, "env")) {
    const std::string name = variable.value("name", "");
    // The last variable of a name applies, even if its value is not known.
    if (std::optional<std::string> value = ValueOf(variable, values, pod))
      values[name] = *std::move(value);
    else
      values.erase(name);
  }
  std::erase_if(values, [](const auto& entry) { return !IsRankVariable(entry.first); });
  return values;
}

}  // namespace strobe::kube

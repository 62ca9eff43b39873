#include "cli/kube/target_argument.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <utility>

#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "operator/base/job_kinds.h"

namespace strobe::cluster {
namespace {

using Json = nlohmann::ordered_json;

// kubectl's short names of the kinds that have one; see `kubectl api-resources`.
constexpr std::array<std::pair<std::string_view, std::string_view>, 5> kShortNames = {
    {{"sts", "statefulset"},
     {"ds", "daemonset"},
     {"rs", "replicaset"},
     {"deploy", "deployment"},
     {"po", "pod"}}};

std::string Lower(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return lower;
}

struct Argument {
  std::string kind{}, group{}, name{};  // `kind` in lower case, a long name.
};

absl::StatusOr<Argument> Parse(const std::string& text) {
  const std::size_t slash = text.find('/');
  if (slash == std::string::npos || slash == 0 || slash + 1 == text.size() ||
      text.find('/', slash + 1) != std::string::npos) {
    return absl::InvalidArgumentError(
        StrCat("\"", text,
               "\" does not name a worker; write KIND/NAME, such as job/llm, or pod/llm-0, or give "
               "labels with --selector"));
  }
  Argument argument{.kind = Lower(std::string_view(text).substr(0, slash)),
                    .name = text.substr(slash + 1)};
  if (const std::size_t dot = argument.kind.find('.'); dot != std::string::npos) {
    argument.group = argument.kind.substr(dot + 1);
    argument.kind.resize(dot);
  }
  for (const auto& [shorter, longer] : kShortNames) {
    if (argument.kind == shorter) argument.kind = std::string(longer);
  }
  return argument;
}

bool IsPod(const Argument& argument) {
  return (argument.kind == "pod" || argument.kind == "pods") && argument.group.empty();
}

absl::StatusOr<Json> JobOf(const Argument& argument) {
  for (const kube::JobKind& kind : kube::AllJobKinds()) {
    // kind.plural cannot be used: a TrainJob is read as a JobSet, so the table has that kind's
    // plural.
    const std::string word = Lower(kind.kind);
    if (argument.kind != word && argument.kind != word + "s") continue;
    if (!argument.group.empty() && kind.group != argument.group) continue;
    Json job = Json::object();
    // Without a group, the operator takes the first kind of this name.
    if (!argument.group.empty())
      job["apiVersion"] = StrCat(kind.group, "/", Split(kind.versions, ',').front());
    job["kind"] = kind.kind;
    job["name"] = argument.name;
    return Json{{"jobRef", std::move(job)}};
  }
  return absl::InvalidArgumentError(StrCat("the kind ", argument.kind,
                                           argument.group.empty() ? "" : ".", argument.group,
                                           " is not known; use one of ", Join(KindWords(), ", "),
                                           ", or choose the pods by their labels with --selector"));
}

// "app=train,tier!=web" as a label selector of the API. Sets, such as "a in (b,c)", are left to
// files.
absl::StatusOr<Json> SelectorOf(const std::string& text) {
  Json labels = Json::object(), expressions = Json::array();
  for (const std::string& part : Split(text, ',')) {
    const std::size_t equals = part.find('=');
    if (equals == 0 || equals == std::string::npos || part.find_first_of(" ()") != part.npos) {
      return absl::InvalidArgumentError(
          StrCat("--selector \"", text,
                 "\" must be labels such as app=train or app=train,tier!=web; write other "
                 "selectors into a file for --from"));
    }
    std::string key = part.substr(0, equals), value = part.substr(equals + 1);
    if (value.starts_with('=')) value.erase(0, 1);
    if (key.ends_with('!')) {
      key.pop_back();
      expressions.push_back({{"key", key}, {"operator", "NotIn"}, {"values", {value}}});
    } else {
      labels[key] = value;
    }
  }
  Json selector = Json::object();
  if (!labels.empty()) selector["matchLabels"] = std::move(labels);
  if (!expressions.empty()) selector["matchExpressions"] = std::move(expressions);
  return Json{{"selector", std::move(selector)}};
}

}  // namespace

absl::StatusOr<Json> TargetOf(const std::vector<std::string>& names, const std::string& selector) {
  if (names.empty() == selector.empty()) {
    return absl::InvalidArgumentError(
        "name the workers either as KIND/NAME, such as job/llm, or by --selector");
  }
  if (!selector.empty()) return SelectorOf(selector);
  ASSIGN_OR_RETURN(const Argument first, Parse(names.front()));
  if (!IsPod(first)) {
    if (names.size() == 1) return JobOf(first);
    return absl::InvalidArgumentError(
        "a capture records one job; name one job, or several pods as pod/NAME, or use --selector");
  }
  Json pods = Json::array();
  for (const std::string& name : names) {
    ASSIGN_OR_RETURN(const Argument pod, Parse(name));
    if (!IsPod(pod)) {
      return absl::InvalidArgumentError(StrCat(
          "\"", name, "\" is not a pod; a capture records one job, or pods given as pod/NAME"));
    }
    pods.push_back(pod.name);
  }
  return Json{{"pods", std::move(pods)}};
}

bool HasTargetName(const std::vector<std::string>& words) {
  return std::any_of(words.begin(), words.end(),
                     [](const std::string& word) { return Contains(word, "="); });
}

absl::StatusOr<Json> NamedTargetsOf(const std::vector<std::string>& words) {
  std::vector<std::string> names;
  std::map<std::string, std::vector<std::string>> workers;  // By target.
  for (const std::string& word : words) {
    const std::size_t equals = word.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == word.size()) {
      return absl::InvalidArgumentError(
          StrCat("\"", word,
                 "\" does not name a target; write NAME=KIND/NAME for each, such as "
                 "prefill=deploy/vllm-p, or NAME=LABELS, such as decode=app=vllm-d"));
    }
    const std::string name = word.substr(0, equals);
    if (!workers.contains(name)) names.push_back(name);
    workers[name].push_back(word.substr(equals + 1));
  }
  Json targets = Json::array();
  for (const std::string& name : names) {
    const std::vector<std::string>& of = workers[name];
    // No kind and no name of an object has this character.
    const bool labels = of.size() == 1 && Contains(of.front(), "=");
    ASSIGN_OR_RETURN(const Json chosen, labels ? TargetOf({}, of.front()) : TargetOf(of, ""));
    Json target = {{"name", name}};
    target.update(chosen);
    targets.push_back(std::move(target));
  }
  return targets;
}

std::vector<std::string> KindWords() {
  std::vector<std::string> words = {"pod"};
  for (const kube::JobKind& kind : kube::AllJobKinds()) {
    std::string word = Lower(kind.kind);
    if (std::find(words.begin(), words.end(), word) == words.end())
      words.push_back(std::move(word));
  }
  return words;
}

std::string NameOfTarget(const std::vector<std::string>& names) {
  if (names.empty()) return "";
  const std::string& first = names.front();
  const std::size_t equals = first.find('=');
  if (equals != std::string::npos && first.find('=', equals + 1) != std::string::npos)
    return first.substr(0, equals);
  return first.substr(first.find('/') + 1);
}

}  // namespace strobe::cluster

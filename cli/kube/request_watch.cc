#include "cli/kube/request_watch.h"

#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/text/safe_text.h"
#include "operator/base/json_fields.h"
#include "operator/base/names.h"
#include "operator/objects/request.h"

namespace strobe::cluster {
namespace {

constexpr int kMaxFailures = 20;

// Leaves values alone that are nested deeper than those of API objects.
void RemoveControls(nlohmann::json& value, int depth = 0) {
  constexpr int kDeepest = 64;
  if (value.is_string()) {
    std::string& text = value.get_ref<std::string&>();
    text = WithoutControls(text);
  } else if (value.is_structured() && depth < kDeepest) {
    for (nlohmann::json& inner : value) RemoveControls(inner, depth + 1);
  }
}

absl::Status Deleted(const std::string& name) {
  return absl::NotFoundError(StrCat("the request ", name, " was deleted"));
}

}  // namespace

absl::StatusOr<nlohmann::json> ParseJson(const std::string& text) {
  nlohmann::json json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded())
    return absl::DataLossError(StrCat("kubectl wrote no JSON: ", text.substr(0, 200)));
  RemoveControls(json);
  return json;
}

nlohmann::json ParseJsonObjects(const std::string& text) {
  nlohmann::json objects = nlohmann::json::array();
  std::string object;
  for (const std::string& line : Split(text, '\n')) {
    object += line + "\n";
    if (line != "}") continue;
    nlohmann::json parsed = nlohmann::json::parse(object, nullptr, false);
    RemoveControls(parsed);
    if (!parsed.is_discarded()) objects.push_back(std::move(parsed));
    object.clear();
  }
  return objects;
}

absl::StatusOr<objects::ProfileRequest> ParseRequestText(const std::string& text) {
  ASSIGN_OR_RETURN(const nlohmann::json object, ParseJson(text));
  return objects::ParseRequest(object);
}

absl::StatusOr<objects::ProfileRequest> GetRequest(Kubectl& kubectl, const std::string& name) {
  ASSIGN_OR_RETURN(const std::string text,
                   Output(kubectl, {"get", kube::kRequestsDefinition, name, "--output=json"}));
  return ParseRequestText(text);
}

absl::StatusOr<std::vector<objects::ProfileRequest>> ListRequests(Kubectl& kubectl,
                                                                  bool all_namespaces) {
  std::vector<std::string> arguments = {"get", kube::kRequestsDefinition, "--output=json"};
  if (all_namespaces) arguments.emplace_back("--all-namespaces");
  ASSIGN_OR_RETURN(const std::string text, Output(kubectl, arguments));
  ASSIGN_OR_RETURN(const nlohmann::json list, ParseJson(text));
  std::vector<objects::ProfileRequest> requests;
  for (const nlohmann::json& item : kube::Member(list, "items")) {
    absl::StatusOr<objects::ProfileRequest> request = objects::ParseRequest(item);
    if (request.ok()) requests.push_back(*std::move(request));
  }
  return requests;
}

absl::Status CancelRequest(Kubectl& kubectl, const std::string& name) {
  return Output(kubectl, {"patch", kube::kRequestsDefinition, name, "--type=merge",
                          R"(--patch={"spec":{"cancel":true}})"})
      .status();
}

absl::Status WatchRequest(Kubectl& kubectl, const std::string& name, const std::string& uid,
                          const WatchHooks& hooks) {
  bool ended = false;
  absl::Status end;
  int failures = 0;
  // kubectl writes each event as one line; see JSONPrinter in k8s.io/cli-runtime/pkg/printers.
  const auto line = [&](std::string_view text) {
    nlohmann::json event = nlohmann::json::parse(text, nullptr, false);
    RemoveControls(event);
    const nlohmann::json& object = kube::Member(event, "object");
    const absl::StatusOr<objects::ProfileRequest> request = objects::ParseRequest(object);
    if (!object.is_object() || !request.ok()) return true;
    failures = 0;
    if (kube::TextOf(event, "type") == "DELETED" || request->uid != uid) {
      ended = true;
      end = Deleted(name);
    } else {
      ended = !hooks.seen(*request);
    }
    return !ended;
  };
  const auto tick = [&] {
    ended = ended || !hooks.tick();
    return !ended;
  };
  while (!ended) {
    ASSIGN_OR_RETURN(const KubectlResult result,
                     kubectl.Follow({"get", kube::kRequestsDefinition, name, "--watch",
                                     "--output-watch-events", "--output=json"},
                                    line, tick));
    if (ended) break;
    const absl::Status status = StatusOf(result);
    if (absl::IsNotFound(status)) return Deleted(name);
    if (absl::IsPermissionDenied(status) || ++failures >= kMaxFailures) return status;
    ended = !hooks.pause();
  }
  return end;
}

}  // namespace strobe::cluster

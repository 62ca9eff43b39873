#include "operator/admission/trainer_variables.h"

#include <algorithm>
#include <utility>

#include "common/base/strings.h"
#include "operator/admission/sidecar_spec.h"
#include "operator/base/json_fields.h"
#include "operator/base/names.h"
#include "operator/job/pod.h"

namespace strobe::admission {
namespace {

using Json = nlohmann::json;

using kube::FindVariable;
using kube::MaySetFromElsewhere;
using kube::Member;
using kube::TextOf;
using kube::VariableOf;

constexpr char kPluginVariable[] = "NCCL_PROFILER_PLUGIN";

// An environment variable to add. `otherwise` says what follows if the container sets another
// value.
struct Variable {
  std::string name, value, otherwise = "the mount is not changed";
  bool is_list = false;   // Folders, separated by colons; ours comes after the container's own.
  bool replaces = false;  // The container's own value is kept in another variable.
};

bool Lists(const std::string& list, char separator, const std::string& item) {
  const std::vector<std::string> all = Split(list, separator);
  return std::find(all.begin(), all.end(), item) != all.end();
}

// Returns the variables with which processes with PyTorch find the sidecar as Kineto's daemon. If
// they would look for another daemon, returns none and adds a warning.
std::vector<Variable> KinetoVariables(const Json& container, bool host_network,
                                      std::vector<std::string>& warnings) {
  const std::optional<std::string> sockets = kube::VariableOf(container, "KINETO_IPC_SOCKET_DIR");
  if (sockets && (!host_network || *sockets != kKinetoPath)) {
    warnings.push_back(StrCat("container ", kube::TextOf(container, "name"),
                              " sets KINETO_IPC_SOCKET_DIR itself; strobe.dev/kineto-daemon is "
                              "ignored for it, remove that variable"));
    return {};
  }
  if (!sockets && !host_network && kube::MaySetFromElsewhere(container, "KINETO_IPC_SOCKET_DIR")) {
    warnings.push_back(StrCat("container ", kube::TextOf(container, "name"),
                              " has envFrom; if that sets KINETO_IPC_SOCKET_DIR, "
                              "strobe.dev/kineto-daemon does nothing"));
  }
  std::vector<Variable> variables = {
      {"KINETO_USE_DAEMON", "1", "it is not changed"},
      {"KINETO_CONFIG", StrCat(kKinetoPath, "/libkineto.conf"),
       "captures begin sooner if that file has ON_DEMAND_CONFIG_UPDATE_INTERVAL_SECS=1"},
      {"KINETO_ONDEMAND_TRACE_DIR", StrCat(kKinetoPath, "/"),
       "PyTorch 2.15 and newer write their traces there, where the sidecar does not find them"}};
  if (host_network) variables.push_back({"KINETO_IPC_SOCKET_DIR", kKinetoPath});
  return variables;
}

// Returns the variables by which NCCL and RCCL load the agent as their profiler plugin. The plugin
// that the container names itself becomes the one behind ours; see agent/nccl.
std::vector<Variable> CollectiveVariables(const Json& container, const std::string& asked,
                                          std::vector<std::string>& warnings) {
  const std::string plugin = kAgentLibrary;
  const std::optional<std::string> set = kube::VariableOf(container, kPluginVariable);
  const auto ignored = [&](std::string_view why) {
    warnings.push_back(StrCat("container ", kube::TextOf(container, "name"), " sets ",
                              kPluginVariable, " ", why, "; ", kube::kCollectivesAnnotation,
                              " is ignored for it"));
    return std::vector<Variable>{};
  };
  if (set && (*set == "none" || *set == "NONE")) return ignored("to none");
  if (const auto at = kube::FindVariable(container, kPluginVariable);
      at && !kube::Member(kube::Member(container, "env")[*at], "valueFrom").is_null())
    return ignored("from elsewhere");
  std::vector<Variable> variables = {{"STROBE_COLLECTIVES", asked}};
  const bool elsewhere = !set && kube::MaySetFromElsewhere(container, kPluginVariable);
  // Kubernetes replaces the reference by what envFrom sets, and leaves it if that sets nothing.
  if (elsewhere)
    variables.push_back({"STROBE_NCCL_CHAIN", StrCat("$(", kPluginVariable, ")")});
  else if (set && *set != plugin)
    variables.push_back({"STROBE_NCCL_CHAIN", *set, "its own plugin is not loaded"});
  variables.push_back({.name = kPluginVariable, .value = plugin, .replaces = true});
  return variables;
}

// The variables that the container is to have.
std::vector<Variable> VariablesFor(const Json& container, const TrainerOptions& options,
                                   bool mounts_instead, std::vector<std::string>& warnings) {
  const std::string name = kube::TextOf(container, "name");
  std::vector<Variable> variables = {{"STROBE_DIR", kSharedPath}};
  if (!options.alone) variables.push_back({"STROBE_CONTAINER", name});
  // There the whole node shares the loopback, so no profiler server may be opened on it.
  if (options.host_network)
    variables.push_back({"STROBE_HOST_NETWORK", "true",
                         "other programs of the node may reach its profiler server"});
  if (!options.disabled.empty())
    variables.push_back(
        {"STROBE_DISABLE", options.disabled, "strobe.dev/disable has no effect on it"});
  const bool has_agent =
      job::DevicesOf(container).maybe_cuda && !Lists(options.disabled, ',', "agent");
  if (has_agent) variables.push_back({"CUDA_INJECTION64_PATH", kAgentLibrary});
  if (options.python) {
    variables.push_back({.name = "PYTHONPATH",
                         .value = StrCat(kSharedPath, "/python"),
                         .otherwise = "unmodified trainers are not found",
                         .is_list = true});
  }
  if (!options.ports_to_close.empty()) {
    variables.push_back({"STROBE_CLOSE_PROFILER_PORT", options.ports_to_close});
    if (!has_agent && !options.python) {
      warnings.push_back(StrCat("strobe.dev/close-profiler-port: container ", name,
                                " has no CUDA, or not the agent; there it needs "
                                "strobe.dev/python: \"true\""));
    }
    if (options.host_network) {
      warnings.push_back(StrCat("strobe.dev/close-profiler-port: container ", name,
                                " is on the host's network, where other programs of the node "
                                "still reach these ports over its loopback"));
    }
  }
  if (!options.collectives.empty() && !mounts_instead &&
      !Lists(options.disabled, ',', "collectives")) {
    const std::vector<Variable> more =
        CollectiveVariables(container, options.collectives, warnings);
    variables.insert(variables.end(), more.begin(), more.end());
  }
  if (options.kineto && !mounts_instead) {
    const std::vector<Variable> more = KinetoVariables(container, options.host_network, warnings);
    variables.insert(variables.end(), more.begin(), more.end());
  }
  return variables;
}

}  // namespace

std::vector<VariableChange> ChangeVariables(const Json& container, const TrainerOptions& options,
                                            bool mounts_instead,
                                            std::vector<std::string>& warnings) {
  const std::string name = kube::TextOf(container, "name");
  std::vector<VariableChange> changes;
  std::vector<std::string> hidden;
  for (Variable& variable : VariablesFor(container, options, mounts_instead, warnings)) {
    const std::optional<std::string> set = kube::VariableOf(container, variable.name);
    if (!set && !kube::MaySetFromElsewhere(container, variable.name)) {
      changes.push_back({{}, variable.name, variable.value});
    } else if (!set && variable.is_list) {
      // Kubernetes replaces the reference by what envFrom sets.
      changes.push_back({{}, variable.name, StrCat("$(", variable.name, "):", variable.value)});
    } else if (variable.replaces) {
      if (set != variable.value)
        changes.push_back(
            {kube::FindVariable(container, variable.name), variable.name, variable.value});
    } else if (!set) {
      hidden.push_back(variable.name);
      changes.push_back({{}, variable.name, variable.value});
    } else if (variable.is_list && !set->empty()) {
      if (!Lists(*set, ':', variable.value))
        changes.push_back({kube::FindVariable(container, variable.name), variable.name,
                           StrCat(*set, ":", variable.value)});
    } else if (*set != variable.value) {
      warnings.push_back(
          StrCat("container ", name, " sets ", variable.name, " itself; ", variable.otherwise));
    }
  }
  if (!hidden.empty())
    warnings.push_back(StrCat("container ", name, " has envFrom; what that sets of ",
                              Join(hidden, ", "), " is hidden, set it in env to keep it"));
  return changes;
}

}  // namespace strobe::admission

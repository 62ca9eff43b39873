#include "operator/admission/trainer_variables.h"

#include <gmock/gmock.h>

#include <map>

#include "common/base/strings.h"

namespace strobe::admission {
namespace {

using Json = nlohmann::json;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;

using Values = std::map<std::string, std::string>;

// The environment as the kubelet makes it (makeEnvironment in pkg/kubelet/kubelet_pods.go of
// Kubernetes 1.34), with what the ConfigMaps of `envFrom` hold: these come first, each variable of
// `env` replaces what has its name, and "$(NAME)" is replaced by a variable before it.
Values Kubelet(const Json& container, const std::map<std::string, Values>& config_maps) {
  Values values;
  for (const Json& source : container.value("envFrom", Json::array())) {
    for (const auto& [key, value] : config_maps.at(source["configMapRef"]["name"]))
      values[source.value("prefix", "") + key] = value;
  }
  for (const Json& variable : container.value("env", Json::array())) {
    std::string value =
        variable.contains("valueFrom") ? "of a Secret" : variable.value("value", "");
    for (const auto& [name, before] : values) {
      const std::string reference = "$(" + name + ")";
      for (std::size_t at = 0; (at = value.find(reference, at)) != std::string::npos;)
        value.replace(at, reference.size(), before), at += before.size();
    }
    values[variable["name"]] = value;
  }
  return values;
}

Json Changed(Json container, const TrainerOptions& options, std::vector<std::string>& warnings) {
  for (const VariableChange& change : ChangeVariables(container, options, false, warnings)) {
    if (change.at)
      container["env"][*change.at]["value"] = change.value;
    else
      container["env"].push_back({{"name", change.name}, {"value", change.value}});
  }
  return container;
}

const TrainerOptions kAll{.alone = false,
                          .python = true,
                          .kineto = true,
                          .host_network = true,
                          .ports_to_close = "9012",
                          .disabled = "keep-cupti"};
constexpr const char* kNames[] = {"STROBE_DIR",
                                  "STROBE_CONTAINER",
                                  "STROBE_HOST_NETWORK",
                                  "STROBE_DISABLE",
                                  "CUDA_INJECTION64_PATH",
                                  "PYTHONPATH",
                                  "STROBE_CLOSE_PROFILER_PORT",
                                  "KINETO_USE_DAEMON",
                                  "KINETO_CONFIG",
                                  "KINETO_ONDEMAND_TRACE_DIR",
                                  "KINETO_IPC_SOCKET_DIR"};

// Regression: variables of envFrom and all but the first of a name were not seen, so that the
// trainer's own PYTHONPATH was hidden without a word.
TEST(ChangeVariables, HidesNothingThatKubernetesGivesTheTrainerWithoutAWarning) {
  const std::vector<std::pair<const char*, Json (*)(const std::string&)>> ways = {
      {"env",
       [](const std::string& name) {
         return Json{{"env", {{{"name", name}, {"value", "mine"}}}}};
       }},
      {"env, the last of two",
       [](const std::string& name) {
         return Json{{"env",
                      {{{"name", name}, {"value", "old"}},
                       {{"name", "A"}, {"value", "a"}},
                       {{"name", name}, {"value", "mine"}}}}};
       }},
      {"env, ours before the user's",
       [](const std::string& name) {
         return Json{
             {"env",
              {{{"name", name}, {"value", "/var/strobe"}}, {{"name", name}, {"value", "mine"}}}}};
       }},
      {"a Secret",
       [](const std::string& name) {
         return Json{
             {"env", {{{"name", name}, {"valueFrom", {{"secretKeyRef", {{"name", "s"}}}}}}}}};
       }},
      {"a Secret, the last of two",
       [](const std::string& name) {
         return Json{{"env",
                      {{{"name", name}, {"value", "old"}},
                       {{"name", name}, {"valueFrom", {{"secretKeyRef", {{"name", "s"}}}}}}}}};
       }},
      {"envFrom",
       [](const std::string& name) {
         return Json{{"envFrom", {{{"configMapRef", {{"name", name}}}}}}};
       }},
      {"envFrom with a prefix", [](const std::string& name) {
         return Json{
             {"envFrom",
              {{{"configMapRef", {{"name", name + "-rest"}}}, {"prefix", name.substr(0, 3)}}}}};
       }}};
  std::map<std::string, Values> config_maps;
  for (const std::string name : kNames)
    config_maps[name] = {{name, "mine"}}, config_maps[name + "-rest"] = {{name.substr(3), "mine"}};
  for (const std::string name : kNames) {
    for (const auto& [way, make] : ways) {
      Json container = make(name);
      container["name"] = "train";
      std::vector<std::string> warnings;
      const Json changed = Changed(container, kAll, warnings);
      const std::string before = Kubelet(container, config_maps).at(name);
      const std::string after = Kubelet(changed, config_maps).at(name);
      const bool kept = after == before || after == before + ":/var/strobe/python";
      EXPECT_TRUE(kept || Join(warnings, ";").find(name) != std::string::npos)
          << name << " by " << way << ": " << before << " became " << after;
      std::vector<std::string> again;
      EXPECT_EQ(Changed(changed, kAll, again), changed) << name << " by " << way;
    }
  }
}

TEST(ChangeVariables, APythonPathFromAConfigMapStaysInFront) {
  Json container = {{"name", "train"}, {"envFrom", {{{"configMapRef", {{"name", "paths"}}}}}}};
  const TrainerOptions python{.python = true};
  const std::map<std::string, Values> config_maps = {{"paths", {{"PYTHONPATH", "/app"}}}};
  std::vector<std::string> warnings;
  const Json changed = Changed(container, python, warnings);
  EXPECT_EQ(Kubelet(changed, config_maps).at("PYTHONPATH"), "/app:/var/strobe/python");
  EXPECT_THAT(warnings, Contains(HasSubstr("CUDA_INJECTION64_PATH"))) << "one of those is hidden";
  // Its variables all have other names.
  container["envFrom"][0]["prefix"] = "APP_";
  warnings.clear();
  EXPECT_EQ(Kubelet(Changed(container, python, warnings), config_maps).at("PYTHONPATH"),
            "/var/strobe/python");
  EXPECT_THAT(warnings, IsEmpty());
}

TEST(ChangeVariables, TheLastOfTwoPathsIsExtended) {
  const Json container = {{"name", "train"},
                          {"env",
                           {{{"name", "PYTHONPATH"}, {"value", "/old"}},
                            {{"name", "PYTHONPATH"}, {"value", "$(PYTHONPATH):/app"}}}}};
  std::vector<std::string> warnings;
  const Json changed = Changed(container, {.python = true}, warnings);
  EXPECT_EQ(Kubelet(changed, {}).at("PYTHONPATH"), "/old:/app:/var/strobe/python");
  EXPECT_THAT(warnings, IsEmpty());
}

// On its own network, a pod has Kineto's sockets in its own namespace; a variable that injection
// does not write would lead its processes elsewhere.
TEST(ChangeVariables, ASocketFolderFromElsewhereIsAWarning) {
  const Json container = {{"name", "train"}, {"envFrom", {{{"secretRef", {{"name", "s"}}}}}}};
  std::vector<std::string> warnings;
  Changed(container, {.kineto = true}, warnings);
  EXPECT_THAT(warnings, Contains(HasSubstr("KINETO_IPC_SOCKET_DIR")));
}

constexpr char kAgent[] = "/var/strobe/lib/libstrobe_agent.so";

TEST(ChangeVariables, NcclLoadsTheAgentWhereThePodAsksForIt) {
  const Json container = {{"name", "train"}};
  std::vector<std::string> warnings;
  EXPECT_FALSE(Kubelet(Changed(container, {}, warnings), {}).contains("NCCL_PROFILER_PLUGIN"));
  const Values values = Kubelet(Changed(container, {.collectives = "times"}, warnings), {});
  EXPECT_EQ(values.at("NCCL_PROFILER_PLUGIN"), kAgent);
  EXPECT_EQ(values.at("STROBE_COLLECTIVES"), "times");
  EXPECT_FALSE(values.contains("STROBE_NCCL_CHAIN"));
  const TrainerOptions disabled{.disabled = "steps,collectives", .collectives = "times"};
  EXPECT_FALSE(
      Kubelet(Changed(container, disabled, warnings), {}).contains("NCCL_PROFILER_PLUGIN"));
  EXPECT_THAT(warnings, IsEmpty());
}

// The agent loads it behind itself, so that it gets the events that it would get alone.
TEST(ChangeVariables, AnotherPluginIsKeptBehindTheAgent) {
  const TrainerOptions options{.collectives = "calls"};
  const std::map<std::string, Values> config_maps = {{"nccl", {{"NCCL_PROFILER_PLUGIN", "comma"}}},
                                                     {"empty", {}}};
  Json own = {{"name", "train"},
              {"env", {{{"name", "NCCL_PROFILER_PLUGIN"}, {"value", "/opt/comma.so"}}}}};
  std::vector<std::string> warnings;
  const Json changed = Changed(own, options, warnings);
  EXPECT_EQ(Kubelet(changed, {}).at("NCCL_PROFILER_PLUGIN"), kAgent);
  EXPECT_EQ(Kubelet(changed, {}).at("STROBE_NCCL_CHAIN"), "/opt/comma.so");
  EXPECT_EQ(Changed(changed, options, warnings), changed) << "the API server may call again";

  Json from = {{"name", "train"}, {"envFrom", {{{"configMapRef", {{"name", "nccl"}}}}}}};
  const Json added = Changed(from, options, warnings);
  EXPECT_EQ(Kubelet(added, config_maps).at("NCCL_PROFILER_PLUGIN"), kAgent);
  EXPECT_EQ(Kubelet(added, config_maps).at("STROBE_NCCL_CHAIN"), "comma");
  EXPECT_EQ(Changed(added, options, warnings), added);
  from["envFrom"][0]["configMapRef"]["name"] = "empty";
  EXPECT_EQ(Kubelet(Changed(from, options, warnings), config_maps).at("STROBE_NCCL_CHAIN"),
            "$(NCCL_PROFILER_PLUGIN)")
      << "the agent takes that for none";
  for (const std::string& warning : warnings)
    EXPECT_THAT(warning, testing::Not(HasSubstr("NCCL_PROFILER_PLUGIN"))) << "nothing is lost";
}

TEST(ChangeVariables, APodThatWantsNoPluginGetsNone) {
  const TrainerOptions options{.collectives = "calls"};
  for (const Json& variable : {Json{{"name", "NCCL_PROFILER_PLUGIN"}, {"value", "none"}},
                               Json{{"name", "NCCL_PROFILER_PLUGIN"},
                                    {"valueFrom", {{"secretKeyRef", {{"name", "s"}}}}}}}) {
    const Json container = {{"name", "train"}, {"env", Json::array({variable})}};
    std::vector<std::string> warnings;
    const Values values = Kubelet(Changed(container, options, warnings), {});
    EXPECT_NE(values.at("NCCL_PROFILER_PLUGIN"), kAgent);
    EXPECT_FALSE(values.contains("STROBE_COLLECTIVES"));
    EXPECT_THAT(warnings, Contains(HasSubstr("strobe.dev/collectives is ignored")));
  }
}

TEST(ChangeVariables, WithoutTheAgentCudaLoadsNothing) {
  const Json container = {{"name", "train"}, {"resources", {{"limits", {{"nvidia.com/gpu", 1}}}}}};
  const auto values = [&](const std::string& disabled) {
    std::vector<std::string> warnings;
    const Values made = Kubelet(Changed(container, {.disabled = disabled}, warnings), {});
    EXPECT_THAT(warnings, IsEmpty());
    return made;
  };
  EXPECT_EQ(values("").at("CUDA_INJECTION64_PATH"), "/var/strobe/lib/libstrobe_agent.so");
  EXPECT_FALSE(values("").contains("STROBE_DISABLE"));
  const Values without = values("steps,agent");
  EXPECT_FALSE(without.contains("CUDA_INJECTION64_PATH"));
  EXPECT_EQ(without.at("STROBE_DISABLE"), "steps,agent");
  EXPECT_EQ(values("agents-of-others").at("CUDA_INJECTION64_PATH"),
            "/var/strobe/lib/libstrobe_agent.so");
}

}  // namespace
}  // namespace strobe::admission

#include "operator/admission/sidecar_defaults.h"

#include "common/base/strings.h"
#include "common/text/quantity.h"
#include "operator/base/json_members.h"

namespace strobe {
namespace {

using Json = nlohmann::json;

using kube::Member;
using kube::TextOf;

// A Secret or ConfigMap that does not exist must not keep the pod from starting, hence `optional`.
// The sidecar reports what is missing when it needs it.
Json VolumeFor(const std::string& name, const InjectedFile& file) {
  const Json items = {{{"key", file.key}, {"path", file.key}}};
  if (!file.secret.empty()) {
    return {{"name", name},
            {"secret", {{"secretName", file.secret}, {"optional", true}, {"items", items}}}};
  }
  return {{"name", name},
          {"configMap", {{"name", file.config_map}, {"optional", true}, {"items", items}}}};
}

}  // namespace

std::vector<Json> AddDefaults(const InjectionSettings& settings, const SidecarVolumes& names,
                              Json& environment, Json& mounts) {
  std::vector<Json> added;
  const auto add = [&](const InjectedFile& file, const std::string& name, const char* path,
                       const char* variable) {
    if (file.secret.empty() && file.config_map.empty()) return;
    added.push_back(VolumeFor(name, file));
    mounts.push_back({{"name", name}, {"mountPath", path}, {"readOnly", true}});
    environment.push_back({{"name", variable}, {"value", StrCat(path, "/", file.key)}});
  };
  add(settings.storage_config, names.storage_config, kStorageConfigPath, "STROBE_STORAGE_CONFIG");
  add(settings.storage_ca, names.storage_ca, kStorageCaPath, "STROBE_STORAGE_CA_BUNDLE");
  for (const Json& variable : settings.environment) environment.push_back(variable);
  return added;
}

void RequestDisk(const InjectionSettings& settings, Json& resources) {
  constexpr char kDisk[] = "ephemeral-storage";
  const std::string& request = settings.ephemeral_storage;
  if (request.empty()) return;
  resources["requests"][kDisk] = request;
  const std::string limit = TextOf(Member(resources, "limits"), kDisk);
  if (!limit.empty() && ParseQuantity(limit).value_or(0) < ParseQuantity(request).value_or(0))
    resources["limits"][kDisk] = request;
}

}  // namespace strobe

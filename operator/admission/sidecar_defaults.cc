#include "operator/admission/sidecar_defaults.h"

#include <algorithm>

#include "common/base/strings.h"
#include "operator/admission/annotation_values.h"
#include "operator/objects/json_members.h"

namespace strobe {
namespace {

using Json = nlohmann::json;

using kube::Member;

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

// For what the sidecar itself writes: its log.
constexpr std::int64_t kLogBytes = 64 << 20;

bool LimitsDisk(const Json& spec) {
  for (const char* list : {"containers", "initContainers"}) {
    const Json& containers = Member(spec, list);
    for (std::size_t i = 0; containers.is_array() && i < containers.size(); ++i) {
      const Json& limits = Member(Member(containers[i], "resources"), "limits");
      if (!Member(limits, "ephemeral-storage").is_null()) return true;
    }
  }
  return false;
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

void AddDisk(const Json& spec, const InjectionSettings& settings, const std::string& spool_size,
             Json& resources) {
  const std::string& request = settings.ephemeral_storage;
  if (!request.empty()) resources["requests"]["ephemeral-storage"] = request;
  if (!LimitsDisk(spec)) return;
  resources["limits"]["ephemeral-storage"] =
      request.empty() ? StrCat(MostBytesOf(spool_size) + kLogBytes) : request;
}

}  // namespace strobe

#include "agent/cupti/cupti.h"

#include <dlfcn.h>
#include <link.h>

#include <cstdlib>
#include <string>
#include <vector>

namespace strobe::agent {
namespace {

constexpr int kGenerations[] = {13, 12};

std::string SoName(int generation) { return "libcupti.so." + std::to_string(generation); }

// False if the library has no such function.
template <typename Function>
bool ResolveOne(void* library, const char* symbol, Function*& function) {
  function = reinterpret_cast<Function*>(dlsym(library, symbol));
  return function != nullptr;
}

void ResolveSecond(void* library, SecondGeneration& second) {
  const auto resolve = [library](const char* symbol, auto& function) {
    (void)ResolveOne(library, symbol, function);
  };
  resolve("cuptiSubscribe_v2", second.subscribe);
  resolve("cuptiActivityRegisterCallbacks_v2", second.register_callbacks);
  resolve("cuptiActivityEnable_v2", second.enable);
  resolve("cuptiActivityDisable_v2", second.disable);
  resolve("cuptiActivityGetNextRecord_v2", second.next_record);
  resolve("cuptiActivityGetNumDroppedRecords_v2", second.dropped_records);
  resolve("cuptiActivityEnableDriverApi_v2", second.enable_driver_call);
  resolve("cuptiActivityEnableRuntimeApi_v2", second.enable_runtime_call);
  resolve("cuptiActivitySetAttribute_v2", second.set_attribute);
}

bool Resolve(void* library, Cupti& cupti) {
  bool complete = true;
#define STROBE_RESOLVE(member, symbol, needed) \
  if (!ResolveOne(library, #symbol, cupti.member) && (needed)) complete = false;
  STROBE_CUPTI_FUNCTIONS(STROBE_RESOLVE)
#undef STROBE_RESOLVE
  ResolveSecond(library, cupti.second);
  return complete;
}

// Returns the folders where CUPTI may be, derived from the CUDA libraries that this process has
// loaded.
std::vector<std::string> CudaFolders() {
  std::vector<std::string> folders;
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* to) {
        const std::string path = info->dlpi_name == nullptr ? "" : info->dlpi_name;
        const std::size_t slash = path.rfind('/');
        if (slash == std::string::npos) return 0;
        auto& found = *static_cast<std::vector<std::string>*>(to);
        const std::string folder = path.substr(0, slash);
        // Python wheels: .../nvidia/<part>/lib has .../nvidia/cuda_cupti/lib beside it.
        if (const std::size_t root = folder.rfind("/nvidia/"); root != std::string::npos) {
          found.push_back(folder.substr(0, root) + "/nvidia/cuda_cupti/lib");
          found.push_back(folder.substr(0, root) + "/nvidia/cu13/lib");
        }
        // A CUDA toolkit: .../lib64/libcudart.so.N.
        if (path.compare(slash + 1, 9, "libcudart") == 0) {
          found.push_back(folder);
          found.push_back(folder + "/../extras/CUPTI/lib64");
        }
        return 0;
      },
      &folders);
  for (const char* folder : {"/usr/local/cuda/extras/CUPTI/lib64", "/usr/local/cuda/lib64"})
    folders.emplace_back(folder);
  return folders;
}

}  // namespace

bool FindCudaDriver(CudaDriver& driver) {
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  if (library == nullptr) return false;
  bool complete = true;
  const auto resolve = [&](const char* symbol, auto& function) {
    complete = ResolveOne(library, symbol, function) && complete;
  };
  resolve("cuDriverGetVersion", driver.driver_version);
  resolve("cuDeviceGetCount", driver.device_count);
  resolve("cuDeviceGet", driver.device_get);
  resolve("cuDeviceGetName", driver.device_name);
  resolve("cuDeviceGetUuid", driver.device_uuid);
  resolve("cuDeviceTotalMem_v2", driver.device_memory);
  resolve("cuDeviceGetAttribute", driver.device_attribute);
  return complete;
}

void* OpenCupti(int driver_version, Cupti& cupti) {
  const auto usable = [&](void* library) { return library != nullptr && Resolve(library, cupti); };
  if (const char* path = std::getenv("STROBE_CUPTI"); path != nullptr && *path != '\0') {
    void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    return usable(library) ? library : nullptr;
  }
  for (const int generation : kGenerations) {
    if (void* library = dlopen(SoName(generation).c_str(), RTLD_NOW | RTLD_NOLOAD); usable(library))
      return library;
  }
  const std::vector<std::string> folders = CudaFolders();
  for (const int generation : kGenerations) {
    if (generation > driver_version / 1000) continue;
    for (const std::string& folder : folders) {
      if (void* library =
              dlopen((folder + "/" + SoName(generation)).c_str(), RTLD_NOW | RTLD_LOCAL);
          usable(library))
        return library;
    }
    if (void* library = dlopen(SoName(generation).c_str(), RTLD_NOW | RTLD_LOCAL); usable(library))
      return library;
  }
  return nullptr;
}

}  // namespace strobe::agent

#include "agent/nccl/version_gate.h"

#include <dlfcn.h>

#include <string_view>

namespace strobe::nccl {
namespace {

using wire::CollectiveLibrary;
using wire::DeviceTimes;

constexpr char kVersionFunction[] = "ncclGetVersion";
using GetVersion = int (*)(int*);

GetVersion FindVersionFunction(const Dl_info& module) {
  void* const library =
      module.dli_fname == nullptr ? nullptr : dlopen(module.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  void* found = nullptr;
  if (library != nullptr) {
    found = dlsym(library, kVersionFunction);
    dlclose(library);  // It stays loaded, because it runs.
  }
  // The program itself, into which the library may be linked, has no name that dlopen takes.
  if (found == nullptr) found = dlsym(RTLD_DEFAULT, kVersionFunction);
  Dl_info other = {};
  const bool same =
      found != nullptr && dladdr(found, &other) != 0 && other.dli_fbase == module.dli_fbase;
  return same ? reinterpret_cast<GetVersion>(found) : nullptr;
}

}  // namespace

Library LibraryAt(const void* address) {
  Library library;
  Dl_info module = {};
  if (address == nullptr || dladdr(address, &module) == 0) return library;
  const GetVersion get = FindVersionFunction(module);
  if (get == nullptr || get(&library.version) != 0) {
    library.version = 0;
    return library;
  }
  const std::string_view path = module.dli_fname == nullptr ? "" : module.dli_fname;
  const std::string_view name = path.substr(path.rfind('/') + 1);
  library.kind = name.find("rccl") == std::string_view::npos ? CollectiveLibrary::kNccl
                                                             : CollectiveLibrary::kRccl;
  return library;
}

DeviceTimes DeviceTimesOf(const Library& library) {
  constexpr int kFirstWithTimes = 22700;
  // RCCL 2.27 crashed on them (https://github.com/ROCm/rccl/pull/1973).
  constexpr int kFirstOfRccl = 22800;
  // With a profiler, NCCL 2.30.3 crashed (https://github.com/NVIDIA/nccl/issues/2112).
  constexpr int kCrashed = 23003;
  // Since 2.31 the kernels write more stamps whenever the devices' times are asked for, which costs
  // 4 to 13 % of small all-reduces (https://github.com/NVIDIA/nccl/issues/2355). No release is
  // known that mends it.
  constexpr int kFirstSlow = 23100;
  if (library.version == 0) return DeviceTimes::kOtherLibrary;
  const int first = library.kind == CollectiveLibrary::kRccl ? kFirstOfRccl : kFirstWithTimes;
  const bool good =
      library.version >= first && library.version < kFirstSlow && library.version != kCrashed;
  return good ? DeviceTimes::kOnRequest : DeviceTimes::kSlowVersion;
}

}  // namespace strobe::nccl

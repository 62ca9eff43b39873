// Substitutes for functions of newer C libraries that the statically linked C++ runtime calls. The
// agent is loaded in trainers' images, whose C library may be older than that of the build. With
// these functions it needs only glibc 2.34 (Red Hat 9, Ubuntu 22.04), as do the programs of
// tests/gpu; tests/gpu/bundle checks that.
#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>

namespace {

struct Search {
  std::uintptr_t address;
  dl_find_object* found;
};

// Returns 1, which ends the iteration, for the object that contains the address.
int Look(dl_phdr_info* info, std::size_t, void* argument) {
  const Search& search = *static_cast<Search*>(argument);
  bool contains = false;
  std::uintptr_t end = 0, frames = 0;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& part = info->dlpi_phdr[i];
    const std::uintptr_t begin = info->dlpi_addr + part.p_vaddr;
    if (part.p_type == PT_GNU_EH_FRAME) frames = begin;
    if (part.p_type != PT_LOAD) continue;
    end = begin + part.p_memsz;
    contains = contains || (search.address >= begin && search.address < end);
  }
  if (!contains || frames == 0) return contains ? -1 : 0;
  search.found->dlfo_map_start = reinterpret_cast<void*>(info->dlpi_addr);
  search.found->dlfo_map_end = reinterpret_cast<void*>(end);
  search.found->dlfo_eh_frame = reinterpret_cast<void*>(frames);
  return 1;
}

}  // namespace

extern "C" {

// In glibc since 2.35. Through it, an exception finds the unwind information of the code it passes.
__attribute__((visibility("hidden"))) int _dl_find_object(void* address,
                                                          dl_find_object* found) noexcept {
  Search search{reinterpret_cast<std::uintptr_t>(address), found};
  return dl_iterate_phdr(&Look, &search) == 1 ? 0 : -1;
}

// In glibc since 2.36. std::random_device calls it.
__attribute__((visibility("hidden"))) std::uint32_t arc4random() noexcept {
  std::uint32_t value = 0;
  if (getentropy(&value, sizeof value) != 0) std::abort();
  return value;
}
}

#include "collector/trace/xplane/device_names.h"

#include <algorithm>
#include <array>
#include <string>

#include "common/base/strings.h"

namespace strobe::xplane {
namespace {

// No name of a copy is longer, but for what Kineto and Level Zero put in brackets behind it.
constexpr std::size_t kMaxName = 80;

// A name as small letters and digits only: "MEMORY_COPY_HOST_TO_DEVICE" becomes
// "memorycopyhosttodevice".
std::string Plain(std::string_view name) {
  std::string plain;
  for (const char c : name.substr(0, kMaxName)) {
    if (c >= 'A' && c <= 'Z') plain.push_back(static_cast<char>(c - 'A' + 'a'));
    if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')) plain.push_back(c);
  }
  return plain;
}

bool Remove(std::string_view prefix, std::string_view& text) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

// The letters that stand for one end of a copy: the host, a device, a peer; Intel's also for an
// array, the system's memory and shared memory.
constexpr std::string_view kEndLetters = "hdp", kIntelsEndLetters = "hdpams";

// One end of a copy, as its letter; 0 if the text begins with none.
char RemoveEnd(std::string_view letters, std::string_view& text) {
  constexpr std::array<std::pair<std::string_view, char>, 5> kWords = {
      {{"host", 'h'}, {"device", 'd'}, {"peer", 'p'}, {"array", 'a'}, {"shared", 's'}}};
  for (const auto& [word, letter] : kWords) {
    if (Remove(word, text)) return letter;
  }
  if (text.empty() || letters.find(text.front()) == std::string_view::npos) return 0;
  const char letter = text.front();
  text.remove_prefix(1);
  return letter;
}

// The direction that the text begins with, such as "hosttodevice2d" or "htodpinneddevice", which
// is removed; kNone if it begins with none.
MemoryWork RemoveDirection(std::string_view letters, std::string_view& text) {
  std::string_view rest = text;
  const char from = RemoveEnd(letters, rest);
  if (from == 0 || (!Remove("to", rest) && !Remove("2", rest))) return MemoryWork::kNone;
  const char to = RemoveEnd(letters, rest);
  if (to == 0) return MemoryWork::kNone;
  text = rest;
  const bool from_host = from == 'h' || from == 'm', to_host = to == 'h' || to == 'm';
  if (from_host && to == 'd') return MemoryWork::kHostToDevice;
  if (from == 'd' && to_host) return MemoryWork::kDeviceToHost;
  if (from == 'd' && to == 'd') return MemoryWork::kDeviceToDevice;
  return from == 'p' && to == 'p' ? MemoryWork::kPeerToPeer : MemoryWork::kOtherCopy;
}

// What follows the words that say that it is a copy: its direction, if it is told.
MemoryWork CopyTo(std::string_view plain) {
  const MemoryWork work = RemoveDirection(kIntelsEndLetters, plain);
  return work == MemoryWork::kNone ? MemoryWork::kOtherCopy : work;
}

// "copyhosttodevice2d", "memorycopydevicetohost", "hosttodevicecopy", "h2d": AMD's names of
// operations, and what others make of them. The whole name is of this kind.
MemoryWork FromWords(std::string_view plain) {
  for (const std::string_view word : {"memorycopy", "hcmemcpy", "asynccopy", "copy"}) {
    if (Remove(word, plain)) break;
  }
  const MemoryWork work = RemoveDirection(kEndLetters, plain);
  constexpr std::array<std::string_view, 6> kRests = {"", "2d", "3d", "async", "copy", "memcpy"};
  return std::ranges::find(kRests, plain) != kRests.end() ? work : MemoryWork::kNone;
}

// Operations of ROCm's command queues (rocclr's and roctracer's names) that move or fill memory
// and tell no direction, and what Meta's and Huawei's profilers call such work.
constexpr std::array<std::string_view, 20> kCopies = {"copyimage",
                                                      "copyimagetobuffer",
                                                      "copybuffertoimage",
                                                      "readimage",
                                                      "writeimage",
                                                      "mapbuffer",
                                                      "mapimage",
                                                      "unmapmemobject",
                                                      "migratememobjects",
                                                      "svmmemcpy",
                                                      "svmmap",
                                                      "svmunmap",
                                                      "copybuffer",
                                                      "readbuffer",
                                                      "writebuffer",
                                                      "copybufferrect",
                                                      "dma",
                                                      "sdma",
                                                      "sdmasqe",
                                                      "pciedmasqe"};
constexpr std::array<std::string_view, 6> kFills = {"fillbuffer", "fillbufferaligned", "fillimage",
                                                    "svmmemfill", "memoryfill",        "memfill"};

}  // namespace

MemoryWork MemoryWorkOf(std::string_view name) {
  // Kernels of programs: "void at::native::direct_copy_kernel<...>(...)", "memcpy_kernel".
  if (Contains(name, "::") || Contains(name, "kernel") || name.starts_with("void ") ||
      name.starts_with("_Z"))
    return MemoryWork::kNone;
  if (Remove("__amd_rocclr_", name)) {
    if (name.starts_with("fill")) return MemoryWork::kFill;
    if (name.starts_with("copyBuffer")) return MemoryWork::kDeviceToDevice;
    return name.starts_with("copy") ? MemoryWork::kOtherCopy : MemoryWork::kNone;
  }
  for (const std::string_view suffix : {" [clone .kd]", ".kd"}) {
    if (name.ends_with(suffix)) name.remove_suffix(suffix.size());
  }
  const std::string text = Plain(name);
  std::string_view plain = text;
  // nsys: "[CUDA Unified Memory memcpy HtoD]".
  (void)(Remove("cuda", plain) || Remove("hip", plain));
  (void)Remove("unifiedmemory", plain);
  if (plain.starts_with("memset")) return MemoryWork::kFill;
  if (Remove("memcpy", plain)) return CopyTo(plain);
  if (Remove("zecommandlistappend", plain)) {
    if (Remove("memorycopyregion", plain) || Remove("memorycopy", plain)) return CopyTo(plain);
    if (plain.starts_with("memoryfill")) return MemoryWork::kFill;
    return plain.starts_with("imagecopy") ? MemoryWork::kOtherCopy : MemoryWork::kNone;
  }
  if (std::ranges::find(kFills, plain) != kFills.end()) return MemoryWork::kFill;
  if (const MemoryWork work = FromWords(plain); work != MemoryWork::kNone) return work;
  const bool copies = plain.starts_with("memorycopy") || plain.starts_with("dmarequest") ||
                      std::ranges::find(kCopies, plain) != kCopies.end();
  return copies ? MemoryWork::kOtherCopy : MemoryWork::kNone;
}

bool HoldsOnlyMemoryWork(std::string_view line) {
  const std::size_t open = line.find('('), close = line.find(')', open);
  if (!line.starts_with("Stream #") || close == std::string_view::npos) return false;
  std::string_view types = line.substr(open + 1, close - open - 1);
  bool any = false;
  while (!types.empty()) {
    const std::string_view type = types.substr(0, types.find(','));
    if (!type.starts_with("Mem")) return false;
    any = any || type.starts_with("Memcpy") || type.starts_with("Memset");
    types.remove_prefix(std::min(types.size(), type.size() + 1));
  }
  return any;
}

MemoryWork MemoryWorkOfCategory(std::string_view category) {
  if (category.size() > 32) return MemoryWork::kNone;
  const std::string plain = Plain(category);
  if (plain.ends_with("memcpy")) return MemoryWork::kOtherCopy;
  return plain.ends_with("memset") ? MemoryWork::kFill : MemoryWork::kNone;
}

bool IsRuntimeCategory(std::string_view category) {
  return category.ends_with("_runtime") || category.ends_with("_driver") || category == "Runtime";
}

}  // namespace strobe::xplane

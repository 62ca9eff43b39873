#include "collector/trace/digest/classify.h"

#include <algorithm>
#include <array>
#include <string>

#include "collector/trace/xplane/device_names.h"
#include "common/base/strings.h"

namespace strobe::digest {
namespace {

struct CollectiveWord {
  std::string_view word{};
  CollectiveKind kind{};
};
// In the order in which they are looked for: "allreduce" contains "reduce".
constexpr std::array<CollectiveWord, 15> kCollectiveWords = {{
    {"reducescatter", CollectiveKind::kReduceScatter},
    {"allreduce", CollectiveKind::kAllReduce},
    {"allgather", CollectiveKind::kAllGather},
    {"alltoall", CollectiveKind::kAllToAll},
    {"broadcast", CollectiveKind::kBroadcast},
    {"permute", CollectiveKind::kPermute},
    {"sendrecv", CollectiveKind::kPermute},
    {"barrier", CollectiveKind::kBarrier},
    {"gather", CollectiveKind::kGather},
    {"scatter", CollectiveKind::kScatter},
    {"reduce", CollectiveKind::kReduce},
    {"send", CollectiveKind::kSend},
    {"recv", CollectiveKind::kReceive},
    {"receive", CollectiveKind::kReceive},
    {"psum", CollectiveKind::kAllReduce},
}};

// XLA's opcodes that move data between devices. The long ones also begin names of fusions, such as
// "all-reduce fusion" and "all-gather_fusion.3".
constexpr std::array<std::string_view, 7> kHloCollectives = {
    "all-reduce", "all-gather",         "reduce-scatter",      "all-to-all",
    "ragged-all", "collective-permute", "collective-broadcast"};
constexpr std::array<std::string_view, 4> kHloPeers = {"send", "send-done", "recv", "recv-done"};
constexpr std::array<std::string_view, 8> kHloCopies = {
    "copy",      "copy-start",     "copy-done", "outfeed",
    "host send", "host send-done", "host recv", "host recv-done"};
constexpr std::array<std::string_view, 4> kHloContainers = {"while", "call", "conditional",
                                                            "megacore fusion"};

// Kernels that talk with other devices, besides those whose name begins with "nccl", by a part of
// their name.
constexpr std::array<std::string_view, 13> kPeerKernels = {
    "ncclDevKernel",    "ncclKernel",          "ncclSymDevKernel", "rccl",        "nvshmem",
    "multimem_",        "cross_device_reduce", "shot_all_reduce",  "mscclKernel", "oneccl",
    "allreduce_fusion", "deep_ep::",           "userbuffers_"};

// Names of host events that are collectives begin with one of these.
constexpr std::array<std::string_view, 5> kHostCollectives = {
    "gloo:", "mpi:", "ucc:", "oneccl_bindings_for_pytorch::", "torch_ccl::"};
// Operators that exchange data through memory that processes share, such as "_C::shm_allreduce".
constexpr std::string_view kSharedMemoryOperator = "::shm_";

constexpr std::array<std::string_view, 14> kInputNames = {
    "input",      "input_pipeline", "data_loading", "data loading", "dataloader",
    "load_batch", "load batch",     "load_data",    "load data",    "next_batch",
    "next batch", "get_batch",      "fetch_batch",  "data_wait"};
constexpr std::array<std::string_view, 6> kCollectionNames = {
    "python gc", "gc", "gc.collect", "$gc collect", "garbage_collection", "garbage collection"};

template <typename Names>
bool IsOneOf(const Names& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}
template <typename Names>
bool BeginsWithOneOf(const Names& names, std::string_view name) {
  return std::any_of(names.begin(), names.end(),
                     [&](std::string_view begin) { return name.starts_with(begin); });
}

char LowerCase(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool EqualsIgnoringCase(std::string_view a, std::string_view b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), [](char x, char y) {
           return LowerCase(x) == LowerCase(y);
         });
}

// "%all-reduce-start.1": "all-reduce-start".
std::string_view OpcodeOf(std::string_view instruction) {
  if (instruction.starts_with('%')) instruction.remove_prefix(1);
  return instruction.substr(0, instruction.find_first_of(". "));
}

WorkClass ClassifyHlo(std::string_view opcode) {
  WorkClass result;
  if (opcode.ends_with("-start")) result.phase = WorkClass::kStart;
  if (opcode.ends_with("-done")) result.phase = WorkClass::kDone;
  if (BeginsWithOneOf(kHloCollectives, opcode) || IsOneOf(kHloPeers, opcode)) {
    result.kind = WorkKind::kCommunication;
    result.collective = CollectiveKindOf(opcode);
  } else if (IsOneOf(kHloCopies, opcode)) {
    result.kind = WorkKind::kCopy;
  } else if (Contains(opcode, "infeed")) {
    result.kind = WorkKind::kInput;
  }
  result.contains_others = IsOneOf(kHloContainers, opcode);
  return result;
}

}  // namespace

CollectiveKind CollectiveKindOf(std::string_view name) {
  std::string plain;
  for (const char c : name.substr(0, 128)) {
    if (c != '_' && c != '-' && c != ' ') plain.push_back(LowerCase(c));
  }
  for (const CollectiveWord& entry : kCollectiveWords) {
    if (Contains(plain, entry.word)) return entry.kind;
  }
  return CollectiveKind::kOther;
}

WorkClass ClassifyDeviceWork(std::string_view name, std::string_view category, bool is_hlo) {
  if (!category.empty()) {
    WorkClass result = ClassifyHlo(category);
    // The category of an asynchronous operation may be the plain one; its name tells the phase.
    const std::string_view opcode = OpcodeOf(name);
    if (opcode.ends_with("-start")) result.phase = WorkClass::kStart;
    if (opcode.ends_with("-done")) result.phase = WorkClass::kDone;
    return result;
  }
  if (is_hlo) return ClassifyHlo(OpcodeOf(name));
  WorkClass result;
  if (xplane::MemoryWorkOf(name) != xplane::MemoryWork::kNone) {
    result.kind = WorkKind::kCopy;
  } else if (EqualsIgnoringCase(name.substr(0, 4), "nccl") ||
             EqualsIgnoringCase(name.substr(0, 4), "hccl") || name.starts_with("hcom_") ||
             std::any_of(kPeerKernels.begin(), kPeerKernels.end(),
                         [&](std::string_view part) { return Contains(name, part); })) {
    result.kind = WorkKind::kCommunication;
  }
  if (result.kind == WorkKind::kCommunication) {
    // The arguments' types may contain words of other collectives.
    result.collective = CollectiveKindOf(WithoutArguments(name));
  }
  return result;
}

WorkClass ClassifyByStats(const xplane::Plane& plane, const xplane::Line& line,
                          const xplane::Event& event) {
  WorkClass result;
  if (xplane::HoldsOnlyMemoryWork(line.name)) result.kind = WorkKind::kCopy;
  // A damaged event is reported when it is counted.
  (void)ForEachStat(plane, event, [&](const xplane::Stat& stat) {
    const std::string_view name = plane.NameOf(stat);
    const auto* text = std::get_if<std::string_view>(&stat.value);
    if (text == nullptr) return;
    if (name == "memcpy_details" || EqualsIgnoringCase(name, "memset_details") ||
        (name == "cat" && xplane::MemoryWorkOfCategory(*text) != xplane::MemoryWork::kNone) ||
        (name == "direction" && xplane::MemoryWorkOf(*text) != xplane::MemoryWork::kNone))
      result.kind = WorkKind::kCopy;
    if (name == "Collective name")
      result = {.kind = WorkKind::kCommunication, .collective = CollectiveKindOf(*text)};
  });
  return result;
}

WorkKind ClassifyHostEvent(std::string_view name) {
  if (BeginsWithOneOf(kHostCollectives, name)) return WorkKind::kCommunication;
  if (Contains(name, kSharedMemoryOperator) && CollectiveKindOf(name) != CollectiveKind::kOther)
    return WorkKind::kCommunication;
  if (name.starts_with("enumerate(DataLoader)") || name.starts_with("enumerate(DataPipe)") ||
      name.starts_with("IteratorGetNext") || name.starts_with("MultiDeviceIteratorGetNext"))
    return WorkKind::kInput;
  // XLA's Python tracer: "$dataloader.py:733 __next__".
  if (name.starts_with('$') && name.ends_with(" __next__") &&
      (Contains(name, "dataloader") || Contains(name, "data_loader") || Contains(name, "dataset")))
    return WorkKind::kInput;
  if (name.size() > 24) return WorkKind::kHost;  // All names in the lists are shorter.
  for (const std::string_view known : kInputNames) {
    if (EqualsIgnoringCase(name, known)) return WorkKind::kInput;
  }
  for (const std::string_view known : kCollectionNames) {
    if (EqualsIgnoringCase(name, known)) return WorkKind::kGarbageCollection;
  }
  return WorkKind::kHost;
}

std::string_view WithoutArguments(std::string_view kernel) {
  constexpr std::string_view kUnnamed = "(anonymous namespace)";
  int depth = 0;  // A template's arguments belong to the name.
  for (std::size_t at = 0; at < kernel.size(); ++at) {
    if (kernel[at] == '<') ++depth;
    if (kernel[at] == '>' && depth > 0) --depth;
    if (kernel[at] != '(' || depth > 0) continue;
    if (!kernel.substr(at).starts_with(kUnnamed)) return kernel.substr(0, at);
    at += kUnnamed.size() - 1;
  }
  return kernel;
}

std::uint64_t DtypeBytes(std::string_view dtype) {
  if (dtype == "Double" || dtype == "Long" || dtype == "ComplexFloat") return 8;
  if (dtype == "Float" || dtype == "Int") return 4;
  if (dtype == "Half" || dtype == "BFloat16" || dtype == "Short") return 2;
  if (dtype == "Byte" || dtype == "Char" || dtype == "Bool" || dtype.starts_with("Float8"))
    return 1;
  return dtype == "ComplexDouble" ? 16 : 0;
}

}  // namespace strobe::digest

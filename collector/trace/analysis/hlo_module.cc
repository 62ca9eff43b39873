#include "collector/trace/analysis/hlo_module.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "collector/trace/xplane/names.h"
#include "collector/trace/xplane/wire.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"

namespace strobe::analysis {
namespace {

using wire::Reader;

// Numbers of fields in XLA's hlo.proto and xla_data.proto, and in XProf's xplane.proto.
namespace hlo_proto {
constexpr std::uint32_t kModule = 1;
}
namespace module_proto {
constexpr std::uint32_t kName = 1, kComputations = 3, kEntryId = 6;
}
namespace computation_proto {
constexpr std::uint32_t kName = 1, kInstructions = 2, kId = 5, kRootId = 6;
}
namespace instruction_proto {
constexpr std::uint32_t kName = 1, kOpcode = 2, kShape = 3, kMetadata = 7, kParameterNumber = 9,
                        kFusionKind = 11, kCustomCallTarget = 28, kId = 35, kOperandIds = 36,
                        kCalledIds = 38;
}
namespace metadata_proto {
constexpr std::uint32_t kOpName = 2, kSourceFile = 3, kSourceLine = 4;
}
namespace shape_proto {
constexpr std::uint32_t kElementType = 2, kDimensions = 3, kTupleShapes = 4, kLayout = 5;
constexpr std::uint32_t kLayoutMinorToMajor = 1;
}  // namespace shape_proto
namespace event_metadata_proto {
constexpr std::uint32_t kStats = 5, kStatId = 1, kStatBytes = 6;
}

// Ids are unique in a computation. Newer versions of XLA write the computation's id into the upper
// half, but not everywhere.
std::uint32_t LocalId(std::int64_t id) { return static_cast<std::uint32_t>(id); }

struct ReadInstruction {
  HloInstruction instruction{};
  std::int64_t id = 0;
  std::vector<std::int64_t> operands{};

  absl::Status From(std::string_view bytes) {
    instruction.bytes = bytes;
    Reader reader(bytes);
    while (reader.Next()) {
      if (reader.field() == instruction_proto::kName) instruction.name = reader.bytes();
      if (reader.field() == instruction_proto::kOpcode) instruction.opcode = reader.bytes();
      if (reader.field() == instruction_proto::kId) id = reader.signed_value();
      if (reader.field() == instruction_proto::kOperandIds)
        RETURN_IF_ERROR(reader.AppendIntegers(operands));
      if (reader.field() == instruction_proto::kCalledIds)
        RETURN_IF_ERROR(reader.AppendIntegers(instruction.calls));
    }
    return reader.status();
  }
};

absl::StatusOr<HloComputation> ReadComputation(std::string_view bytes, std::size_t& instructions) {
  HloComputation computation;
  std::int64_t root = 0;
  absl::flat_hash_map<std::uint32_t, std::uint32_t> numbers;  // By local id.
  std::vector<std::vector<std::int64_t>> operands;
  Reader reader(bytes);
  while (reader.Next()) {
    if (reader.field() == computation_proto::kName) computation.name = reader.bytes();
    if (reader.field() == computation_proto::kId) computation.id = reader.signed_value();
    if (reader.field() == computation_proto::kRootId) root = reader.signed_value();
    if (reader.field() != computation_proto::kInstructions || !reader.is_bytes()) continue;
    if (++instructions > HloModule::kMaxInstructions)
      return absl::OutOfRangeError(StrCat("the module has more than ", HloModule::kMaxInstructions,
                                          " instructions, the most that can be shown"));
    ReadInstruction read;
    RETURN_IF_ERROR(read.From(reader.bytes()));
    numbers.emplace(LocalId(read.id), static_cast<std::uint32_t>(computation.instructions.size()));
    computation.instructions.push_back(std::move(read.instruction));
    operands.push_back(std::move(read.operands));
  }
  RETURN_IF_ERROR(reader.status());
  for (std::size_t i = 0; i < operands.size(); ++i) {
    for (const std::int64_t id : operands[i]) {
      const auto known = numbers.find(LocalId(id));
      if (known == numbers.end())
        ++computation.missing;
      else
        computation.instructions[i].operands.push_back(known->second);
    }
  }
  const auto known = numbers.find(LocalId(root));
  computation.root = known == numbers.end() ? 0 : known->second;
  return computation;
}

// PrimitiveType, by number; those without a short name are left out.
std::string_view TypeName(std::int64_t type) {
  static constexpr std::array<std::string_view, 34> kNames = {
      "?",          "pred",       "s8",   "s16",    "s32",      "s64",    "u8",     "u16",
      "u32",        "u64",        "f16",  "f32",    "f64",      "tuple",  "opaque", "c64",
      "bf16",       "token",      "c128", "f8e5m2", "f8e4m3fn", "s4",     "u4",     "f8e4m3b11fnuz",
      "f8e5m2fnuz", "f8e4m3fnuz", "s2",   "u2",     "f8e4m3",   "f8e3m4", "s1",     "u1",
      "f4e2m1fn",   "f8e8m0fnu"};
  return type > 0 && type < static_cast<std::int64_t>(kNames.size())
             ? kNames[static_cast<std::size_t>(type)]
             : "?";
}

std::string Join(const std::vector<std::int64_t>& numbers) {
  std::string text;
  for (const std::int64_t number : numbers) text += StrCat(text.empty() ? "" : ",", number);
  return text;
}

constexpr std::size_t kMaxShape = 400;  // Bytes; tuples can have thousands of parts.

void AppendShape(std::string_view bytes, int depth, std::string& text) {
  constexpr int kMaxDepth = 8;
  std::int64_t type = 0;
  std::vector<std::int64_t> dimensions, order;
  std::string parts;
  bool tuple = false;
  Reader reader(bytes);
  while (reader.Next() && text.size() + parts.size() < kMaxShape) {
    if (reader.field() == shape_proto::kElementType) type = reader.signed_value();
    if (reader.field() == shape_proto::kDimensions) reader.AppendIntegers(dimensions).IgnoreError();
    if (reader.field() == shape_proto::kTupleShapes && depth < kMaxDepth) {
      if (tuple) parts += ", ";
      tuple = true;
      AppendShape(reader.bytes(), depth + 1, parts);
    }
    if (reader.field() != shape_proto::kLayout) continue;
    Reader layout(reader.bytes());
    while (layout.Next()) {
      if (layout.field() == shape_proto::kLayoutMinorToMajor)
        layout.AppendIntegers(order).IgnoreError();
    }
  }
  if (tuple || type == 13) {
    text += StrCat("(", parts, ")");
    return;
  }
  text += StrCat(TypeName(type), "[", Join(dimensions), "]");
  if (!order.empty()) text += StrCat("{", Join(order), "}");
}

// The first field of that number; empty if there is none.
std::string_view Field(std::string_view bytes, std::uint32_t number) {
  Reader reader(bytes);
  while (reader.Next()) {
    if (reader.field() == number) return reader.bytes();
  }
  return {};
}

// XEventMetadata's stats hold the proto as bytes.
std::string_view ProtoOf(const xplane::EventName& kind, std::int64_t stat_id) {
  Reader reader(kind.bytes);
  while (reader.Next()) {
    if (reader.field() != event_metadata_proto::kStats || !reader.is_bytes()) continue;
    std::int64_t id = 0;
    std::string_view bytes;
    Reader stat(reader.bytes());
    while (stat.Next()) {
      if (stat.field() == event_metadata_proto::kStatId) id = stat.signed_value();
      if (stat.field() == event_metadata_proto::kStatBytes) bytes = stat.bytes();
    }
    if (id == stat_id && !bytes.empty()) return bytes;
  }
  return {};
}

}  // namespace

std::vector<std::vector<std::uint32_t>> HloComputation::Users() const {
  std::vector<std::vector<std::uint32_t>> users(instructions.size());
  for (std::uint32_t i = 0; i < instructions.size(); ++i) {
    for (const std::uint32_t operand : instructions[i].operands) {
      // An instruction may use another one several times.
      if (users[operand].empty() || users[operand].back() != i) users[operand].push_back(i);
    }
  }
  return users;
}

absl::StatusOr<HloModule> HloModule::Read(std::string_view bytes) {
  HloModule module;
  std::size_t instructions = 0;
  Reader proto(bytes);
  while (proto.Next()) {
    if (proto.field() != hlo_proto::kModule || !proto.is_bytes()) continue;
    Reader reader(proto.bytes());
    while (reader.Next()) {
      if (reader.field() == module_proto::kName) module.name = reader.bytes();
      if (reader.field() == module_proto::kEntryId) module.entry = reader.signed_value();
      if (reader.field() != module_proto::kComputations || !reader.is_bytes()) continue;
      ASSIGN_OR_RETURN(HloComputation computation, ReadComputation(reader.bytes(), instructions));
      // The first one counts if several share an id.
      module.numbers.try_emplace(computation.id, module.computations.size());
      module.computations.push_back(std::move(computation));
    }
    RETURN_IF_ERROR(reader.status());
  }
  RETURN_IF_ERROR(proto.status());
  if (instructions == 0) return absl::DataLossError("the HLO has no instructions");
  return module;
}

absl::StatusOr<HloModule::InstructionRef> HloModule::Root() const {
  for (std::uint32_t c = 0; c < computations.size(); ++c) {
    if (computations[c].id == entry && !computations[c].instructions.empty())
      return InstructionRef{c, computations[c].root};
  }
  return absl::NotFoundError(
      StrCat("the module ", name.substr(0, 200), " has no entry computation"));
}

absl::StatusOr<HloModule::InstructionRef> HloModule::Find(std::string_view instruction) const {
  if (instruction.starts_with('%')) instruction.remove_prefix(1);
  for (std::uint32_t c = 0; c < computations.size(); ++c) {
    const std::vector<HloInstruction>& all = computations[c].instructions;
    for (std::uint32_t i = 0; i < all.size(); ++i) {
      if (all[i].name == instruction) return InstructionRef{c, i};
    }
  }
  return absl::NotFoundError(StrCat("the module ", name.substr(0, 200), " has no instruction ",
                                    instruction.substr(0, 200)));
}

const HloComputation* HloModule::Computation(std::int64_t id) const {
  const auto found = numbers.find(id);
  return found == numbers.end() ? nullptr : &computations[found->second];
}

std::string HloText(const HloModule& module, const HloModule::InstructionRef& place,
                    std::size_t max_bytes) {
  const HloComputation& computation = module.computations[place.computation];
  const HloInstruction& instruction = computation.instructions[place.instruction];
  std::string text =
      StrCat(place.instruction == computation.root ? "ROOT %" : "%", instruction.name, " = ",
             HloShape(instruction), " ", instruction.opcode, "(");
  bool first = true;
  for (const std::uint32_t operand : instruction.operands) {
    if (text.size() > max_bytes) {
      text += ", ...";
      break;
    }
    text += StrCat(first ? "%" : ", %", computation.instructions[operand].name);
    first = false;
  }
  if (instruction.opcode == "parameter") {
    std::int64_t number = 0;
    Reader reader(instruction.bytes);
    while (reader.Next()) {
      if (reader.field() == instruction_proto::kParameterNumber) number = reader.signed_value();
    }
    text += StrCat(number);
  }
  text += ")";
  if (const auto kind = Field(instruction.bytes, instruction_proto::kFusionKind); !kind.empty())
    text += StrCat(", kind=", kind.substr(0, 100));
  for (const std::int64_t id : instruction.calls) {
    if (text.size() >= max_bytes) break;
    if (const HloComputation* called = module.Computation(id))
      text += StrCat(", calls=%", called->name);
  }
  if (const auto target = Field(instruction.bytes, instruction_proto::kCustomCallTarget);
      !target.empty())
    text += StrCat(", custom_call_target=\"", target.substr(0, 200), "\"");
  return text;
}

std::string HloShape(const HloInstruction& instruction) {
  std::string text;
  AppendShape(Field(instruction.bytes, instruction_proto::kShape), 0, text);
  return text.size() > kMaxShape ? text.substr(0, kMaxShape) + "..." : text;
}

HloOrigin OriginOf(const HloInstruction& instruction) {
  HloOrigin origin;
  std::int64_t line = 0;
  Reader reader(Field(instruction.bytes, instruction_proto::kMetadata));
  while (reader.Next()) {
    if (reader.field() == metadata_proto::kOpName) origin.op = reader.bytes();
    if (reader.field() == metadata_proto::kSourceFile) origin.source = reader.bytes();
    if (reader.field() == metadata_proto::kSourceLine) line = reader.signed_value();
  }
  if (!origin.source.empty() && line > 0) origin.source += StrCat(":", line);
  return origin;
}

absl::StatusOr<std::string_view> FindHloProto(const xplane::Space& space, std::string_view name,
                                              std::optional<std::int64_t> program) {
  // "jit_step(12)" is the module jit_step of the program 12.
  std::string_view alone = name;
  if (const std::size_t open = name.rfind('(');
      open != std::string_view::npos && name.ends_with(')')) {
    std::int64_t id = 0;
    const char* end = name.data() + name.size() - 1;
    const auto read = std::from_chars(name.data() + open + 1, end, id);
    if (read.ec == std::errc() && read.ptr == end) {
      alone = name.substr(0, open);
      if (!program) program = id;
    }
  }
  const xplane::Plane* plane = space.Find(xplane::kMetadataPlane);
  if (plane != nullptr) {
    std::int64_t stat = plane->StatId("Hlo Proto");
    if (stat == 0) stat = plane->StatId("hlo_proto");
    const std::string full = program ? StrCat(alone, "(", *program, ")") : "";
    const std::pair<const std::int64_t, xplane::EventName>* best = nullptr;
    for (const auto& entry : plane->event_names) {
      const auto& [id, kind] = entry;
      const std::string_view known = kind.name.substr(0, kind.name.rfind('('));
      // Without the program's id, any of the module's programs is better than none.
      const bool fits =
          program ? id == *program || kind.name == full : known == alone || kind.name == alone;
      if (!fits) continue;
      // By its whole name, or else the lowest, because the order of the names is random.
      const auto rank = [&full](const auto& one) {
        return std::pair(one.second.name != full, one.first);
      };
      if (best == nullptr || rank(entry) < rank(*best)) best = &entry;
    }
    if (best != nullptr && stat != 0) {
      if (const std::string_view proto = ProtoOf(best->second, stat); !proto.empty()) return proto;
    }
  }
  return absl::NotFoundError(StrCat("the trace does not hold the HLO of ", name.substr(0, 200)));
}

}  // namespace strobe::analysis

// Reads the HLO of a module, which profilers store in their traces: the graph of instructions that
// XLA has compiled. Nothing is copied; the bytes must outlive the module. They are not trusted.
//
// The numbers of messages' fields are those of XLA's xla/service/hlo.proto and xla/xla_data.proto
// (openxla/xla, Apache-2.0). There is no proto of our own for them, because a parser would copy the
// constants that a module holds, which can be most of its size.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "collector/trace/xplane/space.h"

namespace strobe::analysis {

struct HloInstruction {
  std::string_view name{}, opcode{};
  std::string_view bytes{};               // An HloInstructionProto.
  std::vector<std::uint32_t> operands{};  // Numbers of instructions of the same computation.
  std::vector<std::int64_t> calls{};      // Ids of computations.
};

struct HloComputation {
  std::int64_t id = 0;
  std::string_view name{};
  std::uint32_t root = 0;  // The number of the instruction that gives the result.
  std::vector<HloInstruction> instructions{};
  // Instructions that were named as an operand but are not there; an intact module has none.
  std::uint64_t missing = 0;

  // Returns for each instruction those that it is an operand of, each once.
  std::vector<std::vector<std::uint32_t>> Users() const;
};

struct HloModule {
  std::string_view name{};
  std::vector<HloComputation> computations{};
  absl::flat_hash_map<std::int64_t, std::size_t> numbers{};  // Places of computations, by id.
  std::int64_t entry = 0;  // The id of the computation that the program begins with.

  // Reads an HloProto. DataLoss when it is malformed, OutOfRange when it has more than
  // kMaxInstructions.
  static absl::StatusOr<HloModule> Read(std::string_view bytes);
  static constexpr std::size_t kMaxInstructions = 1'000'000;

  struct InstructionRef {
    std::uint32_t computation = 0, instruction = 0;
  };
  // NotFound when the module has no instruction of that name.
  absl::StatusOr<InstructionRef> Find(std::string_view instruction) const;
  // The instruction that gives the module's result. NotFound when the entry computation is missing.
  absl::StatusOr<InstructionRef> Root() const;
  const HloComputation* Computation(std::int64_t id) const;
};

// The instruction in HLO's text form, with its shape and operands, at most about `max_bytes` long.
std::string HloText(const HloModule& module, const HloModule::InstructionRef& place,
                    std::size_t max_bytes);
// "f32[200,200]{1,0}".
std::string HloShape(const HloInstruction& instruction);
// What the framework says of the instruction: its operation, and the line of source code; both may
// be empty.
struct HloOrigin {
  std::string op{}, source{};
};
HloOrigin OriginOf(const HloInstruction& instruction);

// The HloProto of a module in a trace. `name` may be the module's name alone or, as in
// "jit_step(12)", with the program's id; `program` is that id if it is known. NotFound when the
// trace does not hold it.
absl::StatusOr<std::string_view> FindHloProto(const xplane::Space& space, std::string_view name,
                                              std::optional<std::int64_t> program);

}  // namespace strobe::analysis

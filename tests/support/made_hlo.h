// Encodes small HLO modules for tests, by the field numbers of XLA's protos.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "collector/trace/xplane/wire.h"

namespace strobe {

struct MadeInstruction {
  std::string_view name{}, opcode{};
  std::int64_t id = 0;
  std::vector<std::int64_t> operands{}, calls{};
  std::string more{};  // Further fields, encoded.
};

inline std::string Packed(const std::vector<std::int64_t>& numbers) {
  std::string bytes;
  for (const std::int64_t number : numbers)
    wire::AppendVarint(static_cast<std::uint64_t>(number), bytes);
  return bytes;
}

// f32[2,3]{1,0}
inline std::string MadeShape() {
  std::string layout, shape;
  wire::AppendBytesField(1, Packed({1, 0}), layout);
  wire::AppendVarintField(2, 11, shape);
  wire::AppendBytesField(3, Packed({2, 3}), shape);
  wire::AppendBytesField(5, layout, shape);
  return shape;
}

inline std::string MadeComputation(std::string_view name, std::int64_t id, std::int64_t root,
                                   const std::vector<MadeInstruction>& instructions) {
  std::string computation;
  wire::AppendBytesField(1, name, computation);
  wire::AppendVarintField(5, static_cast<std::uint64_t>(id), computation);
  wire::AppendVarintField(6, static_cast<std::uint64_t>(root), computation);
  for (const MadeInstruction& made : instructions) {
    std::string bytes;
    wire::AppendBytesField(1, made.name, bytes);
    wire::AppendBytesField(2, made.opcode, bytes);
    wire::AppendBytesField(3, MadeShape(), bytes);
    wire::AppendVarintField(35, static_cast<std::uint64_t>(made.id), bytes);
    wire::AppendBytesField(36, Packed(made.operands), bytes);
    wire::AppendBytesField(38, Packed(made.calls), bytes);
    bytes += made.more;
    wire::AppendBytesField(2, bytes, computation);
  }
  return computation;
}

// An HloProto whose entry computation is the one with the id `entry`.
inline std::string MadeProto(std::string_view name, std::int64_t entry,
                             const std::vector<std::string>& computations) {
  std::string module, proto;
  wire::AppendBytesField(1, name, module);
  for (const std::string& computation : computations)
    wire::AppendBytesField(3, computation, module);
  wire::AppendVarintField(6, static_cast<std::uint64_t>(entry), module);
  wire::AppendBytesField(1, module, proto);
  return proto;
}

// An XSpace with the plane in which profilers keep modules: `name` is as in "jit_step(7)".
inline std::string MadeMetadataPlane(std::string_view name, std::int64_t program,
                                     std::string_view proto, std::string_view stat = "Hlo Proto") {
  std::string plane, metadata, entry, value, stat_name, stat_entry, space;
  wire::AppendBytesField(2, "/host:metadata", plane);
  wire::AppendVarintField(1, 3, value);
  wire::AppendBytesField(6, proto, value);
  wire::AppendVarintField(1, static_cast<std::uint64_t>(program), metadata);
  wire::AppendBytesField(2, name, metadata);
  wire::AppendBytesField(5, value, metadata);
  wire::AppendVarintField(1, static_cast<std::uint64_t>(program), entry);
  wire::AppendBytesField(2, metadata, entry);
  wire::AppendBytesField(4, entry, plane);
  wire::AppendVarintField(1, 3, stat_name);
  wire::AppendBytesField(2, stat, stat_name);
  wire::AppendVarintField(1, 3, stat_entry);
  wire::AppendBytesField(2, stat_name, stat_entry);
  wire::AppendBytesField(5, stat_entry, plane);
  wire::AppendBytesField(1, plane, space);
  return space;
}

}  // namespace strobe

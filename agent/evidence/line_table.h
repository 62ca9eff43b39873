// The line of an instruction, from the tables that CPython's compiler makes. Pure, for any bytes.
#pragma once
#include <cstdint>
#include <span>

namespace strobe::agent {

// `minor` is the version, 3.minor. `offset` is the instruction's place in the bytecode, in bytes.
// -1 if the instruction has no line, or the table is damaged.
int LineOf(int minor, std::span<const std::uint8_t> table, int first_line, std::int64_t offset);

}  // namespace strobe::agent

// Where CPython keeps what its stacks are read from: the same on x86-64 and arm64. Pure.
//
// 3.9 to 3.12 by tables, whose numbers come from the headers of each version; 3.13 and 3.14 tell
// them in the first words of _PyRuntime. Everything else is refused.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "agent/evidence/memory_view.h"

namespace strobe::agent {

// How a frame tells which instruction it runs.
enum class Instruction : std::uint8_t { kByteIndex, kUnitIndex, kPointer };

// Offsets in bytes; -1 for what the version does not have.
struct PythonLayout {
  int minor = 0;                            // The version is 3.minor.
  int interpreters = -1;                    // In _PyRuntime: the newest interpreter.
  int gil_in_runtime = -1;                  // In _PyRuntime, before 3.12.
  int gil_in_interpreter = -1;              // In an interpreter, a pointer to it, since then.
  int gil_locked = -1, gil_holder = -1;     // In the lock.
  int interpreter_next = -1, threads = -1;  // In an interpreter; the newest thread.
  int thread_next = -1, thread_id = -1, native_id = -1;  // In a thread's state.
  int call_frame = -1;  // In a thread's state, a pointer to what has `frame`; 3.11 and 3.12.
  int frame = -1;
  int frame_previous = -1, frame_code = -1, frame_instruction = -1, frame_owner = -1;
  int frame_line = -1;  // The line itself, while the thread is traced; 3.10.
  int frame_bytes = 0;
  Instruction instruction = Instruction::kPointer;
  int code_file = -1, code_name = -1, code_first_line = -1, code_lines = -1, code_bytecode = -1;
  int code_bytes = 0;
  int type = 8;                                 // In each object.
  int bytes_size = 16, bytes_data = 32;         // In bytes.
  int text_length = 16, text_state = 32;        // In str.
  int text_ascii = 48, text_other = 72;         // In str, the characters.
  std::uint64_t code_mask = ~std::uint64_t{0};  // The bits of a code object's address in a frame.
};

inline constexpr int kMaxFrameBytes = 256, kMaxCodeBytes = 512;

// `runtime` is the address of _PyRuntime, and `minor` the version that Python tells. None if the
// version is not known or what it tells contradicts it, and for builds without the lock.
std::optional<PythonLayout> LayoutOf(const MemoryView& memory, std::uint64_t runtime, int minor);

// The line of an instruction, from the tables that CPython's compiler makes, for any bytes.
// `minor` is the version, 3.minor. `offset` is the instruction's place in the bytecode, in bytes.
// -1 if the instruction has no line, or the table is damaged.
int LineOf(int minor, std::span<const std::uint8_t> table, int first_line, std::int64_t offset);

}  // namespace strobe::agent

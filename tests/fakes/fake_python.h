// The memory of a process with CPython 3.11, of which somebody may change every byte.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "agent/evidence/memory_view.h"
#include "agent/evidence/python_stacks.h"

namespace strobe::agent {

class FakePython final : public MemoryView {
 public:
  static constexpr std::uint64_t kBegin = 0x10000;

  // One interpreter, whose threads are added below, newest first.
  FakePython() : bytes_(256, '\0') {
    process_ = {.runtime = kBegin, .code_type = kBegin + 248, .tid_in_pthread = -1, .pid = 100};
    interpreter_ = Add(64);
    Put(kBegin + 40, interpreter_);
  }

  // A function whose only line is `line`.
  std::uint64_t AddCode(std::string_view file, std::string_view name, std::int32_t line) {
    const std::uint64_t code = Add(256);
    Put(code + 8, process_.code_type);
    Put(code + 112, AddText(file));
    Put(code + 128, AddText(name));
    Put(code + 136, AddBytes(std::string("\xeb\x00", 2)));  // 8 bytes of code, 0 lines further.
    std::memcpy(&bytes_[code + 72 - kBegin], &line, sizeof line);
    return code;
  }

  // `codes` are the innermost function's first.
  std::uint64_t AddThread(std::uint64_t tid, const std::vector<std::uint64_t>& codes) {
    std::uint64_t frame = 0;
    for (auto code = codes.rbegin(); code != codes.rend(); ++code) {
      const std::uint64_t made = Add(80);
      Put(made + 48, frame);
      Put(made + 32, *code);
      Put(made + 56, *code + 184 + 2);
      frame = made;
    }
    const std::uint64_t call = Add(16), thread = Add(256);
    Put(call + 8, frame);
    Put(thread + 56, call);
    Put(thread + 152, 0x7f00'0000'0000 + tid);
    Put(thread + 160, tid);
    Put(newest_ == 0 ? interpreter_ + 16 : newest_ + 8, thread);
    newest_ = thread;
    return thread;
  }

  void GiveLock(std::uint64_t thread) {
    Put(kBegin + kGil + 8, thread);
    bytes_[kGil + 16] = 1;
  }

  std::uint64_t AddText(std::string_view text) {
    const std::uint64_t at = Add(48 + text.size());
    Put(at + 16, text.size());
    bytes_[at + 32 - kBegin] = static_cast<char>(1 << 2 | 1 << 5 | 1 << 6);
    text.copy(&bytes_[at + 48 - kBegin], text.size());
    return at;
  }

  std::uint64_t AddBytes(std::string_view data) {
    const std::uint64_t at = Add(32 + data.size());
    Put(at + 16, data.size());
    data.copy(&bytes_[at + 32 - kBegin], data.size());
    return at;
  }

  void Put(std::uint64_t at, std::uint64_t value) {
    std::memcpy(&bytes_[at - kBegin], &value, sizeof value);
  }

  bool Read(std::uint64_t at, void* to, std::size_t size) const override {
    ++reads_;
    if (at < kBegin || at - kBegin > bytes_.size() || size > bytes_.size() - (at - kBegin))
      return false;
    std::memcpy(to, bytes_.data() + (at - kBegin), size);
    return true;
  }

  const PythonProcess& process() const { return process_; }
  std::string& bytes() { return bytes_; }
  std::uint64_t reads() const { return reads_; }

 private:
  static constexpr std::size_t kGil = 360;

  std::uint64_t Add(std::size_t size) {
    // The lock is in front of the first object.
    const std::size_t at = std::max<std::size_t>((bytes_.size() + 15) / 16 * 16, 512);
    bytes_.resize(at + size);
    return kBegin + at;
  }

  std::string bytes_;
  PythonProcess process_{};
  std::uint64_t interpreter_ = 0, newest_ = 0;
  mutable std::uint64_t reads_ = 0;
};

}  // namespace strobe::agent

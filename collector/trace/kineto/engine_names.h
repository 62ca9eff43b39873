// Annotations of inference servers, whose names tell the batch that they are about: those of
// strobe._inproc, of vLLM and of SGLang. Pure.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace strobe::kineto {

struct EngineStat {
  std::string_view name{};  // "decode_tokens" or the like.
  std::int64_t value = 0;
};

class EngineName {
 public:
  explicit EngineName(std::string_view kind) : kind_(kind) {}
  void Add(std::string_view name, std::int64_t value) {
    if (size_ < stats_.size()) stats_[size_++] = {.name = name, .value = value};
  }
  void SetStep(std::int64_t number) { step_ = number; }

  // The name that annotations of one kind have in common: "engine", "engine.schedule",
  // "execute_model", "step[DECODE]".
  std::string_view kind() const { return kind_; }
  // The number of the iteration; only Strobe's own annotations tell it.
  std::optional<std::int64_t> step() const { return step_; }
  std::span<const EngineStat> stats() const { return {stats_.data(), size_}; }

 private:
  std::string_view kind_;
  std::optional<std::int64_t> step_{};
  std::array<EngineStat, 6> stats_{};
  std::size_t size_ = 0;
};

// Reads a name:
//   engine#812 p=1/468 d=9/9 r=10 w=3           requests and tokens of prefill and decode, and the
//   engine.schedule r=10 w=3                    requests that run and wait: Strobe's
//   execute_context_1(468)_generation_9(9)      vLLM's, also as execute_7_context_1(...
//   step[DECODE bs=8], step[EXTEND bs=2 toks=9] SGLang's
// None for any other name. The result refers to `name`.
std::optional<EngineName> EngineNameOf(std::string_view name);

}  // namespace strobe::kineto

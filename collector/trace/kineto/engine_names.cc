#include "collector/trace/kineto/engine_names.h"

#include <charconv>
#include <initializer_list>

namespace strobe::kineto {
namespace {

// Takes pieces from the front of a text.
class NameReader {
 public:
  explicit NameReader(std::string_view text) : text_(text) {}

  bool Skip(std::string_view piece) {
    if (!text_.starts_with(piece)) return false;
    text_.remove_prefix(piece.size());
    return true;
  }
  std::optional<std::int64_t> TakeNumber() {
    std::int64_t number = 0;
    const auto [end, error] = std::from_chars(text_.data(), text_.data() + text_.size(), number);
    if (error != std::errc() || number < 0) return std::nullopt;
    text_.remove_prefix(static_cast<std::size_t>(end - text_.data()));
    return number;
  }
  // What comes before the next `close`, which is taken too.
  std::optional<std::string_view> TakeUntil(char close) {
    const std::size_t end = text_.find(close);
    if (end == std::string_view::npos) return std::nullopt;
    const std::string_view taken = text_.substr(0, end);
    text_.remove_prefix(end + 1);
    return taken;
  }
  std::string_view rest() const { return text_; }

 private:
  std::string_view text_;
};

// " p=1/468 d=9/9", each part only if it is there.
bool AddBatch(NameReader& reader, EngineName& engine) {
  for (const auto& [mark, requests, tokens] :
       {std::array<std::string_view, 3>{" p=", "prefill_requests", "prefill_tokens"},
        std::array<std::string_view, 3>{" d=", "decode_requests", "decode_tokens"}}) {
    if (!reader.Skip(mark)) continue;
    const std::optional<std::int64_t> count = reader.TakeNumber();
    if (!count || !reader.Skip("/")) return false;
    const std::optional<std::int64_t> sum = reader.TakeNumber();
    if (!sum) return false;
    engine.Add(requests, *count);
    engine.Add(tokens, *sum);
  }
  return true;
}

// " r=10 w=3", each part only if it is there. False if anything else follows.
bool AddQueue(NameReader& reader, EngineName& engine) {
  for (const auto& [mark, what] : {std::array<std::string_view, 2>{" r=", "running"},
                                   std::array<std::string_view, 2>{" w=", "waiting"}}) {
    if (!reader.Skip(mark)) continue;
    const std::optional<std::int64_t> count = reader.TakeNumber();
    if (!count) return false;
    engine.Add(what, *count);
  }
  return reader.rest().empty();
}

std::optional<EngineName> StrobesName(std::string_view name) {
  constexpr std::string_view kIteration = "engine", kPlanning = "engine.schedule";
  NameReader reader(name);
  if (reader.Skip(kPlanning)) {
    EngineName planning(kPlanning);
    return AddQueue(reader, planning) ? std::optional(planning) : std::nullopt;
  }
  if (!reader.Skip(kIteration) || !reader.Skip("#")) return std::nullopt;
  EngineName iteration(kIteration);
  const std::optional<std::int64_t> number = reader.TakeNumber();
  if (!number) return std::nullopt;
  iteration.SetStep(*number);
  return AddBatch(reader, iteration) && AddQueue(reader, iteration) ? std::optional(iteration)
                                                                    : std::nullopt;
}

// vLLM's brackets hold the tokens or, if it is asked for details, something longer.
bool AddVllmPart(NameReader& reader, std::string_view mark, std::string_view requests,
                 std::string_view tokens, EngineName& engine) {
  if (!reader.Skip(mark)) return false;
  const std::optional<std::int64_t> count = reader.TakeNumber();
  if (!count || !reader.Skip("(")) return false;
  engine.Add(requests, *count);
  const std::optional<std::string_view> inner = reader.TakeUntil(')');
  if (!inner) return false;
  NameReader content(*inner);
  const std::optional<std::int64_t> sum = content.TakeNumber();
  if (sum && content.rest().empty()) engine.Add(tokens, *sum);
  return true;
}

std::optional<EngineName> VllmsName(std::string_view name) {
  NameReader reader(name);
  if (!reader.Skip("execute_")) return std::nullopt;
  if (reader.TakeNumber() && !reader.Skip("_")) return std::nullopt;
  EngineName engine("execute_model");
  if (!AddVllmPart(reader, "context_", "prefill_requests", "prefill_tokens", engine) ||
      !AddVllmPart(reader, "_generation_", "decode_requests", "decode_tokens", engine) ||
      !reader.rest().empty())
    return std::nullopt;
  return engine;
}

std::optional<EngineName> SglangsName(std::string_view name) {
  // Modes that only decode, and those that only prefill. The others are mixed.
  struct Mode {
    std::string_view name{}, kind{}, requests{}, tokens{};
  };
  static constexpr std::array<Mode, 4> kModes = {{{.name = "DECODE",
                                                   .kind = "step[DECODE]",
                                                   .requests = "decode_requests",
                                                   .tokens = "decode_tokens"},
                                                  {.name = "EXTEND",
                                                   .kind = "step[EXTEND]",
                                                   .requests = "prefill_requests",
                                                   .tokens = "prefill_tokens"},
                                                  {.name = "MIXED",
                                                   .kind = "step[MIXED]",
                                                   .requests = "batch_requests",
                                                   .tokens = "batch_tokens"},
                                                  {.name = "TARGET_VERIFY",
                                                   .kind = "step[TARGET_VERIFY]",
                                                   .requests = "decode_requests",
                                                   .tokens = "decode_tokens"}}};
  NameReader reader(name);
  if (!reader.Skip("step[")) return std::nullopt;
  for (const Mode& mode : kModes) {
    if (!reader.Skip(mode.name)) continue;
    EngineName engine(mode.kind);
    if (!reader.Skip(" bs=")) return std::nullopt;
    const std::optional<std::int64_t> requests = reader.TakeNumber();
    if (!requests) return std::nullopt;
    engine.Add(mode.requests, *requests);
    if (reader.Skip(" toks=")) {
      const std::optional<std::int64_t> tokens = reader.TakeNumber();
      if (!tokens) return std::nullopt;
      engine.Add(mode.tokens, *tokens);
    }
    return reader.rest() == "]" ? std::optional(engine) : std::nullopt;
  }
  return std::nullopt;
}

}  // namespace

std::optional<EngineName> EngineNameOf(std::string_view name) {
  if (name.starts_with("engine")) return StrobesName(name);
  if (name.starts_with("execute_")) return VllmsName(name);
  if (name.starts_with("step[")) return SglangsName(name);
  return std::nullopt;
}

}  // namespace strobe::kineto

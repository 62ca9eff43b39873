#include "sidecar/source/base/engine_work.h"

#include <algorithm>
#include <string_view>

#include "common/base/strings.h"
#include "sidecar/source/base/json_fields.h"

namespace strobe::source {
namespace {

// So that sums over many processes do not overflow.
constexpr std::uint64_t kMaxWork = std::uint64_t{1} << 48;

std::string CountOf(std::uint64_t count, std::string_view what) {
  return StrCat(count, " ", what, count == 1 ? "" : "s");
}

std::string QueueWordsOf(const v1::EngineWork& work) {
  if (!work.has_running()) return "";
  return StrCat(", running ", work.running(), ", waiting ", work.waiting());
}

}  // namespace

std::optional<v1::EngineWork> EngineWorkIn(const nlohmann::json& line) {
  const auto told = line.find("engine");
  if (told == line.end() || !told->is_object()) return std::nullopt;
  const auto number = [&](const char* key) -> std::optional<std::uint64_t> {
    const auto known = NumberField<std::uint64_t>(*told, key);
    return known ? std::optional(std::min(*known, kMaxWork)) : std::nullopt;
  };
  v1::EngineWork work;
  if (const auto iterations = number("iterations")) work.set_iterations(*iterations);
  work.set_prefills(number("prefills").value_or(0));
  work.set_dummies(number("dummies").value_or(0));
  work.set_requests(number("requests").value_or(0));
  work.set_prefill_tokens(number("prefill_tokens").value_or(0));
  work.set_decode_tokens(number("decode_tokens").value_or(0));
  if (const auto running = number("running")) work.set_running(*running);
  if (const auto waiting = number("waiting")) work.set_waiting(*waiting);
  return work;
}

bool HadNoRequests(const v1::EngineWork& work) {
  return work.has_iterations() && work.iterations() == 0;
}

std::string EngineWords(const v1::EngineWork& work) {
  if (HadNoRequests(work))
    return StrCat("NoRequests: no request ran in the window: 0 iterations, ", work.dummies(),
                  " batches without requests", QueueWordsOf(work),
                  "; send load to every engine, or capture while requests run");
  if (!work.has_iterations()) return StrCat("schedules an engine", QueueWordsOf(work));
  return StrCat(CountOf(work.iterations(), "iteration"), " (", work.prefills(), " with prefill), ",
                CountOf(work.requests(), "request"), ", ", work.prefill_tokens(), " prompt and ",
                work.decode_tokens(), " generated tokens");
}

}  // namespace strobe::source

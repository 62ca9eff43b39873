#include "viewer/service/gate.h"

#include <algorithm>

#include "common/base/log.h"
#include "common/base/strings.h"
#include "viewer/page_policy.h"

namespace strobe::viewer {
namespace {

http::Page Refusal(const absl::Status& why) {
  int code = 400;
  if (absl::IsUnauthenticated(why)) code = 401;
  if (absl::IsPermissionDenied(why)) code = 403;
  if (absl::IsOutOfRange(why)) code = 431;  // Request Header Fields Too Large.
  return {.status = code, .body = MessageOf(why) + "\n"};
}

}  // namespace

Gate::Gate(const Clock& clock, Access& access, Options options, Handler inside)
    : clock_(clock),
      access_(access),
      options_(std::move(options)),
      namespaces_(options_.namespaces),
      inside_(std::move(inside)),
      log_lines_(1, 10, clock.MonoNow()) {
  std::sort(namespaces_.begin(), namespaces_.end());
  namespaces_.erase(std::unique(namespaces_.begin(), namespaces_.end()), namespaces_.end());
}

http::Page Gate::Answer(const http::Request& request) {
  http::Page page = Judged(request);
  const bool has_policy =
      std::any_of(page.headers.begin(), page.headers.end(),
                  [](const auto& header) { return header.first == "Content-Security-Policy"; });
  if (!has_policy) AddPolicy(page);
  return page;
}

http::Page Gate::Judged(const http::Request& request) {
  // First, because a hostile site whose name resolves to this address may send any header.
  if (!IsAllowedHost(request.host, options_.hosts))
    return {.status = 403,
            .body =
                "this server does not answer to that name; add the name to \"hosts\" of its "
                "configuration\n"};
  const absl::StatusOr<Asker> asker = ReadAsker(request, options_.identity);
  if (!asker.ok()) return Refusal(asker.status());
  const absl::StatusOr<std::vector<bool>> allowed = access_.MaySee(*asker, namespaces_);
  if (!allowed.ok()) {
    LogFailure(allowed.status());
    return {.status = 503,
            .body = "the cluster did not say what you may see; try again in a moment\n",
            .headers = {{"Retry-After", "2"}}};
  }
  return inside_(request, LogdirsOf(*allowed));
}

VisibleLogdirs Gate::LogdirsOf(const std::vector<bool>& allowed) const {
  VisibleLogdirs visible;
  for (std::size_t i = 0; i < options_.namespaces.size(); ++i) {
    const auto place =
        std::lower_bound(namespaces_.begin(), namespaces_.end(), options_.namespaces[i]);
    if (allowed[static_cast<std::size_t>(place - namespaces_.begin())]) visible.push_back(i);
  }
  return visible;
}

http::Work Gate::WorkOf(const http::Request& request) {
  using http::Load;
  const absl::StatusOr<Asker> asker = ReadAsker(request, options_.identity);
  // It is refused at once.
  if (!asker.ok()) return {Load::kShort, StrCat("address ", request.source)};
  const std::optional<std::vector<bool>> allowed = access_.Remembered(*asker, namespaces_);
  std::optional<VisibleLogdirs> visible;
  if (allowed) visible = LogdirsOf(*allowed);
  Load load =
      options_.load_of ? options_.load_of(request, visible ? &*visible : nullptr) : Load::kShort;
  if (load == Load::kShort && !visible && access_.MustAsk(*asker, namespaces_)) load = Load::kWaits;
  return {load, StrCat("user ", asker->user)};
}

void Gate::LogFailure(const absl::Status& why) {
  MutexLock lock(&mutex_);
  log_lines_.Refill(clock_.MonoNow());
  if (log_lines_.Take()) LogWarning("access is not known", {{"error", MessageOf(why)}});
}

}  // namespace strobe::viewer

#include "common/grpc_tls/grpc_log.h"

#include <grpc/support/log.h>

#include <string_view>
#include <utility>

#include "common/base/log.h"

namespace strobe {
namespace {

thread_local std::string* g_collected = nullptr;  // The text of this thread's GrpcErrors.

std::function<void()>& FailedHandshake() {
  static auto* const observer = new std::function<void()>;
  return *observer;
}

void OnGrpcLog(gpr_log_func_args* args) {
  const std::string_view message = args->message;
  // gRPC 1.51 reports failed handshakes in its log only. Peers cause these lines, so they are
  // counted and not logged: strangers could otherwise fill our log.
  if (message.starts_with("Handshake failed with fatal error")) {
    if (FailedHandshake()) FailedHandshake()();
    return;
  }
  if (message.starts_with("No match found for server name")) return;
  if (args->severity != GPR_LOG_SEVERITY_ERROR) return;
  if (g_collected != nullptr)
    g_collected->append(message);
  else
    LogWarning("gRPC", {{"message", std::string(message)}});
}

}  // namespace

void ObserveFailedHandshakes(std::function<void()> failed) {
  FailedHandshake() = std::move(failed);
  gpr_set_log_function(&OnGrpcLog);
}

GrpcErrors::GrpcErrors() {
  gpr_set_log_function(&OnGrpcLog);
  g_collected = &text_;
}

GrpcErrors::~GrpcErrors() { g_collected = nullptr; }

std::string GrpcErrors::SystemError() const {
  constexpr std::string_view kMark = "os_error:\"";
  const std::size_t mark = text_.find(kMark);
  if (mark == std::string::npos) return "";
  const std::size_t begin = mark + kMark.size(), end = text_.find('"', begin);
  return text_.substr(begin, end - begin);
}

}  // namespace strobe

// The receiver of alerts with a sink that writes each alert to standard output, one JSON line per
// call. `alert_recorder DIRECTORY` uses these files of it, as far as they are there: server.crt,
// server.key, token, token-next, clients.crt. While the file `unavailable` is there, the sink
// cannot decide. The first line names the port of the receiver and that of its metrics.
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "common/base/log.h"
#include "operator/metrics/operator_metrics.h"
#include "operator/trigger/alert_receiver.h"

namespace {

class PrintingSink final : public strobe::trigger::AlertSink {
 public:
  explicit PrintingSink(std::string unavailable) : unavailable_(std::move(unavailable)) {}

  absl::Status Take(std::span<const strobe::trigger::Alert> alerts, strobe::MonoTime) override {
    nlohmann::json line = {{"alerts", nlohmann::json::array()},
                           {"unavailable", std::filesystem::exists(unavailable_)}};
    for (const strobe::trigger::Alert& alert : alerts) {
      line["alerts"].push_back({{"fingerprint", alert.fingerprint},
                                {"firing", alert.firing},
                                {"labels", alert.labels},
                                {"annotations", alert.annotations},
                                {"starts", strobe::FormatRfc3339(alert.starts)}});
    }
    const std::string text = line.dump() + "\n";
    const strobe::MutexLock lock(&mutex_);
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
    return line["unavailable"] ? absl::UnavailableError("told so") : absl::OkStatus();
  }

 private:
  const std::string unavailable_;
  strobe::Mutex mutex_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return std::fprintf(stderr, "alert_recorder DIRECTORY\n"), 2;
  const std::filesystem::path directory = argv[1];
  strobe::InitLog(strobe::LogLevel::kInfo, strobe::LogFormat::kText);
  const strobe::SystemClock clock;
  strobe::metrics::OperatorMetrics metrics;
  PrintingSink sink(directory / "unavailable");
  strobe::trigger::AlertReceiverOptions options{
      .listen = "127.0.0.1:0",
      .files = {.certificate = directory / "server.crt", .key = directory / "server.key"}};
  if (std::filesystem::exists(directory / "token"))
    options.token_files = {directory / "token", directory / "token-next"};
  if (std::filesystem::exists(directory / "clients.crt"))
    options.files.client_authority = directory / "clients.crt";
  const auto receiver =
      strobe::trigger::AlertReceiver::Start(clock, options, sink, metrics.receiver());
  if (!receiver.ok()) return std::fprintf(stderr, "%s\n", receiver.status().ToString().c_str()), 1;
  const auto pages = strobe::http::Server::Start(
      {.listen = "127.0.0.1:0"}, {{"/metrics", [&](const strobe::http::Request&) {
                                     return strobe::http::MetricsPage(metrics.Render());
                                   }}});
  std::printf("{\"receiver\": %d, \"metrics\": %d}\n", (*receiver)->port(), (*pages)->port());
  std::fflush(stdout);
  while (true) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    (*receiver)->ReloadFiles();
  }
}

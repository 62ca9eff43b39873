#include "common/base/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include "common/base/clock.h"
#include "common/base/json_text.h"

namespace strobe {
namespace {

LogFormat g_format = LogFormat::kText;

spdlog::level::level_enum ToSpdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
  }
  return spdlog::level::info;
}

std::string Quote(const std::string& text) { return JsonText(nlohmann::json(text)); }

std::string QuoteIfNeeded(const std::string& text) {
  const bool plain = !text.empty() &&
                     text.find_first_not_of(
                         "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/:+%") ==
                         std::string::npos;
  return plain ? text : Quote(text);
}

}  // namespace

void InitLog(LogLevel least, LogFormat format) {
  g_format = format;
  auto logger =
      std::make_shared<spdlog::logger>("", std::make_shared<spdlog::sinks::stderr_sink_mt>());
  logger->set_pattern(format == LogFormat::kJson ? "%v" : "%Y-%m-%dT%H:%M:%S.%eZ %L %v",
                      spdlog::pattern_time_type::utc);
  logger->set_level(ToSpdlog(least));
  // Flushes every line, so that none is lost if the process is killed.
  logger->flush_on(spdlog::level::debug);
  spdlog::set_default_logger(std::move(logger));
}

void Log(LogLevel level, std::string_view message, std::initializer_list<LogField> fields) {
  if (!spdlog::should_log(ToSpdlog(level))) return;
  std::string line;
  if (g_format == LogFormat::kJson) {
    line = "{\"time\":" + Quote(FormatRfc3339(SystemClock().WallNow(), 6)) + ",\"level\":\"" +
           spdlog::level::to_string_view(ToSpdlog(level)).data() +
           "\",\"message\":" + Quote(std::string(message));
    for (const LogField& field : fields) {
      line += "," + Quote(std::string(field.key)) + ":" + Quote(field.value);
    }
    line += "}";
  } else {
    line = message;
    for (const LogField& field : fields) {
      line += " " + std::string(field.key) + "=" + QuoteIfNeeded(field.value);
    }
  }
  spdlog::log(ToSpdlog(level), spdlog::string_view_t(line.data(), line.size()));
}

bool ParseLogLevel(std::string_view text, LogLevel& level) {
  if (text == "debug")
    level = LogLevel::kDebug;
  else if (text == "info")
    level = LogLevel::kInfo;
  else if (text == "warning")
    level = LogLevel::kWarning;
  else if (text == "error")
    level = LogLevel::kError;
  else
    return false;
  return true;
}

}  // namespace strobe

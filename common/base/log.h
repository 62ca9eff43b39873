// Structured log lines on standard error: time, level, message, then key=value pairs. One line per
// event; values are quoted when they need it, so no outside text can forge a line.
#pragma once
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

namespace strobe {

enum class LogLevel { kDebug, kInfo, kWarning, kError };
enum class LogFormat { kText, kJson };

struct LogField {
  std::string_view key;
  std::string value;
};

// Called once, first thing in main. Lines below `least` are not written.
void InitLog(LogLevel least, LogFormat format);
// Never blocks on anything but the write itself; safe from any thread.
void Log(LogLevel level, std::string_view message, std::initializer_list<LogField> fields = {});

inline void LogInfo(std::string_view message, std::initializer_list<LogField> fields = {}) {
  Log(LogLevel::kInfo, message, fields);
}
inline void LogWarning(std::string_view message, std::initializer_list<LogField> fields = {}) {
  Log(LogLevel::kWarning, message, fields);
}
inline void LogError(std::string_view message, std::initializer_list<LogField> fields = {}) {
  Log(LogLevel::kError, message, fields);
}

// "debug", "info", "warning", "error"; false for anything else.
bool ParseLogLevel(std::string_view text, LogLevel& level);

}  // namespace strobe

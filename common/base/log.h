// Structured log lines on standard error: time, level, message, then key=value pairs. Every event
// is one line. Values are quoted where needed, so text from outside cannot forge a line.
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

// Call once, at the beginning of main. Lines below the level `least` are not written.
void InitLog(LogLevel least, LogFormat format);
// Blocks only for the write itself. Safe for concurrent use.
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

// Accepts "debug", "info", "warning" and "error"; false for any other text.
bool ParseLogLevel(std::string_view text, LogLevel& level);

}  // namespace strobe

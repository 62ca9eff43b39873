#include "collector/store/logdir.h"

#include <charconv>
#include <filesystem>
#include <vector>

#include "absl/time/time.h"
#include "common/base/strings.h"
#include "common/text/safe_text.h"

namespace strobe::storage {
namespace {

absl::Status Refuse(std::string_view text, std::string_view why) {
  return absl::InvalidArgumentError(StrCat("logdir \"", text, "\" ", why));
}

// Decodes escapes such as "%2F". False if a percent sign is not followed by two hexadecimal digits.
bool PercentDecode(std::string_view text, std::string& decoded) {
  decoded.clear();
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      decoded += text[i];
      continue;
    }
    unsigned byte = 0;
    const char* const first = text.data() + i + 1;
    if (i + 2 >= text.size() || std::from_chars(first, first + 2, byte, 16).ptr != first + 2)
      return false;
    decoded += static_cast<char>(byte);
    i += 2;
  }
  return true;
}

}  // namespace

absl::StatusOr<Logdir> Logdir::Parse(std::string_view text) {
  if (text.empty())
    return Refuse(text, "is empty; give an absolute path or a URL such as gs://bucket/path");
  if (text.size() > 1024) return Refuse(text.substr(0, 32), "is longer than 1024 characters");
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
      return Refuse("", "has a control character");
  }
  // The logdir is a protobuf string, which must be UTF-8.
  if (!IsUtf8(text)) return Refuse("", "is not valid UTF-8");
  Logdir logdir;
  std::string_view rest = text;
  const std::size_t colon = text.find("://");
  if (colon == std::string_view::npos) {
    if (text.front() != '/') {
      return Refuse(text,
                    "is neither an absolute path nor a URL; write /path, file:///path, "
                    "gs://bucket/path, s3://bucket/path or az://container/path");
    }
    logdir.scheme_ = "file";
  } else {
    logdir.scheme_ = std::string(text.substr(0, colon));
    rest = text.substr(colon + 3);
    if (logdir.scheme_ != "file" && logdir.scheme_ != "gs" && logdir.scheme_ != "s3" &&
        logdir.scheme_ != "az") {
      return Refuse(
          text, StrCat("has the unknown scheme ", logdir.scheme_, "://; use file, gs, s3 or az"));
    }
    if (rest.find('#') != std::string_view::npos) return Refuse(text, "has a fragment; remove it");
    if (const std::size_t query = rest.find('?'); query != std::string_view::npos) {
      if (logdir.scheme_ == "file") return Refuse(text, "has a query; remove it");
      for (const std::string& option : Split(rest.substr(query + 1), '&')) {
        const std::size_t equals = option.find('=');
        std::string value;
        if (equals == 0 || equals == std::string::npos ||
            !PercentDecode(std::string_view(option).substr(equals + 1), value) ||
            !logdir.options_.emplace(option.substr(0, equals), value).second) {
          return Refuse(text.substr(0, text.find('?')),
                        "has a query that is not key=value&key=value with each key once");
        }
      }
      rest = rest.substr(0, query);
    }
    if (logdir.scheme_ == "file" && (rest.empty() || rest.front() != '/')) {
      return Refuse(text, "has a host; write file:/// with three slashes");
    }
  }
  std::vector<std::string> parts;
  for (std::string& part : Split(rest, '/')) {
    if (part.empty() || part == ".") continue;
    if (part == "..") return Refuse(text, "has \"..\"; write the resolved path");
    parts.push_back(std::move(part));
  }
  if (logdir.scheme_ == "file") {
    logdir.path_ = "/" + Join(parts, "/");
    return logdir;
  }
  if (parts.empty() || rest.starts_with('/')) return Refuse(text, "has no bucket");
  if (parts.front().find('@') != std::string::npos) return Refuse("", "has user info; remove it");
  if (!IsSafeName(parts.front())) return Refuse(text, "has a bucket name with invalid characters");
  logdir.bucket_ = parts.front();
  parts.erase(parts.begin());
  logdir.path_ = Join(parts, "/");
  return logdir;
}

std::string Logdir::url() const {
  if (scheme_ == "file") return "file://" + path_;
  return StrCat(scheme_, "://", bucket_, path_.empty() ? "" : "/", path_);
}

std::string Logdir::UrlOf(std::string_view key) const {
  const std::string url = this->url();
  return StrCat(url, url.ends_with('/') ? "" : "/", key);
}

std::string Logdir::RunUrl(std::string_view run) const { return UrlOf(StrCat(kRunsPrefix, run)); }

std::string AbsoluteLocation(const std::string& place) {
  if (place.empty() || place.front() == '/' || place.find("://") != std::string::npos) return place;
  std::error_code error;
  const std::filesystem::path absolute = std::filesystem::absolute(place, error);
  return error ? place : absolute.lexically_normal().native();
}

std::string RunOfTraceUrl(std::string_view url) {
  const std::size_t file = url.rfind('/');
  if (file == std::string_view::npos || !url.ends_with(kTraceSuffix)) return "";
  url = url.substr(0, file);
  const std::size_t begin = url.rfind('/') + 1;  // 0 without a slash.
  return IsSafeName(url.substr(begin)) ? std::string(url.substr(begin)) : "";
}

bool IsSpaceName(std::string_view name) {
  return name.size() > kTraceSuffix.size() && name.ends_with(kTraceSuffix) &&
         name.find('/') == std::string_view::npos;
}

bool IsTraceJsonName(std::string_view name) {
  return (name.ends_with(".trace.json") || name.ends_with(".trace.json.gz")) &&
         name.find('/') == std::string_view::npos;
}

std::string RunPrefix(std::string_view run) { return StrCat(kRunsPrefix, run, "/"); }

std::string TraceKey(std::string_view run, std::string_view worker) {
  return StrCat(RunPrefix(run), worker, kTraceSuffix);
}

std::string ManifestKey(std::string_view run) { return RunPrefix(run) + "strobe.json"; }
std::string ReportKey(std::string_view run) { return RunPrefix(run) + "report.json"; }
std::string EvidenceKey(std::string_view run) { return RunPrefix(run) + "evidence.json"; }
std::string EvidenceFileKey(std::string_view run, std::string_view worker, std::string_view name) {
  return StrCat(RunPrefix(run), kEvidenceFolder, worker, "/", name);
}

std::string DefaultRunName(WallTime time, std::string_view name, std::string_view id) {
  constexpr std::size_t kMaxName = 160, kMaxId = 8;
  const absl::Time at = absl::FromUnixNanos(ToUnixNanos(time));
  std::string run = StrCat(absl::FormatTime("%Y_%m_%d_%H_%M_%S", at, absl::UTCTimeZone()), "_",
                           name.substr(0, kMaxName));
  if (!id.empty()) run += StrCat("_", id.substr(0, kMaxId));
  return run;
}

std::string RunOfAttempt(std::string_view run, int attempt) {
  return attempt <= 1 ? std::string(run) : StrCat(run, "_attempt", attempt);
}

std::string RunOfUrl(std::string_view url, int attempt) {
  const std::size_t slash = url.rfind('/');
  if (slash == std::string_view::npos) return "";
  std::string_view run = url.substr(slash + 1);
  if (attempt > 1) {
    const std::string suffix = RunOfAttempt("", attempt);
    if (!run.ends_with(suffix)) return "";
    run.remove_suffix(suffix.size());
  }
  return IsSafeName(run) ? std::string(run) : "";
}

}  // namespace strobe::storage

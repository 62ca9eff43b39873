#include "cli/trace_json.h"

#include <algorithm>
#include <cstring>
#include <iostream>
#include <memory>

#include "collector/kineto/gunzip.h"
#include "collector/kineto/trace_file.h"
#include "collector/xplane/file_kind.h"
#include "common/base/file_descriptor.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"

namespace strobe {
namespace {

// Why a file that begins so is no trace, if more can be told than the reader of traces does.
std::string WhyNoTrace(std::string_view raw) {
  const bool compressed = xplane::BeginsGzip(raw);
  const std::string head = PlainHead(raw);
  if (xplane::BeginsJson(head)) {
    if (Contains(head, "speedscope.app/file-format"))
      return "this is a profile of speedscope, no trace; https://www.speedscope.app opens it";
    if (Contains(head, "\"callFrame\""))
      return "this holds only samples (a CPU profile of V8), no events with times; Chrome's "
             "DevTools "
             "or https://www.speedscope.app open it";
    return "";
  }
  if (compressed && head.empty()) return "this is compressed by gzip, and damaged or empty";
  const std::string why = xplane::WhyNoSpace(head);
  if (!compressed) return why;
  return why.empty() ? "this is an XSpace compressed by gzip; gunzip it first"
                     : StrCat("within the compression by gzip, ", why);
}

absl::StatusOr<convert::OpenTrace> Open(const std::string& name, const kineto::Source& source) {
  kineto::ReadReport report;
  std::string head;
  const auto kept = [&](std::span<char> room) -> absl::StatusOr<std::size_t> {
    ASSIGN_OR_RETURN(const std::size_t size, source(room));
    head.append(room.data(), std::min(size, xplane::kHeadBytes - head.size()));
    return size;
  };
  absl::StatusOr<std::string> space = kineto::ReadTraceFile(kept, report);
  if (!space.ok()) {
    const std::string why = absl::IsDataLoss(space.status()) ? WhyNoTrace(head) : "";
    return absl::Status(space.status().code(),
                        ToAbsl(StrCat(name, ": ", why.empty() ? MessageOf(space.status()) : why)));
  }
  for (const std::string& warning : kineto::Warnings(report))
    std::cerr << name << ": " << warning << "\n";
  return convert::OpenTrace{WorkerOfTraceJson(name), "",
                            std::make_unique<const std::string>(*std::move(space))};
}

}  // namespace

std::string PlainHead(std::string_view raw, std::size_t most) {
  const kineto::Source source = [&](std::span<char> room) -> absl::StatusOr<std::size_t> {
    const std::size_t size = std::min(room.size(), raw.size());
    std::memcpy(room.data(), raw.data(), size);
    raw.remove_prefix(size);
    return size;
  };
  kineto::Gunzip gunzip(source);
  std::string head(most, '\0');
  std::size_t size = 0;
  while (size < head.size()) {
    const absl::StatusOr<std::size_t> got = gunzip.Read(std::span(head).subspan(size));
    if (!got.ok() || *got == 0) break;
    size += *got;
  }
  head.resize(size);
  return head;
}

std::string WorkerOfTraceJson(std::string_view file) {
  const std::size_t slash = file.rfind('/');
  if (slash != std::string_view::npos) file.remove_prefix(slash + 1);
  for (const std::string_view suffix : {".gz", ".json", ".trace", ".pt"}) {
    if (file.ends_with(suffix)) file.remove_suffix(suffix.size());
  }
  return std::string(file);
}

absl::StatusOr<convert::OpenTrace> OpenTraceJson(const std::string& path) {
  ASSIGN_OR_RETURN(const FileDescriptor file, OpenRegularFile(path));
  return Open(path, [&](std::span<char> room) { return ReadSome(file, room); });
}

absl::StatusOr<convert::OpenTrace> ReadTraceJson(const std::string& name, std::string_view bytes) {
  return Open(name, [&](std::span<char> room) -> absl::StatusOr<std::size_t> {
    const std::size_t size = std::min(room.size(), bytes.size());
    std::memcpy(room.data(), bytes.data(), size);
    bytes.remove_prefix(size);
    return size;
  });
}

}  // namespace strobe

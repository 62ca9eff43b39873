#include "cli/trace_json.h"

#include <algorithm>
#include <cstring>
#include <iostream>
#include <memory>

#include "collector/kineto/trace_file.h"
#include "common/base/file_descriptor.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"

namespace strobe {
namespace {

absl::StatusOr<convert::OpenTrace> Open(const std::string& name, const kineto::Source& source) {
  kineto::ReadReport report;
  absl::StatusOr<std::string> space = kineto::ReadTraceFile(source, report);
  if (!space.ok())
    return absl::Status(space.status().code(),
                        ToAbsl(StrCat(name, ": ", MessageOf(space.status()))));
  for (const std::string& warning : kineto::Warnings(report))
    std::cerr << name << ": " << warning << "\n";
  return convert::OpenTrace{WorkerOfTraceJson(name), "",
                            std::make_unique<const std::string>(*std::move(space))};
}

}  // namespace

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

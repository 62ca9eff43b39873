#include "sidecar/source/left_trace.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <span>
#include <utility>

#include "collector/kineto/trace_file.h"
#include "common/base/file_descriptor.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"

namespace strobe {
namespace {

absl::StatusOr<FileDescriptor> OpenTrace(const std::string& directory, const std::string& name,
                                         std::uint64_t max_bytes) {
  const FileDescriptor folder(open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  FileDescriptor file(
      openat(folder.get(), name.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  (void)unlinkat(folder.get(), name.c_str(), 0);
  struct stat info {};
  if (file.get() < 0 || fstat(file.get(), &info) != 0)
    return absl::NotFoundError("its trace cannot be opened");
  if (!S_ISREG(info.st_mode)) return absl::NotFoundError("its trace is no regular file");
  if (static_cast<std::uint64_t>(info.st_size) > max_bytes) {
    return absl::ResourceExhaustedError(
        StrCat("its trace has ", info.st_size, " bytes, allowed are ", max_bytes));
  }
  return file;
}

absl::StatusOr<std::size_t> ReadSome(int file, std::span<char> room) {
  const ssize_t size = read(file, room.data(), room.size());
  if (size < 0) return absl::UnavailableError("its trace cannot be read");
  return static_cast<std::size_t>(size);
}

absl::StatusOr<std::string> ReadAll(int file, std::uint64_t max_bytes) {
  std::string bytes;
  constexpr std::size_t kPiece = 1 << 20;
  while (true) {
    const std::size_t before = bytes.size();
    bytes.resize(before + kPiece);
    ASSIGN_OR_RETURN(const std::size_t size, ReadSome(file, std::span(bytes).subspan(before)));
    bytes.resize(before + size);
    if (size == 0) return bytes;
    if (bytes.size() > max_bytes) return absl::ResourceExhaustedError("its trace grows");
  }
}

absl::StatusOr<std::string> Take(const std::string& directory, const LeftTrace& left,
                                 std::uint64_t max_bytes) {
  const bool is_json = left.format == "kineto";
  const std::uint64_t most = is_json ? MaxJson(max_bytes) : max_bytes;
  ASSIGN_OR_RETURN(const FileDescriptor file, OpenTrace(directory, left.name, most));
  if (!is_json) return ReadAll(file.get(), most);
  kineto::ReadReport report;
  return kineto::ReadTraceFile([&](std::span<char> room) { return ReadSome(file.get(), room); },
                               report, {.began_ns = left.started_ns, .ended_ns = left.stopped_ns});
}

}  // namespace

void TakeLeftTrace(const std::string& directory, const LeftTrace& left, std::uint64_t max_bytes,
                   FrameworkAnswer& answer) {
  absl::StatusOr<std::string> trace = Take(directory, left, max_bytes);
  if (trace.ok() && trace->size() <= max_bytes) {
    answer.trace = *std::move(trace);
  } else if (trace.ok() || absl::IsResourceExhausted(trace.status())) {
    answer.verdict = {
        Outcome::kTruncated,
        StrCat(answer.who, ": the trace is too large; allowed are ", max_bytes, " bytes")};
  } else {
    answer.verdict = {Outcome::kProfilerStartFailed,
                      StrCat(answer.who, ": ", MessageOf(trace.status()))};
  }
}

std::uint64_t MaxTrace(const v1::CapturePlan& plan, std::uint64_t room) {
  return plan.max_bytes() > 0 ? std::min(plan.max_bytes(), room) : room;
}

std::uint64_t MaxJson(std::uint64_t xspace_bytes) {
  constexpr std::uint64_t kJsonPerXSpace = 4;
  return xspace_bytes < (1ull << 61) ? kJsonPerXSpace * xspace_bytes : xspace_bytes;
}

}  // namespace strobe

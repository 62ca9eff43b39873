#include "sidecar/source/inproc/left_trace.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <span>
#include <utility>

#include "collector/store/beneath.h"
#include "collector/trace/kineto/trace_file.h"
#include "common/base/file_descriptor.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"

namespace strobe::source {
namespace {

constexpr std::string_view kKineto = "kineto";
// No released version up to 2.15 has the fix.
constexpr std::string_view kNoMemory =
    "no memory allocations were recorded: when PyTorch records all threads, it needs the fix for "
    "its issue 166121 to record them";

// Opens a trace that a process left in the directory. The file is then ours alone, and gone when it
// is closed.
absl::StatusOr<FileDescriptor> OpenTrace(const std::string& directory, const std::string& name,
                                         std::uint64_t max_bytes) {
  ASSIGN_OR_RETURN(const FileDescriptor folder,
                   storage::OpenFolder(directory, "", storage::Missing::kIsAnError));
  absl::StatusOr<FileDescriptor> file = storage::OpenFileIn(folder, name);
  (void)unlinkat(folder.get(), name.c_str(), 0);
  struct stat info {};
  if (file.ok() && fstat(file->get(), &info) == 0 &&
      static_cast<std::uint64_t>(info.st_size) > max_bytes) {
    return absl::ResourceExhaustedError(
        StrCat("its trace has ", info.st_size, " bytes; the limit is ", max_bytes));
  }
  return file;
}

absl::StatusOr<std::string> ReadAll(const FileDescriptor& file, std::uint64_t max_bytes) {
  std::string bytes;
  constexpr std::size_t kPiece = 1 << 20;
  while (true) {
    const std::size_t before = bytes.size();
    bytes.resize(before + kPiece);
    ASSIGN_OR_RETURN(const std::size_t size, ReadSome(file, std::span(bytes).subspan(before)));
    bytes.resize(before + size);
    if (size == 0) return bytes;
    if (bytes.size() > max_bytes) return absl::ResourceExhaustedError("its trace is still growing");
  }
}

// The trace as an XSpace. `report` tells what was read of Kineto's format.
absl::StatusOr<std::string> ReadTrace(const FileDescriptor& file, const LeftTrace& left,
                                      std::uint64_t max_bytes, kineto::ReadReport& report) {
  if (left.format != kKineto) return ReadAll(file, max_bytes);
  std::uint64_t read = 0;
  const auto more = [&](std::span<char> room) -> absl::StatusOr<std::size_t> {
    // The file may grow, and may be compressed to a thousandth of what it contains.
    if (std::max(read, report.bytes) > max_bytes)
      return absl::ResourceExhaustedError("its trace has no end");
    ASSIGN_OR_RETURN(const std::size_t bytes, ReadSome(file, room));
    read += bytes;
    return bytes;
  };
  return kineto::ReadTraceFile(more, report,
                               {.began_ns = left.started_ns, .ended_ns = left.stopped_ns});
}

}  // namespace

void TakeLeftTrace(const std::string& directory, const LeftTrace& left, std::uint64_t max_bytes,
                   const v1::Tracers& tracers, FrameworkAnswer& answer) {
  const bool is_json = left.format == kKineto;
  const std::uint64_t most = is_json ? MaxJson(max_bytes) : max_bytes;
  absl::StatusOr<FileDescriptor> file = OpenTrace(directory, left.name, most);
  kineto::ReadReport report;
  absl::StatusOr<std::string> trace =
      file.ok() ? ReadTrace(*file, left, most, report) : file.status();
  if (trace.ok() && trace->size() <= max_bytes) {
    answer.trace = *std::move(trace);
    answer.nothing_recorded = is_json && report.recorded == 0;
    if (tracers.memory() && is_json && report.allocations == 0)
      answer.note += StrCat(answer.note.empty() ? "" : "; ", kNoMemory);
    if (answer.verdict.outcome == Outcome::kOk && (report.cut || report.compressed_cut)) {
      answer.verdict = {Outcome::kTruncated,
                        StrCat(answer.who, ": its trace is cut: the end is missing")};
    }
    if (report.unread() > 0) {
      answer.note += StrCat(answer.note.empty() ? "" : "; ", report.unread(),
                            " events of its trace could not be read");
    }
    if (tracers.keep_original() && is_json)
      answer.original = {answer.address, left.container, left.number, *std::move(file)};
  } else if (trace.ok() || absl::IsResourceExhausted(trace.status())) {
    answer.verdict = {
        Outcome::kTruncated,
        StrCat(answer.who, ": the trace is too large; the limit is ", max_bytes, " bytes")};
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

}  // namespace strobe::source

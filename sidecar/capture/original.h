// The file that a process's own profiler wrote, which can be kept beside the trace that was made of
// it. It lies in the run as "<worker>.<process>.pt.trace.json.gz", under which Perfetto, HTA and
// TensorBoard's PyTorch plugin find it, and XProf does not take it for a trace.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/file_descriptor.h"

namespace strobe::session {

struct Original {
  std::string process{};     // The name of the process's row; see ProcessReport.name.
  std::string container{};   // Empty if it is not known.
  std::uint32_t number = 0;  // The local rank, or the process ID if the process tells none.
  FileDescriptor file{};     // JSON, not compressed.
};

inline constexpr std::string_view kOriginalSuffix = ".pt.trace.json.gz";

// The file's name, which differs from those of the worker's other processes.
std::string OriginalName(std::string_view worker, const Original& original);

// A kept file names its capture in the comment of its gzip header, so that it can be told from
// files of others. Readers of gzip ignore the comment.
std::string OriginalComment(std::string_view capture_id);
// The capture that the first bytes of a file name; empty if they name none. They must be at least
// kMaxOriginalHead bytes, or the whole file.
inline constexpr std::size_t kMaxOriginalHead = 256;
std::string CaptureOfHead(std::string_view head);

}  // namespace strobe::session

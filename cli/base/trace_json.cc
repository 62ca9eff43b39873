#include "cli/base/trace_json.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <memory>
#include <span>
#include <utility>

#include "collector/trace/kineto/gunzip.h"
#include "collector/trace/kineto/trace_file.h"
#include "collector/trace/xplane/file_kind.h"
#include "common/base/file_descriptor.h"
#include "common/base/files.h"
#include "common/base/hash.h"
#include "common/base/new_file.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/base/version.h"
#include "common/memory/mapped_file.h"

namespace strobe::cli {
namespace {

namespace fs = std::filesystem;

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
  if (head.empty())
    return compressed ? StrCat(
                            "this is compressed by gzip, and cut, damaged or empty, so that "
                            "nothing can be shown; ",
                            kineto::kCutRemedy)
                      : "the file is empty";
  const std::string why = xplane::WhyNoSpace(head);
  if (!compressed) return why;
  return why.empty() ? "this is an XSpace compressed by gzip; gunzip it first"
                     : StrCat("within the compression by gzip, ", why);
}

absl::StatusOr<convert::OpenTrace> Open(const std::string& name, const kineto::Source& source,
                                        kineto::ReadReport& report) {
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

// Where the conversion of a file in its present state is kept; empty without a cache.
std::string KeptPath(const std::string& path, const std::string& cache) {
  constexpr int kConversion = 1;  // Counts the changes of conversions within a version.
  if (cache.empty()) return "";
  const absl::StatusOr<std::string> stamp = StampOfFiles(std::span(&path, 1));
  if (!stamp.ok()) return "";
  const std::uint64_t key = Fnv1a(StrCat(kVersion, " ", kConversion, " ", path, "\n", *stamp));
  return StrCat(cache, "/", absl::Hex(key, absl::kZeroPad16), ".space");
}

// A failure costs time later, and nothing else.
void Keep(std::string_view space, const std::string& path) {
  std::error_code error;
  fs::create_directories(fs::path(path).parent_path(), error);
  NewFile file(path);
  if (file.Write(space).ok()) (void)file.Finish();
}

// Gives the bytes piece by piece.
class BytesInMemory {
 public:
  explicit BytesInMemory(std::string_view bytes) : bytes_(bytes) {}
  std::size_t Read(std::span<char> room) {
    const std::size_t size = std::min(room.size(), bytes_.size());
    std::memcpy(room.data(), bytes_.data(), size);
    bytes_.remove_prefix(size);
    return size;
  }

 private:
  std::string_view bytes_;
};

}  // namespace

JsonConversions::JsonConversions(const Limits& limits, std::shared_ptr<const Clock> clock)
    : limits_(limits),
      clock_(std::move(clock)),
      shares_(std::make_shared<fair::ByteShares>(
          fair::ByteShares::Limits{.all = limits.all_bytes, .each = limits.all_bytes})) {}

JsonConversions::Run::Run(std::shared_ptr<JsonConversions> all, const Cancellation* stop)
    : all_(std::move(all)),
      stop_(stop),
      deadline_(all_->clock_->MonoNow() + all_->limits_.deadline) {}

absl::Status JsonConversions::Run::CheckTime() const {
  if (stop_ != nullptr && stop_->cancelled()) return absl::CancelledError("the server ends");
  if (all_->clock_->MonoNow() < deadline_) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "the run's JSON takes too long to be converted here; copy the run with strobe cp and open "
      "the copy with strobe view");
}

absl::Status JsonConversions::Run::Charge(std::uint64_t bytes,
                                          fair::ByteShares::Holding& held) const {
  if (bytes <= held.bytes()) return absl::OkStatus();
  if (bytes_ + bytes > all_->limits_.run_bytes)
    return absl::InvalidArgumentError(
        "the run's JSON is too much to be converted here; copy the run with strobe cp and open the "
        "copy with strobe view");
  if (held.Grow(bytes - held.bytes())) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      "the JSON traces of the runs that are open take too much memory");
}

absl::StatusOr<convert::OpenTrace> JsonConversions::Run::Convert(const std::string& name,
                                                                 std::string_view bytes) {
  constexpr Nanos kLook = std::chrono::milliseconds(100);
  JsonConversions& all = *all_;
  for (bool begun = false; !begun;) {
    RETURN_IF_ERROR(CheckTime());
    MutexLock lock(&all.mutex_);
    begun = all.mutex_.AwaitFor(kLook, [&all]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(all.mutex_) {
      return all.running_ < all.limits_.at_once;
    });
    all.running_ += begun ? 1 : 0;
  }
  struct End {
    ~End() {
      MutexLock lock(&all.mutex_);
      --all.running_;
    }
    JsonConversions& all;
  } const end{all};
  kineto::ReadReport report;
  BytesInMemory source(bytes);
  fair::ByteShares::Holding held = fair::ByteShares::Begin(all.shares_, "");
  ASSIGN_OR_RETURN(convert::OpenTrace trace,
                   Open(
                       name,
                       [&](std::span<char> room) -> absl::StatusOr<std::size_t> {
                         RETURN_IF_ERROR(CheckTime());
                         RETURN_IF_ERROR(Charge(report.bytes / 2, held));
                         return source.Read(room);
                       },
                       report));
  held.Release();
  RETURN_IF_ERROR(Charge(trace.bytes().size(), held));
  bytes_ += trace.bytes().size();
  trace.held = std::make_shared<fair::ByteShares::Holding>(std::move(held));
  return trace;
}

std::string PlainHead(std::string_view raw, std::size_t most) {
  BytesInMemory bytes(raw);
  const kineto::Source source = [&](std::span<char> room) { return bytes.Read(room); };
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

absl::StatusOr<convert::OpenTrace> OpenTraceJson(const std::string& path,
                                                 const std::string& cache) {
  const std::string kept = KeptPath(path, cache);
  if (!kept.empty()) {
    std::error_code error;  // Marks it as just used. That this may fail does not matter.
    fs::last_write_time(kept, fs::file_time_type::clock::now(), error);
    absl::StatusOr<MappedFile> file = MappedFile::Open(kept);
    if (file.ok()) return convert::OpenTrace{WorkerOfTraceJson(path), "", *std::move(file)};
  }
  ASSIGN_OR_RETURN(const FileDescriptor file, OpenRegularFile(path));
  kineto::ReadReport report;
  ASSIGN_OR_RETURN(convert::OpenTrace trace,
                   Open(
                       path, [&](std::span<char> room) { return ReadSome(file, room); }, report));
  // What was left out is told each time. A file that changes meanwhile is read anew.
  if (!kept.empty() && kineto::Warnings(report).empty() && KeptPath(path, cache) == kept)
    Keep(trace.bytes(), kept);
  return trace;
}

absl::StatusOr<convert::OpenTrace> ReadTraceJson(const std::string& name, std::string_view bytes) {
  kineto::ReadReport report;
  BytesInMemory source(bytes);
  return Open(
      name, [&](std::span<char> room) { return source.Read(room); }, report);
}

}  // namespace strobe::cli

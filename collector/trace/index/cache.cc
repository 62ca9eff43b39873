#include "collector/trace/index/cache.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "common/base/new_file.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"

namespace strobe::index {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kEnding = ".index";

// XSpaces that others have made of JSON are kept in the same folder.
bool IsKept(const std::string& path) { return path.ends_with(kEnding) || path.ends_with(".space"); }

std::string PathOf(const Cache& cache, const Source& source) {
  return StrCat(cache.directory, "/", absl::Hex(source.size), "-",
                absl::Hex(source.mark, absl::kZeroPad16), kEnding);
}

// Deletes the least recently used indexes beyond the limit, and parts that a killed process left.
// An index that is larger than the limit is deleted instead of all others, for which there is room.
void Prune(const Cache& cache) {
  struct Found {
    fs::path path;
    fs::file_time_type used;
    std::uint64_t size;
  };
  std::vector<Found> found;
  std::uint64_t total = 0;
  std::error_code error;
  const auto now = fs::file_time_type::clock::now();
  for (fs::directory_iterator it(cache.directory, error), end; !error && it != end;
       it.increment(error)) {
    std::error_code gone;  // Another process may prune at the same time.
    const auto used = it->last_write_time(gone);
    const std::uint64_t size = gone ? 0 : it->file_size(gone);
    if (gone) continue;
    const std::string& path = it->path().native();
    const bool left_behind = path.ends_with(".part") && now - used > std::chrono::hours(1);
    if (left_behind || (IsKept(path) && size > cache.max_bytes)) {
      fs::remove(it->path(), gone);
    } else if (IsKept(path)) {
      found.push_back({it->path(), used, size});
      total += size;
    }
  }
  std::sort(found.begin(), found.end(),
            [](const Found& a, const Found& b) { return a.used < b.used; });
  for (const Found& file : found) {
    if (total <= cache.max_bytes) break;
    fs::remove(file.path, error);
    total -= file.size;
  }
}

absl::Status BuildInto(const Cache& cache, const std::string& path, std::string_view trace,
                       const xplane::Space& space, const BuildOptions& options) {
  std::error_code error;
  fs::create_directories(cache.directory, error);
  NewFile file(path);
  RETURN_IF_ERROR(file.Write(""));
  BuildOptions with_spill = options;
  with_spill.spill_directory = cache.directory;
  RETURN_IF_ERROR(BuildIndex(trace, space, with_spill,
                             [&](std::string_view piece) { return file.Write(piece); }));
  return file.Finish();
}

// Whether the cache caused the error. An error of the trace would occur again in memory, and a
// cancelled build must not continue there.
bool IsCacheFailure(const absl::Status& status) {
  return !absl::IsDataLoss(status) && !absl::IsCancelled(status) && !absl::IsOutOfRange(status);
}

}  // namespace

absl::StatusOr<StoredIndex> StoredIndex::Open(const std::string& path, const Source& source) {
  absl::StatusOr<MappedFile> file = MappedFile::Open(path);
  if (!file.ok()) return file.status();
  StoredIndex stored;
  ASSIGN_OR_RETURN(stored.index_, Index::Open(file->bytes()));
  if (stored.index_.header().source != source)
    return absl::FailedPreconditionError(StrCat(path, " is the index of another trace"));
  stored.bytes_ = *std::move(file);
  return stored;
}

absl::StatusOr<StoredIndex> StoredIndex::Keep(std::vector<std::uint64_t> words) {
  StoredIndex stored;
  ASSIGN_OR_RETURN(stored.index_, Index::Open({reinterpret_cast<const char*>(words.data()),
                                               words.size() * sizeof(std::uint64_t)}));
  stored.bytes_ = std::move(words);
  return stored;
}

std::string DefaultCacheDirectory() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  if (cache != nullptr && cache[0] == '/') return StrCat(cache, "/strobe");
  const char* home = std::getenv("HOME");
  return home != nullptr && home[0] == '/' ? StrCat(home, "/.cache/strobe") : "";
}

absl::StatusOr<StoredIndex> OpenStored(const Cache& cache, const std::string& beside,
                                       const Source& source, std::string& warning) {
  if (!beside.empty()) {
    absl::StatusOr<StoredIndex> stored = StoredIndex::Open(beside, source);
    if (stored.ok()) return stored;
    if (!absl::IsNotFound(stored.status())) warning = MessageOf(stored.status());
  }
  if (cache.directory.empty()) return absl::NotFoundError("no index is kept");
  const std::string path = PathOf(cache, source);
  absl::StatusOr<StoredIndex> stored = StoredIndex::Open(path, source);
  if (!stored.ok()) return absl::NotFoundError(MessageOf(stored.status()));
  // Marks it as just used, for Prune. That this may fail does not matter.
  std::error_code error;
  fs::last_write_time(path, fs::file_time_type::clock::now(), error);
  return stored;
}

absl::StatusOr<StoredIndex> BuildStored(const Cache& cache, std::string_view trace,
                                        const xplane::Space& space, const BuildOptions& options,
                                        std::string& warning) {
  if (!cache.directory.empty()) {
    const Source source = options.source ? *options.source : SourceOf(trace);
    const std::string path = PathOf(cache, source);
    const absl::Status built = BuildInto(cache, path, trace, space, options);
    if (built.ok()) {
      absl::StatusOr<StoredIndex> stored = StoredIndex::Open(path, source);
      std::error_code error;
      if (const auto size = fs::file_size(path, error); !error && size > cache.max_bytes)
        warning = StrCat("the index is not kept: it has ", size,
                         " bytes, the whole cache may have ", cache.max_bytes);
      // Only now, because it may delete this file. What is open can still be read.
      Prune(cache);
      return stored;
    }
    if (!IsCacheFailure(built)) return built;
    warning = StrCat("the index is kept in memory only: ", MessageOf(built));
  }
  std::vector<std::uint64_t> words;
  std::size_t used = 0;
  RETURN_IF_ERROR(BuildIndex(trace, space, options, [&](std::string_view piece) {
    words.resize((used + piece.size() + 7) / 8);
    std::memcpy(reinterpret_cast<char*>(words.data()) + used, piece.data(), piece.size());
    used += piece.size();
    return absl::OkStatus();
  }));
  return StoredIndex::Keep(std::move(words));
}

}  // namespace strobe::index

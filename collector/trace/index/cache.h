// Keeps indexes on disk, so that a trace has to be read only once.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "collector/trace/index/build.h"
#include "collector/trace/index/index.h"
#include "common/memory/mapped_file.h"

namespace strobe::index {

// An index together with the bytes that it refers to: a mapped file, or memory.
class StoredIndex {
 public:
  // Opens the index file at `path`. FailedPrecondition when it belongs to another trace than
  // `source`, DataLoss when it is no index or a damaged one, NotFound when there is no file.
  static absl::StatusOr<StoredIndex> Open(const std::string& path, const Source& source);
  // Opens an index that was just made in memory; words keep it aligned on 8 bytes.
  static absl::StatusOr<StoredIndex> Keep(std::vector<std::uint64_t> words);

  const Index& index() const { return index_; }
  // DataLoss when the index's file was changed since it was opened.
  absl::Status Check() const {
    const auto* file = std::get_if<MappedFile>(&bytes_);
    return file == nullptr ? absl::OkStatus() : file->Check();
  }

 private:
  std::variant<std::vector<std::uint64_t>, MappedFile> bytes_{};
  Index index_{};
};

struct Cache {
  // The folder that indexes are kept in; empty = they stay in memory.
  std::string directory{};
  // When the folder's indexes take more, the least recently used ones are deleted. An index that
  // takes more by itself is not kept.
  std::uint64_t max_bytes = 16ull << 30;
};

// $XDG_CACHE_HOME/strobe, or else ~/.cache/strobe; empty when neither variable is set to an
// absolute path.
std::string DefaultCacheDirectory();

// Opens the index of the trace `source`: the file `beside` when it is an index of this trace, or
// else the one in the cache. NotFound when there is neither. `beside` may be empty; when it is an
// index that does not fit, `warning` says why.
absl::StatusOr<StoredIndex> OpenStored(const Cache& cache, const std::string& beside,
                                       const Source& source, std::string& warning);

// Makes the index of `trace` and stores it in the cache. When the cache cannot be written, the
// index stays in memory and `warning` says why, as it does when the index is too large to be kept.
// Errors are those of BuildIndex.
absl::StatusOr<StoredIndex> BuildStored(const Cache& cache, std::string_view trace,
                                        const xplane::Space& space, const BuildOptions& options,
                                        std::string& warning);

}  // namespace strobe::index

// Indexes on disk, so that a trace is read once.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "collector/index/build.h"
#include "collector/index/index.h"
#include "common/base/mapped_file.h"

namespace strobe::index {

// An index and the bytes it lies in.
class StoredIndex {
 public:
  // Refuses what is no index of `source`: FailedPrecondition when it is stale.
  static absl::StatusOr<StoredIndex> Open(const std::string& path, const Source& source);
  // Takes bytes that were made just now.
  static absl::StatusOr<StoredIndex> Keep(std::vector<std::uint64_t> words);

  const Index& index() const { return index_; }
  // DataLoss when its file was changed since it was opened.
  absl::Status Check() const {
    const auto* file = std::get_if<MappedFile>(&bytes_);
    return file == nullptr ? absl::OkStatus() : file->Check();
  }

 private:
  std::variant<std::vector<std::uint64_t>, MappedFile> bytes_{};
  Index index_{};
};

struct Cache {
  // Where indexes are kept; empty = nowhere, they live in memory.
  std::string directory{};
  // Those that were not used for longest are deleted beyond this.
  std::uint64_t most_bytes = 16ull << 30;
};

// $XDG_CACHE_HOME/strobe or ~/.cache/strobe; empty when neither is known.
std::string DefaultCacheDirectory();

// The trace's index from `beside`, when that is one of this trace, or from the cache; NotFound.
// What stands beside and does not fit is told in `warning`.
absl::StatusOr<StoredIndex> OpenStored(const Cache& cache, const std::string& beside,
                                       std::string_view trace, std::string& warning);

// Makes it and keeps it in the cache. A cache that cannot be written costs a warning in `warning`
// and memory, not the index.
absl::StatusOr<StoredIndex> BuildStored(const Cache& cache, std::string_view trace,
                                        const xplane::Space& space, const BuildOptions& options,
                                        std::string& warning);

}  // namespace strobe::index

// An index in memory of a trace that a test made.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "collector/trace/index/build.h"
#include "collector/trace/index/index.h"
#include "collector/trace/index/window.h"
#include "collector/trace/xplane/builder.h"

namespace strobe::index {

struct MadeIndex {
  explicit MadeIndex(std::string xspace, std::size_t threads = 1) : trace(std::move(xspace)) {
    space = *xplane::Space::Read(trace);
    std::string bytes;
    status = BuildIndex(trace, space, {.threads = threads}, [&](std::string_view piece) {
      bytes += piece;
      return absl::OkStatus();
    });
    words.resize((bytes.size() + 7) / 8);
    bytes.copy(reinterpret_cast<char*>(words.data()), bytes.size());
    size = bytes.size();
    if (status.ok()) index = *Index::Open(view());
  }
  MadeIndex(const MadeIndex&) = delete;
  MadeIndex& operator=(const MadeIndex&) = delete;

  std::string_view view() const { return {reinterpret_cast<const char*>(words.data()), size}; }

  std::string trace;
  xplane::Space space;
  absl::Status status;
  std::vector<std::uint64_t> words;  // Holds the index aligned to 8 bytes.
  std::size_t size = 0;
  Index index;
};

// Calls every query of the index.
inline void AskAll(const Index& index) {
  for (const Row& row : index.rows()) index.Text(row.name);
  for (const Track& track : index.tracks()) {
    for (const std::uint32_t level : {0u, 20u, 40u, 62u}) {
      const Window window{0, std::int64_t{1} << std::min(level + 8, 62u), level};
      for (const Item& item : Look(index, track, window)) index.Text(item.name);
      LookAtValues(index, track, window);
    }
    index.FirstReaching(track, 1'000'000);
    index.EntryAt(track, 100);
    for (const bool incoming : {false, true})
      index.ForEachLink(track, incoming, 0, 2000, [](const LinkTarget&) {});
  }
}

}  // namespace strobe::index

// An index in memory, of a trace made by a test.
#pragma once
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "collector/index/build.h"
#include "collector/index/index.h"

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
    std::memcpy(words.data(), bytes.data(), bytes.size());
    size = bytes.size();
    if (status.ok()) index = *Index::Open(view());
  }
  MadeIndex(const MadeIndex&) = delete;
  MadeIndex& operator=(const MadeIndex&) = delete;

  std::string_view view() const { return {reinterpret_cast<const char*>(words.data()), size}; }

  std::string trace;
  xplane::Space space;
  absl::Status status;
  std::vector<std::uint64_t> words;  // For their alignment.
  std::size_t size = 0;
  Index index;
};

}  // namespace strobe::index

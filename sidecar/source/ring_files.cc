#include "sidecar/source/ring_files.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

namespace strobe {

namespace fs = std::filesystem;

std::vector<std::string> RingFiles(const std::string& directory) {
  std::vector<std::string> files;
  std::error_code error;
  for (fs::directory_iterator it(directory, error), end; !error && it != end; it.increment(error)) {
    if (it->path().native().ends_with(".rings")) files.push_back(it->path().native());
  }
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace strobe

// The ring files of a directory.
#pragma once
#include <string>
#include <vector>

namespace strobe {

// Paths, sorted; none when the directory cannot be read.
std::vector<std::string> RingFiles(const std::string& directory);

}  // namespace strobe

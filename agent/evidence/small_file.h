// Files that a process leaves for its sidecar.
#pragma once
#include <string>
#include <string_view>

namespace strobe::agent {

// Writes the file under a hidden name and renames it, so that nobody reads a part of it. False if
// that fails, as on a full volume; then there is no file.
bool WriteSmallFile(const std::string& directory, const std::string& name, std::string_view bytes);

}  // namespace strobe::agent

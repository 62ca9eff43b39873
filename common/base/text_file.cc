#include "common/base/text_file.h"

#include <fstream>
#include <sstream>

#include "common/base/strings.h"

namespace strobe {

absl::StatusOr<std::string> ReadTextFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  // Streaming an empty file would set failbit, so emptiness is tested first.
  if (in && in.peek() != std::ifstream::traits_type::eof()) text << in.rdbuf();
  if (in.bad() || !in.is_open()) return absl::NotFoundError(StrCat("cannot read ", path));
  return std::move(text).str();
}

}  // namespace strobe

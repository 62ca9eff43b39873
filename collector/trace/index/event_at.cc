#include "collector/trace/index/event_at.h"

#include <cstddef>

namespace strobe::index {

// The length is the varint before the event, which is read backwards: all of its bytes but the last
// have the top bit set.
absl::StatusOr<std::string_view> EventAt(std::string_view bytes, std::uint64_t first_place,
                                         std::uint64_t place) {
  const absl::Status unfit = absl::DataLossError("the index does not fit the trace");
  if (place <= first_place || place - first_place > bytes.size()) return unfit;
  const std::size_t begin = place - first_place;
  std::uint64_t length = 0;
  std::size_t at = begin - 1;
  unsigned count = 1;
  while (count < 10 && at > 0 && (static_cast<unsigned char>(bytes[at - 1]) & 0x80) != 0)
    --at, ++count;
  for (unsigned i = 0; i < count; ++i)
    length |= static_cast<std::uint64_t>(static_cast<unsigned char>(bytes[at + i]) & 0x7f) << 7 * i;
  if (length > bytes.size() - begin) return unfit;
  return bytes.substr(begin, length);
}

}  // namespace strobe::index

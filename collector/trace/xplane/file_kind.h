// Tells what a file is that is given as a trace, by its first bytes.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

namespace strobe::xplane {

// As many bytes of a file are enough for the functions below.
inline constexpr std::size_t kHeadBytes = 64 << 10;

// Whether a file that begins so is JSON, and whether it is compressed by gzip.
bool BeginsJson(std::string_view head);
bool BeginsGzip(std::string_view head);

// If no XSpace begins so: what the file is and, where it can be told, what opens it, as a sentence.
// Empty if it may be an XSpace. Text and pictures could otherwise be taken for a protobuf whose
// fields are all unknown, and other protobufs for an XSpace with nothing in it.
std::string WhyNoSpace(std::string_view head);

}  // namespace strobe::xplane

// The query of a URL, which is the part after '?'.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace strobe::http {

class Query {
 public:
  // Parses "a=1&b=x%20y". Escapes that are malformed stay as they are written; parameters after the
  // first 64 are ignored.
  explicit Query(std::string_view text);

  bool Has(std::string_view name) const;
  // The value of the first parameter of that name; empty when there is none.
  const std::string& Text(std::string_view name) const;
  // The value as an integer, or `absent` when there is no such parameter. InvalidArgument, with the
  // parameter's name, when the value is no integer or is not in [least, most].
  absl::StatusOr<std::int64_t> Integer(std::string_view name, std::int64_t absent,
                                       std::int64_t least, std::int64_t most) const;
  // Like Integer, for a finite number.
  absl::StatusOr<double> Number(std::string_view name, double absent) const;

 private:
  std::vector<std::pair<std::string, std::string>> parameters_;
};

// Replaces escapes such as "%20" by the bytes that they stand for, and "+" by a space.
std::string UrlDecode(std::string_view text);

}  // namespace strobe::http

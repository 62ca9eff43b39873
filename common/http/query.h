// The parameters behind a URL's '?'.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace strobe {

class Query {
 public:
  // "a=1&b=x%20y". What is malformed stays as it is written.
  explicit Query(std::string_view text);

  bool Has(std::string_view name) const;
  // Of the first parameter of that name; empty when there is none.
  const std::string& Text(std::string_view name) const;
  // InvalidArgument, naming the parameter, when it is there and no integer, or is not within
  // bounds.
  absl::StatusOr<std::int64_t> Integer(std::string_view name, std::int64_t absent,
                                       std::int64_t least, std::int64_t most) const;
  // The same for a number; not finite ones are refused.
  absl::StatusOr<double> Number(std::string_view name, double absent) const;

 private:
  std::vector<std::pair<std::string, std::string>> parameters_;
};

// "%20" and "+" as what they stand for.
std::string UrlDecode(std::string_view text);

}  // namespace strobe

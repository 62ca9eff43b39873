// Reads a configuration file in YAML into a struct. Fields maps each known key to the setter of its
// value. Errors about a place in the file are InvalidArgument with "FILE:LINE:COLUMN: ..." as their
// message.
#pragma once
#include <yaml-cpp/yaml.h>

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "common/base/clock.h"

namespace strobe::yaml {

// Stores a value. An InvalidArgument error must already name the place. Any other error becomes one
// whose message has the place and the key first.
using Setter = std::function<absl::Status(const YAML::Node&)>;
using Fields = std::map<std::string, Setter>;

class Parser {
 public:
  explicit Parser(std::string_view file) : file_(file) {}

  absl::Status At(const YAML::Mark& mark, std::string_view message) const;
  // Reads a map. `where` is the path of its keys, such as "a.b"; empty for the whole file.
  absl::Status Map(const YAML::Node& node, const std::string& where, const Fields& fields) const;
  // Reads each entry of a list of maps; `fields` returns the fields of a new entry.
  absl::Status List(const YAML::Node& node, const std::string& where,
                    const std::function<Fields()>& fields) const;
  Setter Nested(std::string where, Fields fields) const;
  // Parses the text and reads it as a map. Exceptions of the parser become errors, too.
  absl::Status Read(std::string_view text, const Fields& fields) const;

 private:
  const std::string file_;
};

// The setters refer to their targets. `kind` says in an error what the value must be.
template <typename T>
Setter Scalar(T& target, const char* kind) {
  return [&target, kind](const YAML::Node& node) {
    try {
      target = node.as<T>();
      return absl::OkStatus();
    } catch (const YAML::Exception&) {
      return absl::OutOfRangeError(std::string("must be ") + kind);
    }
  };
}
Setter Duration(Nanos& target);
Setter Choice(std::string& target, std::vector<std::string> choices);

}  // namespace strobe::yaml

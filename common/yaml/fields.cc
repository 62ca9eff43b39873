#include "common/yaml/fields.h"

#include "absl/status/statusor.h"
#include "common/base/duration.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"

namespace strobe::yaml {

absl::Status Parser::At(const YAML::Mark& mark, std::string_view message) const {
  return absl::InvalidArgumentError(
      StrCat(file_, ":", mark.line + 1, ":", mark.column + 1, ": ", message));
}

absl::Status Parser::Map(const YAML::Node& node, const std::string& where,
                         const Fields& fields) const {
  if (node.IsNull()) return absl::OkStatus();
  if (!node.IsMap())
    return At(node.Mark(),
              StrCat(where.empty() ? "the file" : where, " must be a map of keys and values"));
  for (const auto& entry : node) {
    const std::string key = entry.first.as<std::string>();
    const std::string path = where.empty() ? key : StrCat(where, ".", key);
    const auto field = fields.find(key);
    if (field == fields.end()) {
      std::vector<std::string> known;
      for (const auto& [name, setter] : fields) known.push_back(name);
      return At(entry.first.Mark(),
                StrCat("unknown key ", path, "; the known keys are ", Join(known, ", ")));
    }
    const absl::Status status = field->second(entry.second);
    if (absl::IsInvalidArgument(status)) return status;
    if (!status.ok()) return At(entry.second.Mark(), StrCat(path, ": ", MessageOf(status)));
  }
  return absl::OkStatus();
}

absl::Status Parser::List(const YAML::Node& node, const std::string& where,
                          const std::function<Fields()>& fields) const {
  if (!node.IsSequence() && !node.IsNull())
    return At(node.Mark(), StrCat(where, " must be a list"));
  for (const auto& entry : node) RETURN_IF_ERROR(Map(entry, where, fields()));
  return absl::OkStatus();
}

Setter Parser::Nested(std::string where, Fields fields) const {
  return [this, where = std::move(where), fields = std::move(fields)](const YAML::Node& node) {
    return Map(node, where, fields);
  };
}

absl::Status Parser::Read(std::string_view text, const Fields& fields) const {
  try {
    return Map(YAML::Load(std::string(text)), "", fields);
  } catch (const YAML::Exception& error) {
    return At(error.mark, error.msg);
  }
}

Setter Duration(Nanos& target) {
  return [&target](const YAML::Node& node) -> absl::Status {
    const absl::StatusOr<Nanos> parsed = ParseDuration(node.IsScalar() ? node.Scalar() : "");
    if (!parsed.ok()) return absl::OutOfRangeError(parsed.status().message());
    target = *parsed;
    return absl::OkStatus();
  };
}

Setter Choice(std::string& target, std::vector<std::string> choices) {
  return [&target, choices = std::move(choices)](const YAML::Node& node) -> absl::Status {
    const std::string text = node.IsScalar() ? node.Scalar() : "";
    for (const std::string& choice : choices) {
      if (choice == text) {
        target = text;
        return absl::OkStatus();
      }
    }
    return absl::OutOfRangeError(StrCat("must be one of ", Join(choices, ", ")));
  };
}

}  // namespace strobe::yaml

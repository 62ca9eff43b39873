// Makes the ProfileRequest that a command line describes. Pure.
//
// Only what the user gives is set: defaults and limits are those of the CRD, and the API server
// names the field that it refuses.
#pragma once
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace strobe::cluster {

// A flag that sets one field of the spec.
struct FieldFlag {
  enum class Kind { kText, kNumber, kNumberOrText, kNumbers };
  std::string_view flag;     // "--duration".
  std::string_view pointer;  // The JSON pointer below spec: "/duration".
  Kind kind = Kind::kText;
  std::string_view type;  // Shown in the help: "DURATION".
  std::string_view help;
  std::string_view group{};  // Its heading in the help; empty for a common flag.
};
// --steps, --duration and so on. --at-step is not among them, because its value chooses the field.
std::span<const FieldFlag> FieldFlags();

struct CaptureRequestFlags {
  // "job/llm", several "pod/...", or "prefill=deploy/a", "decode=deploy/b".
  std::vector<std::string> target{};
  std::string selector{};                       // --selector.
  std::string name{};                           // --name.
  std::string at_step{};                        // --at-step.
  std::map<std::string, std::string> fields{};  // By FieldFlag::flag.
};

// The object to create. `base` is the object of --from, or null; what the flags give replaces what
// it says. Without a name the API server appends letters to the target's name. InvalidArgument
// names the flag.
absl::StatusOr<nlohmann::ordered_json> RequestOf(const CaptureRequestFlags& flags,
                                                 const nlohmann::ordered_json& base);

// Makes the request one that only preflights, under a name of its own, and that deletes itself some
// time after its end, in case nobody else does.
void MakePreflight(nlohmann::ordered_json& request);

// Makes the request one for evidence, under a name of its own, which deletes itself after a day.
void MakeEvidence(nlohmann::ordered_json& request);

}  // namespace strobe::cluster

#include "collector/stall/verdict.h"

#include "common/base/enum_names.h"

namespace strobe::stall {
namespace {

constexpr EnumNames<StallClass, 9> kClassNames({{StallClass::kUnknown, "unknown"},
                                                {StallClass::kHost, "host"},
                                                {StallClass::kDevice, "device"},
                                                {StallClass::kSilent, "silent"},
                                                {StallClass::kGone, "gone"},
                                                {StallClass::kMismatch, "mismatch"},
                                                {StallClass::kOtherBranch, "other-branch"},
                                                {StallClass::kNetwork, "network"},
                                                {StallClass::kProgressing, "progressing"}});
constexpr EnumNames<Confidence, 3> kConfidenceNames({{Confidence::kCannotTell, "cannot tell"},
                                                     {Confidence::kProbably, "probably"},
                                                     {Confidence::kFirm, "firm"}});

}  // namespace

std::string_view NameOf(StallClass kind) { return kClassNames.Of(kind, "unknown"); }

std::string_view NameOf(Confidence confidence) {
  return kConfidenceNames.Of(confidence, "cannot tell");
}

}  // namespace strobe::stall

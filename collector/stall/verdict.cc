#include "collector/stall/verdict.h"

namespace strobe::stall {

std::string_view NameOf(StallClass kind) {
  switch (kind) {
    case StallClass::kHost:
      return "host";
    case StallClass::kDevice:
      return "device";
    case StallClass::kSilent:
      return "silent";
    case StallClass::kGone:
      return "gone";
    case StallClass::kMismatch:
      return "mismatch";
    case StallClass::kOtherBranch:
      return "other-branch";
    case StallClass::kNetwork:
      return "network";
    case StallClass::kProgressing:
      return "progressing";
    case StallClass::kUnknown:
      break;
  }
  return "unknown";
}

std::string_view NameOf(Confidence confidence) {
  switch (confidence) {
    case Confidence::kFirm:
      return "firm";
    case Confidence::kProbably:
      return "probably";
    case Confidence::kCannotTell:
      break;
  }
  return "cannot tell";
}

}  // namespace strobe::stall

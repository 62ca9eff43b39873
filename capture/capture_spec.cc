#include "capture/capture_spec.h"

#include "common/base/strings.h"

namespace strobe {

std::string CaptureId(const CaptureSpec& spec, int attempt) {
  return StrCat(spec.uid, "-", attempt);
}

}  // namespace strobe

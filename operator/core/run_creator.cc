#include "operator/core/run_creator.h"

namespace strobe {

std::string_view NounOf(CreatorKind kind) {
  return kind == CreatorKind::kSchedule ? "schedule" : "trigger";
}

}  // namespace strobe

#include "tests/fakes/unit_dir.h"

namespace strobe {

std::string UnitDir() { return STROBE_UNIT_DIR; }

}  // namespace strobe

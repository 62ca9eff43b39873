// Where the unit tests lie in the source tree.
#pragma once
#include <string>

namespace strobe {

// The path of tests/unit. A function of its own, because a macro on the command line would make
// every test program another one for the compiler's cache in each clone.
std::string UnitDir();

}  // namespace strobe

// What other parts of the library need of the agent.
#pragma once
#include <string>

namespace strobe::agent {

// The path of this process's ring file. A forked child without a file of its own gets one. Empty if
// there is none.
std::string OwnRingPath();

// For a forked child.
void ForgetCollectives();

}  // namespace strobe::agent

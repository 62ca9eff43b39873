// Figures as headlines and tables write them.
#pragma once
#include <string>

namespace strobe::report {

std::string TimeText(double ns);        // "12.4ms"
std::string PercentText(double share);  // "1.3%" or "13%"; without a sign.

}  // namespace strobe::report

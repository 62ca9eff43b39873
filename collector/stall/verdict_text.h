// A verdict in sentences, and as JSON.
#pragma once
#include <string>
#include <vector>

#include "collector/stall/verdict.h"

namespace strobe::stall {

// Lines for people, each ended. Names that programs chose may have control characters.
std::string VerdictText(const Verdict& verdict);

std::string VerdictJson(const Verdict& verdict, int indent);

// "0-3, 8"
std::string RanksText(const std::vector<int>& ranks);

}  // namespace strobe::stall

// `strobe outcomes`: the one table of outcomes, for people and for docs/reference/outcomes.md.
#pragma once
#include <string>

namespace strobe {

std::string OutcomesAsMarkdown();
// Of one outcome when there is a name; empty when there is no such outcome.
std::string OutcomesAsJson(const std::string& name);
// One paragraph per outcome; with a name only that one, empty when there is no such outcome.
std::string OutcomesAsText(const std::string& name);

}  // namespace strobe

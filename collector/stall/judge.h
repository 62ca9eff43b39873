// Judges a job that may stand still: README.md has the rules.
#pragma once
#include "collector/stall/evidence.h"
#include "collector/stall/verdict.h"

namespace strobe::stall {

Verdict JudgeStall(const JobEvidence& evidence);

}  // namespace strobe::stall

// Finds out, from what the processes of a worker announced, what each of them does there. Pure.
#pragma once
#include <vector>

#include "sidecar/source/base/announcements.h"

namespace strobe::source {

// Sets each announcement's role, and `trains` and `why_not` of launchers and helpers:
//   * A process that has not joined its job, and has started one that has, is a launcher, however
//     many processes lie between them.
//   * One that has not joined, and was started by one that has, is a helper, such as the
//     compiler's: it only inherited its parent's environment.
// A process that told steps, or schedules the engine of an inference server, is neither.
void AssignRoles(std::vector<Announcement>& processes);

// Gives a number to each worker, in place of its local rank, if several workers tell equal ranks:
// replicas of a server, actors that are local rank 0 each, or a trainer beside a server with ranks
// of its own. One of them keeps its local rank; the others get the next free numbers, in the order
// of the processes that started them and of their ranks.
void NumberWorkers(std::vector<Announcement>& processes);

}  // namespace strobe::source

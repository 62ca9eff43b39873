// A handler of faults on memory (SIGSEGV, SIGBUS) in front of the one that a program has already.
#pragma once
#include <signal.h>

namespace strobe {

// Mends the fault, after which the access is repeated. False for a fault that is none of ours. It
// runs as a signal handler.
using MendFault = bool (*)(const siginfo_t& info);

// Installs `mend` for the signal `number`, once per signal. Faults that it does not mend go to the
// handler that was installed before. `errno` stays as it was.
void InstallFaultHandler(int number, MendFault mend);

}  // namespace strobe

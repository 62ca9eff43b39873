// Handles memory faults (SIGSEGV, SIGBUS) before the handler that the program already has.
#pragma once
#include <signal.h>

namespace strobe {

// Repairs the cause of a fault; the access is then repeated. Returns false if the fault is none of
// ours. Runs as a signal handler.
using MendFault = bool (*)(const siginfo_t& info);

// Installs `mend` for the signal `number`, once per signal. Faults that it does not repair go to
// the handler that was installed before. `errno` stays as it was.
void InstallFaultHandler(int number, MendFault mend);

}  // namespace strobe

// strobe-sidecar: flags, signals and exit codes.
#pragma once

namespace strobe {

// The program's main function. It is a part of the program `strobe`, which runs it when it is
// started under the name strobe-sidecar: both need nearly the same code, and the sidecar's image
// has both. Returns the exit code: 0 after an orderly end, 1 when something cannot be served, 2
// when flags or the storage configuration are wrong.
int SidecarMain(int argc, char** argv);

}  // namespace strobe

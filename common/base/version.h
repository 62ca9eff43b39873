// What `--version` prints and what goes into manifests.
#pragma once

namespace strobe {

inline constexpr char kVersion[] = "0.1.0";
// Of proto/strobe/v1/worker.proto: a client refuses a worker that speaks another number.
inline constexpr unsigned kWorkerProtocol = 1;

}  // namespace strobe

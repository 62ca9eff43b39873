// The version that `--version` prints and manifests record.
#pragma once

namespace strobe {

inline constexpr char kVersion[] = "0.1.0";
// The version of the protocol in proto/strobe/v1/worker.proto. A client refuses a worker with
// another number.
inline constexpr unsigned kWorkerProtocol = 1;

}  // namespace strobe

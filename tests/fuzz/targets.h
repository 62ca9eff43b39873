// The fuzz targets. Each must handle any input without a crash and without reading outside of it,
// and returns whether its reader accepted the input and found something in it.
#pragma once
#include <string>
#include <string_view>

namespace strobe::fuzz {

bool Space(std::string_view bytes);      // The trace reader, and everything that reads its result.
bool Digest(std::string_view bytes);     // The digest of a worker's trace.
bool TraceJson(std::string_view bytes);  // A trace file in Chrome's JSON format.
bool Index(std::string_view bytes);      // The index reader and all its queries.
bool Hlo(std::string_view bytes);        // The HLO of a module.
bool Query(std::string_view bytes);      // A request to the viewer, as "path?query".
bool Runs(std::string_view bytes);       // A manifest and a file of entries in the list of runs.

bool Pickle(std::string_view bytes);  // A Flight Recorder's dump in both forms, and the verdict.
bool Stacks(std::string_view bytes);  // Other evidence of a stalled job, and the verdict.
bool Ras(std::string_view bytes);     // An answer of NCCL's RAS, and the verdict.
bool ForgedPython(std::string_view bytes);  // Changes to the memory of a Python process.

bool Admission(std::string_view bytes);        // An AdmissionReview of a pod, and its injection.
bool Alerts(std::string_view bytes);           // What is posted to the receiver of alerts.
bool Watch(std::string_view bytes);            // A list, a watch, and the objects in them.
bool Yaml(std::string_view bytes);             // The configuration files.
bool Rings(std::string_view bytes);            // Changes to a program's ring file.
bool CollectiveCalls(std::string_view bytes);  // Changes to its file of collectives.
bool Answers(std::string_view bytes);          // A worker's answers in a whole capture.
bool Kineto(std::string_view bytes);           // A datagram to Kineto's daemon.
bool Http(std::string_view bytes);             // A client's bytes on an HTTP port.

// The index of a trace, which is a seed for Index. Empty if the trace has none.
std::string IndexSeed(std::string_view trace);

}  // namespace strobe::fuzz

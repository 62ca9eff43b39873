// The fuzz targets. Each must handle any input without a crash and without reading outside of it.
#pragma once
#include <string_view>

namespace strobe::fuzz {

void Space(std::string_view bytes);      // The trace reader, and everything that reads its result.
void Digest(std::string_view bytes);     // The digest of a worker's trace.
void TraceJson(std::string_view bytes);  // A trace file in Chrome's JSON format.
void Index(std::string_view bytes);      // The index reader and all its queries.
void Hlo(std::string_view bytes);        // The HLO of a module.
void Query(std::string_view bytes);      // A request to the viewer, as "path?query".
void Runs(std::string_view bytes);       // A manifest and a file of entries in the list of runs.

void Admission(std::string_view bytes);  // An AdmissionReview of a pod, and its injection.
void Alerts(std::string_view bytes);     // What is posted to the receiver of alerts.
void Watch(std::string_view bytes);      // A list, a watch, and the objects in them.
void Yaml(std::string_view bytes);       // The configuration files.
void Rings(std::string_view bytes);      // Changes to a program's ring file.
void Answers(std::string_view bytes);    // A worker's answers in a whole capture.
void Kineto(std::string_view bytes);     // A datagram to Kineto's daemon.
void Http(std::string_view bytes);       // A client's bytes on an HTTP port.

}  // namespace strobe::fuzz

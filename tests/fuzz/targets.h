// What is fed with bytes that nobody vouches for. Each takes whatever comes and must neither crash
// nor read outside of it.
#pragma once
#include <string_view>

namespace strobe::fuzz {

void Space(std::string_view bytes);  // The trace reader, and all that is made from a trace.
void Index(std::string_view bytes);  // The index reader and every question to it.
void Query(std::string_view bytes);  // "path?query" to the viewer.

void Admission(std::string_view bytes);  // An AdmissionReview of a pod, and its injection.
void Watch(std::string_view bytes);      // A list and a watch, and the objects in them.
void Yaml(std::string_view bytes);       // The configuration files.
void Rings(std::string_view bytes);      // Changes to a program's file of rings.
void Words(std::string_view bytes);      // What a worker answers, in a whole capture.
void Http(std::string_view bytes);       // What a client sends to an HTTP port.

}  // namespace strobe::fuzz

// What an annotation of a pod may say. Strict: what passes here ends up in the pod's own fields and
// in its sidecar's flags, and a pod must neither be refused nor fail to start because of it. Pure.
#pragma once
#include <string_view>

namespace strobe {

bool IsPort(std::string_view text);
// Several with commas.
bool IsPorts(std::string_view text);
// As Kubernetes writes quantities, such as "100m", "1.5" or "512Mi"; more than nothing.
bool IsQuantity(std::string_view text);
// Quantities that a container can start with.
bool IsCpu(std::string_view text);            // 1m and more.
bool IsSidecarMemory(std::string_view text);  // 32Mi and more.
bool IsAgentMemory(std::string_view text);    // 32Mi and more: a program's rings fit.
// As the sidecar's flags take sizes: whole numbers with a unit such as MB, MiB, Gi; up to TiB; more
// than nothing.
bool IsSize(std::string_view text);
// A size of at least a megabyte.
bool IsUploadRate(std::string_view text);
// A duration of at most 10 minutes.
bool IsLookBack(std::string_view text);

}  // namespace strobe

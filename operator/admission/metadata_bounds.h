// Bounds what the metadata of Strobe's objects may hold. Kubernetes does not bound the number of
// labels, finalizers and owners, and each costs the operator memory and time whenever it lists the
// object.
#pragma once
#include <nlohmann/json.hpp>
#include <string>

namespace strobe::admission {

// Why the object has too many entries; empty if it has not, or if it has no more of them than
// `before`, which must stay possible to change. `before` is null for an object that is created.
std::string WhyTooManyEntries(const nlohmann::json& object, const nlohmann::json& before);

}  // namespace strobe::admission

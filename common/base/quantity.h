// Kubernetes quantities: "100m", "1.5", "512Mi".
#pragma once
#include <optional>
#include <string_view>

namespace strobe {

// Parses up to 12 digits with at most one decimal point and an optional unit of m, k, M, G, T, Ki,
// Mi, Gi or Ti. Returns nullopt for any other text.
std::optional<double> ParseQuantity(std::string_view text);

inline constexpr double kMebi = 1024.0 * 1024.0;

}  // namespace strobe

// Quantities as Kubernetes writes them: "100m", "1.5", "512Mi".
#pragma once
#include <optional>
#include <string_view>

namespace strobe {

// Digits with at most one point and a unit of m, k, M, G, T, Ki, Mi, Gi, Ti or none; at most 12
// digits. Nothing for what is not written like that.
std::optional<double> ParseQuantity(std::string_view text);

inline constexpr double kMebi = 1024.0 * 1024.0;

}  // namespace strobe

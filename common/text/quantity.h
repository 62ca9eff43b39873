// Kubernetes quantities: "100m", "1.5", "512Mi", "1e3".
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace strobe {

// Parses up to 18 digits with at most one decimal point, followed by nothing, by a unit of n, u, m,
// k, M, G, T, P, E, Ki, Mi, Gi, Ti, Pi or Ei, or by an exponent such as e3. Returns nullopt for any
// other text, and for a sign, because no quantity of ours is negative.
std::optional<double> ParseQuantity(std::string_view text);

// The factor that the suffix of a quantity stands for: one of the units above, or an exponent.
// Returns nullopt for any other text.
std::optional<double> ParseUnit(std::string_view text);

// Parses a positive number of bytes. Rounds up to whole bytes, as Kubernetes does.
std::optional<std::uint64_t> ParseBytes(std::string_view text);
// The shortest text of the exact quantity: 2147483648 is "2Gi", 2000000000 "2G".
std::string FormatQuantity(std::uint64_t value);
// A rounded, human-readable quantity, with at least two digits: 1288490188 is "1229Mi".
std::string RoundedQuantity(std::uint64_t bytes);

inline constexpr double kMebi = 1024.0 * 1024.0;

}  // namespace strobe

// Random numbers for simulations: the same with every library.
#pragma once
#include <cmath>
#include <cstdint>

namespace strobe {

class Dice {  // SplitMix64.
 public:
  explicit Dice(std::uint64_t seed) : state_(seed) {}

  double Uniform() {  // In (0, 1).
    state_ += 0x9e3779b97f4a7c15;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    z ^= z >> 31;
    return (static_cast<double>(z >> 11) + 0.5) / 9007199254740992.0;
  }
  double Between(double low, double high) { return low + (high - low) * Uniform(); }
  double Exponential(double mean) { return -mean * std::log(Uniform()); }
  double Normal() {
    return std::sqrt(-2 * std::log(Uniform())) * std::cos(6.283185307179586 * Uniform());
  }

 private:
  std::uint64_t state_;
};

}  // namespace strobe

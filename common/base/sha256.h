// SHA-256 checksums for manifests and object metadata.
#pragma once
#include <memory>
#include <string>
#include <string_view>

namespace strobe {

class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  void Update(std::string_view bytes);
  std::string Hex();  // 64 lower-case hexadecimal digits. Call once, at the end.

 private:
  struct State;
  const std::unique_ptr<State> state_;
};

}  // namespace strobe

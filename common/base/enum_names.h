// Texts for the values of an enumeration, as a table. It does not compile if a value has none.
#pragma once
#include <array>
#include <cstddef>
#include <cstdlib>
#include <string_view>

namespace strobe {

// Whether the value is one of its enumeration's names. The compiler's text for this function ends
// with "Phase::kDone]" for a name, and with "(Phase)7]" for any other number.
template <auto kValue>
constexpr bool IsEnumerator() {
  constexpr std::string_view kText = __PRETTY_FUNCTION__;
  std::size_t begin = kText.size() - 1;
  const auto in_word = [](char c) {
    return c == '_' || (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
  };
  while (begin > 0 && in_word(kText[begin - 1])) --begin;
  return kText[begin] < '0' || kText[begin] > '9';
}

// The values of `Enum` are 0 to kCount - 1, and the texts are in their order.
template <typename Enum, std::size_t kCount>
class EnumNames {
 public:
  struct Entry {
    Enum value{};
    std::string_view name{};
  };

  explicit constexpr EnumNames(const Entry (&entries)[kCount]) {
    static_assert(!IsEnumerator<static_cast<Enum>(kCount)>(), "a value has no text");
    for (std::size_t i = 0; i < kCount; ++i) {
      // In a constant expression, this call is an error of the compiler.
      if (static_cast<std::size_t>(entries[i].value) != i) std::abort();
      names_[i] = entries[i].name;
    }
  }

  // `otherwise` is for a number that is no value, as it can come from a file or a peer.
  constexpr std::string_view Of(Enum value, std::string_view otherwise = {}) const {
    const auto index = static_cast<std::size_t>(value);
    return index < kCount ? names_[index] : otherwise;
  }

 private:
  std::array<std::string_view, kCount> names_{};
};

}  // namespace strobe

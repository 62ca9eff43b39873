// The page's files, as they were when the program was built.
#pragma once
#include <span>
#include <string_view>

namespace strobe::viewer {

struct Asset {
  std::string_view path{};  // "/", "/style.css", "/app.js"
  std::string_view content_type{};
  std::string_view body{};
};

std::span<const Asset> Assets();

}  // namespace strobe::viewer

// The cases of tests/golden/hangs: jobs that stood still, with known answers.
#pragma once
#include <zlib.h>

#include <array>
#include <cstdlib>
#include <map>
#include <string>

#include "tests/fakes/unit_dir.h"

namespace strobe {

using HangCase = std::map<std::string, std::string>;  // The files by their names.

// Unpacks an archive of the folder; each of its folders is a case.
inline std::map<std::string, HangCase> UnpackHangCases(const std::string& archive) {
  std::string tar;
  const std::string path = UnitDir() + "/../golden/hangs/" + archive;
  if (const gzFile file = gzopen(path.c_str(), "rb"); file != nullptr) {
    std::array<char, 65536> piece{};
    for (int size = 0;
         (size = gzread(file, piece.data(), static_cast<unsigned>(piece.size()))) > 0;)
      tar.append(piece.data(), static_cast<std::size_t>(size));
    gzclose(file);
  }
  std::map<std::string, HangCase> cases;
  constexpr std::size_t kBlock = 512, kSizeAt = 124, kTypeAt = 156;
  for (std::size_t at = 0; at + kBlock <= tar.size() && tar[at] != '\0';) {
    const std::string name = tar.c_str() + at;
    const std::size_t size = std::strtoull(tar.c_str() + at + kSizeAt, nullptr, 8);
    const std::size_t slash = name.find('/');
    if (tar[at + kTypeAt] == '0' && slash != std::string::npos)
      cases[name.substr(0, slash)][name.substr(slash + 1)] = tar.substr(at + kBlock, size);
    at += kBlock + (size + kBlock - 1) / kBlock * kBlock;
  }
  return cases;
}

}  // namespace strobe

#include "collector/trace/xplane/file_kind.h"

#include <algorithm>
#include <array>

#include "collector/trace/xplane/wire.h"
#include "common/base/strings.h"
#include "common/text/safe_text.h"

namespace strobe::xplane {
namespace {

constexpr std::string_view kSpaces = " \t\r\n";
constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

struct Signature {
  std::string_view magic{}, what{};
};

// Written with the size, because some have a zero byte.
constexpr std::array kSignatures = {
    Signature{"\x1f\x8b", "this is compressed by gzip, and no XSpace as it is; gunzip it first"},
    Signature{"\x28\xb5\x2f\xfd", "this is compressed by zstd; decompress it first: zstd -d"},
    Signature{{"\xfd\x37zXZ\0", 6}, "this is compressed by xz; decompress it first: xz -d"},
    Signature{"BZh", "this is compressed by bzip2; decompress it first: bzip2 -d"},
    Signature{"\x04\x22\x4d\x18", "this is compressed by lz4; decompress it first: lz4 -d"},
    Signature{"PK\x03\x04", "this is a ZIP archive; unzip it first"},
    Signature{"\x89PNG", "this is a picture (PNG), no trace"},
    Signature{"\xff\xd8\xff", "this is a picture (JPEG), no trace"},
    Signature{"GIF8", "this is a picture (GIF), no trace"},
    Signature{"%PDF-", "this is a PDF document, no trace"},
    Signature{"\x7f"
              "ELF",
              "this is a program or a library (ELF), no trace"},
    Signature{"SQLite format 3",
              "this is an SQLite database, such as Nsight Systems exports, no XSpace"},
    Signature{"PAR1",
              "this is a table (Parquet), no trace; strobe query and other SQL engines read it"},
    Signature{"PERFILE2", "this holds the samples of perf, no events; perf report shows them"},
    Signature{"STROBEIX",
              "this is an index of a trace, which strobe view makes; give the trace itself"},
    Signature{"\x93NUMPY", "this is an array of NumPy, no trace"},
};

// Whether the whole text is of characters that people write. The head of a longer text may end
// within a character.
bool IsText(std::string_view head) {
  while (!head.empty()) {
    const auto c = static_cast<unsigned char>(head.front());
    if ((c < 0x20 &&
         std::string_view("\t\n\r\f\x1b").find(head.front()) == std::string_view::npos) ||
        c == 0x7f)
      return false;
    const std::size_t size = Utf8CharacterSize(head);
    if (size == 0) return head.size() < 4 && c >= 0xc0;
    head.remove_prefix(size);
  }
  return true;
}

// The text's lines that are whole, without empty ones and comments.
std::vector<std::string> Lines(std::string_view text) {
  constexpr std::size_t kEnough = 4096;
  const bool cut = text.size() > kEnough;
  std::vector<std::string> lines = Split(text.substr(0, kEnough), '\n');
  if (cut && lines.size() > 1) lines.pop_back();
  std::erase_if(lines, [](const std::string& line) {
    return line.find_first_not_of(kSpaces) == std::string::npos || line.starts_with('#');
  });
  return lines;
}

// "main;step;matmul 42", for flame graphs.
bool IsCollapsedStack(std::string_view line) {
  while (line.ends_with('\r')) line.remove_suffix(1);
  const std::size_t space = line.rfind(' ');
  return space != std::string_view::npos && space + 1 < line.size() &&
         line.find_first_not_of("0123456789", space + 1) == std::string_view::npos &&
         Contains(line.substr(0, space), ";") && !Contains(line, "; ");
}

// "python 4242 [000]  1234.567890:   10101 cycles:", as perf script prints.
bool IsSampleOfPerf(std::string_view line) {
  for (std::size_t colon = line.find(':'); colon != std::string_view::npos;
       colon = line.find(':', colon + 1)) {
    const std::size_t begin = line.substr(0, colon).find_last_not_of("0123456789.") + 1;
    const std::string_view time = line.substr(begin, colon - begin);
    if (begin > 1 && line[begin - 1] == ' ' && std::ranges::count(time, '.') == 1 &&
        time.find('.') + 7 <= time.size())
      return true;
  }
  return false;
}

std::string WhatText(std::string_view head) {
  if (BeginsJson(head))
    return "this is JSON, no XSpace; strobe reads a trace in Chrome's format if its name ends with "
           ".json";
  if (head.starts_with("# tracer:"))
    return "this is the text of ftrace, no XSpace; https://ui.perfetto.dev opens it";
  const std::vector<std::string> lines = Lines(head);
  if (!lines.empty() && std::ranges::all_of(lines, IsCollapsedStack))
    return "this holds only samples (collapsed stacks), no events with times; "
           "https://www.speedscope.app opens it";
  if (!lines.empty() && IsSampleOfPerf(lines.front()))
    return "this holds only samples (the text of perf script), no events; "
           "https://www.speedscope.app opens it";
  return "this is text, neither JSON nor an XSpace";
}

// Whether these are the packets of a Perfetto trace. They are the field 1 of its protobuf, as an
// XSpace's planes are.
bool IsPerfetto(std::string_view head) {
  constexpr int kPackets = 64;
  bool is_packet = false;
  for (int i = 0; i < kPackets && head.size() > 2 && head.front() == '\x0a'; ++i) {
    std::uint64_t size = 0;
    std::size_t at = 1;
    for (unsigned shift = 0; at < head.size() && shift < 64; shift += 7) {
      const auto byte = static_cast<unsigned char>(head[at++]);
      size |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) break;
    }
    const std::string_view packet = head.substr(at, std::min<std::uint64_t>(size, head.size()));
    wire::Reader reader(packet);
    while (reader.Next()) {
      constexpr std::uint32_t kFtrace = 1, kUser = 3, kTime = 8, kSequence = 10;
      const std::uint32_t field = reader.field();
      // A plane has its id in field 1 and its lines in field 3.
      if (reader.is_bytes() ? field == kUser : field == kFtrace) return false;
      is_packet |= reader.is_bytes() ? field == kFtrace
                                     : field == kUser || field == kTime || field == kSequence;
    }
    head.remove_prefix(std::min(at + packet.size(), head.size()));
  }
  return is_packet;
}

}  // namespace

bool BeginsJson(std::string_view head) {
  if (head.starts_with(kByteOrderMark)) head.remove_prefix(kByteOrderMark.size());
  const std::size_t first = head.find_first_not_of(kSpaces);
  return first != std::string_view::npos && (head[first] == '{' || head[first] == '[');
}

bool BeginsGzip(std::string_view head) { return head.starts_with(kSignatures.front().magic); }

std::string WhyNoSpace(std::string_view head) {
  head = head.substr(0, kHeadBytes);
  if (head.empty()) return "";  // An XSpace without planes.
  for (const Signature& known : kSignatures) {
    if (head.starts_with(known.magic)) return std::string(known.what);
  }
  if (IsText(head)) return WhatText(head);
  const auto byte = [&](std::size_t i) -> unsigned {
    return i < head.size() ? static_cast<unsigned char>(head[i]) : 0;
  };
  if (byte(0) == 0x78 && (byte(0) << 8 | byte(1)) % 31 == 0)
    return "this is compressed by zlib; decompress it first: zlib-flate -uncompress";
  if (byte(0) == 0x80 && byte(1) >= 2 && byte(1) <= 5)
    return "this is a pickle of Python, such as PyTorch's memory snapshot, which "
           "https://pytorch.org/memory_viz opens; no XSpace";
  constexpr std::size_t kTar = 257;
  if (head.size() > kTar && head.substr(kTar).starts_with("ustar"))
    return "this is an archive (tar); unpack it first";
  // An XSpace begins with a plane, an error, a warning or a host name: fields 1 to 4, which have a
  // length.
  if ((byte(0) & 7) != 2 || byte(0) >> 3 == 0 || byte(0) >> 3 > 4)
    return "this is neither JSON nor an XSpace";
  if (IsPerfetto(head))
    return "this is a Perfetto trace, not an XSpace; https://ui.perfetto.dev opens it";
  return "";
}

}  // namespace strobe::xplane

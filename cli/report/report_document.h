// What a report says, and how it is written as text, Markdown or HTML. Pure.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cli/base/report_table.h"

namespace strobe::cli {

enum class Column : std::uint8_t { kText, kNumber, kName };  // A name is text of unknown origin.

struct DocumentSection {
  std::string heading{};             // Text shows it only above a list.
  std::vector<std::string> lines{};  // Before the table.
  bool list = false;                 // The lines are a list.
  std::vector<Column> columns{};
  std::vector<Row> rows{};           // The first one holds the headings of the columns.
  std::vector<std::string> notes{};  // After the table.
  std::string picture{};             // An SVG element, for HTML only.
};

struct ReportDocument {
  std::string title{};  // Text does not show it.
  std::string headline{};
  std::vector<DocumentSection> sections{};
};

// Returns the document for a terminal, with its columns aligned.
std::string RenderText(const ReportDocument& document);

// Pictures are left out. Text of unknown origin cannot become markup, whichever of the common
// dialects shows it: names are code, in which "`" and "|" are replaced by "'" and a broken bar.
std::string RenderMarkdown(const ReportDocument& document);

// The page needs no other file, has no script and connects to nothing: its policy forbids both,
// whatever names the traces contain. It follows the browser's light or dark theme.
std::string RenderHtml(const ReportDocument& document);

}  // namespace strobe::cli

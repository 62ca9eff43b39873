#include "cli/report/report_document.h"

#include "common/base/strings.h"
#include "common/text/plain_text.h"

namespace strobe::cli {
namespace {

std::string TextOf(const DocumentSection& section) {
  std::string text;
  if (section.list) text += StrCat(section.heading, ":\n");
  for (const std::string& line : section.lines)
    text += StrCat(section.list ? "  " : "", WithoutControls(line), "\n");
  std::vector<Row> rows = section.rows;
  for (Row& row : rows) {
    for (std::string& cell : row) cell = WithoutControls(cell);
  }
  if (!text.empty() && !rows.empty()) text += "\n";
  text += AlignRows(rows);
  for (const std::string& note : section.notes) text += StrCat(WithoutControls(note), "\n");
  return text;
}

}  // namespace

std::string RenderText(const ReportDocument& document) {
  std::string text = StrCat(WithoutControls(document.headline), "\n");
  for (const DocumentSection& section : document.sections) {
    const std::string of_section = TextOf(section);
    if (!of_section.empty()) text += StrCat("\n", of_section);
  }
  return text;
}

}  // namespace strobe::cli

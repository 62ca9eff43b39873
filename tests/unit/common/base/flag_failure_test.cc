#include "common/base/flag_failure.h"

#include <gmock/gmock.h>

#include <CLI/CLI.hpp>
#include <vector>

namespace strobe {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

// What the program says about these arguments, the last one first.
std::string Said(std::vector<std::string> reversed) {
  CLI::App app("about", "strobe");
  app.require_subcommand(1);
  app.failure_message(FlagFailure<CLI::App, CLI::Error>);
  CLI::App* kube = app.add_subcommand("kube", "about");
  CLI::App* report = kube->add_subcommand("report", "about");
  std::string output, place;
  int top = 0;
  report->add_option("-o,--output", output, "how to print")
      ->check(CLI::IsMember({"table", "json"}));
  report->add_option("--top", top, "how many; 0 = none")->check(CLI::Range(0, 9));
  report->add_option("place", place, "a run")->required();
  try {
    app.parse(std::move(reversed));
  } catch (const CLI::ParseError& error) {
    std::ostringstream out, err;
    EXPECT_NE(app.exit(error, out, err), 0);
    return err.str();
  }
  return "";
}

TEST(FlagFailure, NamesTheCommandAndTheChoices) {
  EXPECT_EQ(Said({"run", "yaml", "--output", "report", "kube"}),
            "strobe kube report: --output: yaml is not one of table, json\n"
            "  --output: how to print\n"
            "strobe kube report --help explains its flags\n");
  for (const char* wrong : {"10", "-1", "many", "1.5", ""}) {
    const std::string said = Said({"run", wrong, "--top", "report", "kube"});
    EXPECT_THAT(said, StartsWith("strobe kube report: ")) << wrong;
    EXPECT_THAT(said, HasSubstr("\n  --top: how many; 0 = none\n")) << wrong;
    EXPECT_THAT(said, EndsWith("\nstrobe kube report --help explains its flags\n")) << wrong;
  }
}

TEST(FlagFailure, NamesWhatIsMissingAndWhatIsUnknown) {
  EXPECT_EQ(Said({"report", "kube"}),
            "strobe kube report: place is required\n"
            "  place: a run\n"
            "strobe kube report --help explains its flags\n");
  const std::string said = Said({"run", "x", "--outputs", "report", "kube"});
  EXPECT_THAT(said, HasSubstr("--outputs"));
  EXPECT_THAT(said, Not(HasSubstr("how to print")));
}

}  // namespace
}  // namespace strobe

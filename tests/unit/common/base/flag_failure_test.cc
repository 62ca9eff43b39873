#include "common/base/flag_failure.h"

#include <gmock/gmock.h>

#include <CLI/CLI.hpp>
#include <vector>

namespace strobe {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
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
  EXPECT_EQ(Said({"run", "x", "--outputs", "report", "kube"}),
            "strobe kube report: there is no flag --outputs; did you mean --output?\n"
            "strobe kube report --help explains its flags\n");
  EXPECT_THAT(Said({"two", "run", "report", "kube"}),
              StartsWith("strobe kube report: \"two\" is one argument too many\n"));
}

// What is missing is not the mistake if a flag or a command is misspelt.
TEST(FlagFailure, AMisspeltWordIsNamedBeforeWhatIsMissing) {
  EXPECT_THAT(Said({"5", "--tip", "report", "kube"}),
              StartsWith("strobe kube report: there is no flag --tip; did you mean --top?\n"));
  EXPECT_EQ(Said({"--top", "kub"}),
            "strobe: there is no command kub; did you mean kube?\n"
            "strobe --help lists the commands\n");
  EXPECT_EQ(Said({}), "strobe: no command is given\nstrobe --help lists the commands\n");
}

TEST(DidYouMean, NamesOnlyWhatIsNear) {
  const std::vector<std::string> words = {"capture", "cp", "rm", "report"};
  EXPECT_EQ(DidYouMean("captre", words), "; did you mean capture?");
  EXPECT_EQ(DidYouMean("reporx", words), "; did you mean report?");
  EXPECT_EQ(DidYouMean("pc", words), "");
  EXPECT_EQ(DidYouMean("delete", words), "");
  EXPECT_EQ(DidYouMean("x", words), "");
  EXPECT_EQ(DidYouMean("", words), "");
}

}  // namespace
}  // namespace strobe

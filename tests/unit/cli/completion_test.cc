#include "cli/completion.h"

#include <gmock/gmock.h>

namespace strobe::cli {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

class CompletionTest : public testing::Test {
 protected:
  CompletionTest() {
    CLI::App* ls = app_.add_subcommand("ls", R"(List one run's workers \ runs.)");
    ls->add_option("logdir", text_);
    ls->add_option("--limit", text_);
    ls->add_option("-o,--out", text_);
    app_.add_subcommand("rm", "Delete runs.");
  }
  std::string text_;
  CLI::App app_{"", "strobe"};
};

TEST_F(CompletionTest, BashKnowsEachCommandsFlags) {
  const std::string script = CompletionScript(app_, "bash");
  EXPECT_THAT(script, HasSubstr("local words=\"ls rm --help\""));
  EXPECT_THAT(script, HasSubstr("ls) words=\"--help --limit --out\" ;;"));
  EXPECT_THAT(script, HasSubstr("complete -o default -F _strobe strobe\n"));
}

TEST_F(CompletionTest, ZshUsesTheBashScript) {
  const std::string script = CompletionScript(app_, "zsh");
  EXPECT_THAT(script, StartsWith("autoload -U +X bashcompinit && bashcompinit\n"));
  EXPECT_THAT(script, HasSubstr(CompletionScript(app_, "bash")));
}

// Regression: the apostrophe in "one run's workers" closed the quotes, and fish rejected the
// script.
TEST_F(CompletionTest, FishDescriptionsAreQuoted) {
  const std::string script = CompletionScript(app_, "fish");
  EXPECT_THAT(script, HasSubstr(R"(-a ls -d 'List one run\'s workers \\ runs.')"));
  EXPECT_THAT(script, HasSubstr("'__fish_seen_subcommand_from ls' -l limit\n"));
}

TEST_F(CompletionTest, AnotherShellHasNoScript) { EXPECT_EQ(CompletionScript(app_, "tcsh"), ""); }

}  // namespace
}  // namespace strobe::cli

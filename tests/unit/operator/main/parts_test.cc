#include "operator/main/parts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

namespace strobe {
namespace {

using testing::ElementsAre;

class PartsTest : public testing::Test {
 protected:
  std::function<void()> Say(std::string word) {
    return [this, word] { said_.push_back(word); };
  }
  Part PartNamed(const char* name, absl::Status started = absl::OkStatus()) {
    const std::string text = name;
    return {.name = name,
            .start =
                [this, text, started] {
                  said_.push_back(text + " starts");
                  return started;
                },
            .lead = Say(text + " leads"),
            .drain = Say(text + " drains"),
            .stop = Say(text + " stops")};
  }

  std::vector<std::string> said_;
};

TEST_F(PartsTest, WhatStartsFirstStopsLast) {
  Parts parts({PartNamed("a"), PartNamed("b")});
  EXPECT_TRUE(parts.Start().ok());
  parts.Lead();
  parts.Stop();
  EXPECT_THAT(said_, ElementsAre("a starts", "b starts", "a leads", "b leads", "a drains",
                                 "b drains", "b stops", "a stops"));
}

TEST_F(PartsTest, NothingStartsAfterAFailure) {
  Parts parts({PartNamed("a", absl::UnavailableError("taken")), PartNamed("b")});
  EXPECT_EQ(parts.Start(), absl::UnavailableError("taken"));
  EXPECT_THAT(said_, ElementsAre("a starts"));
}

TEST_F(PartsTest, APartNeedsNoFunction) {
  Parts parts({{.name = "a"}, {.name = "b", .stop = Say("b stops")}});
  EXPECT_TRUE(parts.Start().ok());
  parts.Lead();
  parts.Stop();
  EXPECT_THAT(said_, ElementsAre("b stops"));
}

TEST_F(PartsTest, TheOthersStopAlsoIfOneThrows) {
  Parts parts({PartNamed("a"), {.name = "b", .stop = [] { throw std::runtime_error("broken"); }}});
  parts.Stop();
  EXPECT_THAT(said_, ElementsAre("a drains", "a stops"));
}

}  // namespace
}  // namespace strobe

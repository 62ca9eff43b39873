#include "common/http/query.h"

#include <gtest/gtest.h>

namespace strobe::http {
namespace {

TEST(Query, ReadsParameters) {
  const Query query("a=1&name=x%20y+z&flag&bad=%zz&a=2");
  EXPECT_EQ(query.Text("a"), "1");
  EXPECT_EQ(query.Text("name"), "x y z");
  EXPECT_TRUE(query.Has("flag"));
  EXPECT_EQ(query.Text("bad"), "%zz");
  EXPECT_EQ(query.Text("none"), "");
}

TEST(Query, NumbersHaveBounds) {
  const Query query("a=12&b=x&c=99999999999999999999&d=1.5&e=inf&f=");
  EXPECT_EQ(*query.Integer("a", 0, 0, 20), 12);
  EXPECT_EQ(*query.Integer("none", 7, 0, 20), 7);
  EXPECT_EQ(query.Integer("a", 0, 0, 5).status().message(), "a: 12 is not from 0 to 5");
  EXPECT_FALSE(query.Integer("b", 0, 0, 5).ok());
  EXPECT_FALSE(query.Integer("c", 0, 0, 5).ok());
  EXPECT_EQ(*query.Number("d", 0), 1.5);
  EXPECT_FALSE(query.Number("e", 0).ok());
  EXPECT_FALSE(query.Number("f", 0).ok());
}

TEST(Query, TakesWhateverComes) {
  EXPECT_FALSE(Query("").Has(""));
  EXPECT_FALSE(Query("&&&").Has(""));
  EXPECT_TRUE(Query("=x&%").Has("%"));
  EXPECT_FALSE(Query(std::string(100'000, '&') + "a=1").Has("b"));
}

}  // namespace
}  // namespace strobe::http

#include "common/text/ip_text.h"

#include <gmock/gmock.h>

namespace strobe {
namespace {

TEST(IsLoopback, KnowsTheNamesOfThisMachine) {
  for (const char* here : {"localhost:80", "127.0.0.1:80", "127.8.0.1:80", "[::1]:80"})
    EXPECT_TRUE(IsLoopback(here)) << here;
  for (const char* elsewhere :
       {"10.0.0.1:80", "localhost.example:80", "[::]:80", "0.0.0.0:80", "127.example:80", ":80"})
    EXPECT_FALSE(IsLoopback(elsewhere)) << elsewhere;
}

TEST(IsListenAddress, HasAPortThatExists) {
  for (const char* good : {"[::]:9470", "0.0.0.0:0", "localhost:65535", ":80"})
    EXPECT_TRUE(IsListenAddress(good)) << good;
  for (const char* bad : {"", "localhost", "[::]:65536", "[::]:99999", "a:-1", "a:", "a:x", "a:8x"})
    EXPECT_FALSE(IsListenAddress(bad)) << bad;
}

}  // namespace
}  // namespace strobe

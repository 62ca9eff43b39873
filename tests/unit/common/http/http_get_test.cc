#include "common/http/http_get.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "common/http/server.h"

namespace strobe::http {
namespace {

TEST(GetFromLocalhost, ReturnsTheAnswersStatus) {
  const auto server = *Server::Start({.listen = "127.0.0.1:0"}, {{"/healthz", [](const Request&) {
                                                                    return Page{200, "ok\n"};
                                                                  }}});
  EXPECT_EQ(*GetFromLocalhost(server->port(), "/healthz", std::chrono::seconds(10)), 200);
  EXPECT_EQ(*GetFromLocalhost(server->port(), "/other", std::chrono::seconds(10)), 404);
}

TEST(GetFromLocalhost, ASilentServerCostsTheTimeout) {
  std::atomic<bool> release = false;
  const auto server = *Server::Start({.listen = "127.0.0.1:0"}, {{"/", [&](const Request&) {
                                                                    while (!release)
                                                                      std::this_thread::yield();
                                                                    return Page{};
                                                                  }}});
  EXPECT_TRUE(absl::IsDeadlineExceeded(
      GetFromLocalhost(server->port(), "/", std::chrono::milliseconds(50)).status()));
  release = true;
}

TEST(GetFromLocalhost, APortWithoutAServerIsUnavailable) {
  int port = 0;
  {
    const auto server = *Server::Start({.listen = "127.0.0.1:0"}, {});
    port = server->port();
  }
  EXPECT_TRUE(absl::IsUnavailable(GetFromLocalhost(port, "/", std::chrono::seconds(10)).status()));
}

}  // namespace
}  // namespace strobe::http

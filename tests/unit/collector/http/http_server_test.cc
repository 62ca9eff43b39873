#include "collector/http/http_server.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <sys/socket.h>
#include <unistd.h>

namespace strobe {
namespace {

using testing::HasSubstr;

int Dial(int port) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  return fd;
}

std::string Exchange(int port, const std::string& request) {
  const int fd = Dial(port);
  EXPECT_EQ(write(fd, request.data(), request.size()), static_cast<ssize_t>(request.size()));
  std::string answer;
  char buffer[4096];
  for (ssize_t n = 0; (n = read(fd, buffer, sizeof buffer)) > 0;)
    answer.append(buffer, static_cast<std::size_t>(n));
  close(fd);
  return answer;
}

TEST(HttpServer, ServesItsPagesAndNothingElse) {
  const auto server = HttpServer::Start("127.0.0.1:0", {{"/metrics", [](const Request& request) {
                                                           return Page{200, "x " + request.query};
                                                         }}});
  ASSERT_TRUE(server.ok()) << server.status();
  const auto get = [&](const std::string& line) {
    return Exchange((*server)->port(), line + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  };
  EXPECT_THAT(get("GET /metrics?a=b"), HasSubstr("x a=b"));
  EXPECT_THAT(get("GET /nothing"), HasSubstr("404"));
  EXPECT_THAT(get("POST /metrics"), HasSubstr("405"));
  EXPECT_THAT(Exchange((*server)->port(), "nonsense\r\n\r\n"), "");
}

TEST(HttpServer, TurnsClientsAwayBeyondItsBound) {
  const auto server = HttpServer::Start("127.0.0.1:0", {{"/", [](const Request&) {
                                                           return Page{200, "ok"};
                                                         }}});
  std::vector<int> idle;
  for (int i = 0; i < 64; ++i) idle.push_back(Dial((*server)->port()));
  EXPECT_EQ(Exchange((*server)->port(), ""), "") << "closed at once";
  for (const int fd : idle) close(fd);
}

TEST(HttpServer, SaysWhenItCannotListen) {
  const auto first = HttpServer::Start("127.0.0.1:0", {});
  EXPECT_FALSE(HttpServer::Start("127.0.0.1:" + std::to_string((*first)->port()), {}).ok());
  EXPECT_FALSE(HttpServer::Start("nowhere", {}).ok());
}

}  // namespace
}  // namespace strobe

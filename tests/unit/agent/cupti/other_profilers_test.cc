#include "agent/cupti/other_profilers.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>

namespace strobe::agent {
namespace {

class Listener {
 public:
  explicit Listener(int family) : socket_(socket(family, SOCK_STREAM, 0)) {
    sockaddr_in6 address{};
    address.sin6_family = static_cast<sa_family_t>(family);
    socklen_t size = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    bind(socket_, reinterpret_cast<sockaddr*>(&address), size);
    listen(socket_, 1);
    getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &size);
    port = ntohs(address.sin6_port);  // The port is at the same offset for IPv4 and IPv6.
  }
  ~Listener() { close(socket_); }
  std::uint16_t port = 0;

 private:
  const int socket_;
};

TEST(ListensOn, KnowsThisProcessSockets) {
  EXPECT_FALSE(ListensOn({}));
  std::uint16_t gone = 0;
  for (const int family : {AF_INET, AF_INET6}) {
    const Listener listener(family);
    if (listener.port == 0) continue;  // This machine has no IPv6.
    const std::array<std::uint16_t, 2> ports = {1, listener.port};
    EXPECT_TRUE(ListensOn(ports));
    gone = listener.port;
  }
  const std::array<std::uint16_t, 1> ports = {gone};
  EXPECT_FALSE(ListensOn(ports));
}

TEST(ListensOn, AnotherProcessSocketIsNotOurs) {
  int told[2], end[2];
  ASSERT_TRUE(pipe(told) == 0 && pipe(end) == 0);
  const pid_t child = fork();
  if (child == 0) {
    const Listener listener(AF_INET);
    (void)!write(told[1], &listener.port, sizeof listener.port);
    char byte;
    (void)!read(end[0], &byte, 1);
    _exit(0);
  }
  std::array<std::uint16_t, 1> ports{};
  ASSERT_EQ(read(told[0], ports.data(), sizeof ports), static_cast<ssize_t>(sizeof ports));
  EXPECT_FALSE(ListensOn(ports));
  (void)!write(end[1], "", 1);
}

TEST(Kineto, IsNotInAProgramWithoutPyTorch) { EXPECT_FALSE(KinetoIsLoaded()); }

}  // namespace
}  // namespace strobe::agent

#include "collector/stall/sockets.h"

#include <gmock/gmock.h>

#include "tests/fakes/hang_cases.h"

namespace strobe::stall {
namespace {

constexpr char kHeading[] =
    "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout\n";

TEST(Sockets, ReadsEstablishedConnectionsBetweenMachines) {
  const std::string text =
      std::string(kHeading) +
      "   0: 0A004D0A:A871 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0\n"
      "   1: 0A004D0A:B1CF 0C004D0A:8D7D 01 00000070:00000000 01:00000123 00000005     0\n"
      "   2: 0A004D0A:B1D0 0B004D0A:8D7D 01 00000000:00000000 00:00000000 00000000     0\n"
      "   3: 0100007F:B1D0 0100007F:8D7D 01 00000070:00000000 01:00000123 00000005     0\n"
      "   4: 0000000000000000FFFF00000A004D0A:1 0000000000000000FFFF00000C004D0A:2 01 "
      "00000070:00000000 01:00000123 00000000     0\n"
      "   5: B80D0120000000000000000001000000:1 B80D0120000000000000000002000000:2 01 "
      "00000070:00000000 01:00000123 00000001     0\n"
      "   6: nonsense\n";
  const std::vector<TcpLink> links = ReadSockets(text);
  ASSERT_EQ(links.size(), 4u);
  EXPECT_EQ(links[0].local, "10.77.0.10");
  EXPECT_EQ(links[0].remote, "10.77.0.12");
  EXPECT_TRUE(links[0].retransmits);
  EXPECT_FALSE(links[1].retransmits);
  EXPECT_EQ(links[2].local, "10.77.0.10");  // IPv4 in IPv6's form.
  EXPECT_FALSE(links[2].retransmits);       // The timer runs, and nothing was sent again yet.
  EXPECT_EQ(links[3].local, "2001:db8::1");
  EXPECT_TRUE(links[3].retransmits);
}

TEST(Sockets, KnowsTheirTable) {
  EXPECT_TRUE(LooksLikeSockets(kHeading));
  EXPECT_FALSE(LooksLikeSockets("sl"));
  const auto cases = UnpackHangCases("cases.tar.gz");
  int retransmits = 0;
  for (const TcpLink& link : ReadSockets(cases.at("net_netcut_down_0").at("0.tcp")))
    retransmits += link.retransmits ? 1 : 0;
  EXPECT_GT(retransmits, 0);
}

}  // namespace
}  // namespace strobe::stall

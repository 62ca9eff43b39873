#include "sidecar/stall/socket_table.h"

#include <gtest/gtest.h>

#include "collector/stall/sockets.h"

namespace strobe::stall {
namespace {

constexpr char kHeading[] =
    "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid\n";
// 10.77.0.10 to 10.77.0.11, twice, of which the second retransmits; and one that listens.
constexpr char kLines[] =
    "   0: 0A004D0A:A871 0B004D0A:6D3C 01 00000000:00000000 00:00000000 00000000     0\n"
    "   1: 0A004D0A:A872 0B004D0A:6D3C 01 000005B4:00000000 01:0000001E 00000003     0\n"
    "   2: 0A004D0A:A873 0B004D0A:6D3C 01 00000000:00000000 00:00000000 00000000     0\n"
    "   3: 00000000:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0\n"
    "   4: 0100007F:1F90 0100007F:0016 01 00000000:00000000 00:00000000 00000000     0\n";

TEST(SocketTable, KeepsOneConnectionOfEachPair) {
  const std::string text = ShortSocketTable(std::string(kHeading) + kLines + kHeading);
  EXPECT_TRUE(LooksLikeSockets(text));
  const std::vector<TcpLink> links = ReadSockets(text);
  ASSERT_EQ(links.size(), 1u) << text;
  EXPECT_EQ(links[0].local, "10.77.0.10");
  EXPECT_EQ(links[0].remote, "10.77.0.11");
  EXPECT_TRUE(links[0].retransmits);
}

TEST(SocketTable, IsEmptyWithoutAHeading) {
  EXPECT_EQ(ShortSocketTable(kLines), "");
  EXPECT_EQ(ShortSocketTable(""), "");
}

TEST(SocketTable, IsThatOfThisMachine) { EXPECT_TRUE(LooksLikeSockets(ReadSocketTable())); }

}  // namespace
}  // namespace strobe::stall

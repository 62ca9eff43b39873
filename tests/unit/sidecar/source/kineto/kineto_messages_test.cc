#include "sidecar/source/kineto/kineto_messages.h"

#include <gmock/gmock.h>

#include <cstring>

namespace strobe::source {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

template <typename... Numbers>
std::string KinetoBody(Numbers... numbers) {
  std::string body;
  (body.append(reinterpret_cast<const char*>(&numbers), sizeof numbers), ...);
  return body;
}

std::string KinetoDatagramOf(std::string_view type, const std::string& body,
                             std::int64_t size_off = 0) {
  std::string datagram =
      KinetoBody(static_cast<std::uint64_t>(static_cast<std::int64_t>(body.size()) + size_off));
  datagram.append(type).resize(40, '\0');
  return datagram + body;
}

std::string PollOf(std::int32_t type, std::initializer_list<std::int32_t> pids) {
  std::string body = KinetoBody(type, static_cast<std::int32_t>(pids.size()), std::int64_t{0});
  for (const std::int32_t pid : pids) body += KinetoBody(pid);
  return KinetoDatagramOf("req", body);
}

TEST(ParseKinetoMessage, ReadsPollsAndRegistrations) {
  const auto poll = ParseKinetoMessage(PollOf(2, {42, 7, 3}));
  ASSERT_TRUE(poll.ok()) << poll.status();
  EXPECT_EQ(poll->kind, KinetoMessage::Kind::kPoll);
  EXPECT_TRUE(poll->idle);
  EXPECT_THAT(poll->pids, ElementsAre(42, 7, 3));
  EXPECT_FALSE(ParseKinetoMessage(PollOf(0, {42}))->idle);
  EXPECT_TRUE(ParseKinetoMessage(PollOf(3, {42}))->idle);

  const auto registration =
      ParseKinetoMessage(KinetoDatagramOf("ctxt", KinetoBody(0, 42, std::int64_t{9})));
  ASSERT_TRUE(registration.ok()) << registration.status();
  EXPECT_EQ(registration->kind, KinetoMessage::Kind::kRegister);
  EXPECT_THAT(registration->pids, ElementsAre(42));
}

TEST(ParseKinetoMessage, GarbageIsRefused) {
  const std::string good = PollOf(2, {42, 7});
  for (std::size_t size = 0; size < good.size(); ++size)
    EXPECT_FALSE(ParseKinetoMessage(good.substr(0, size)).ok()) << size;
  EXPECT_FALSE(ParseKinetoMessage(good + "x").ok());
  EXPECT_FALSE(ParseKinetoMessage(PollOf(2, {})).ok()) << "nobody";
  EXPECT_FALSE(ParseKinetoMessage(PollOf(2, {0})).ok());
  EXPECT_FALSE(ParseKinetoMessage(PollOf(2, {42, -1})).ok());
  for (const std::int32_t count : {-1, 0, 1, 3, 65, 0x7fffffff}) {
    const std::string body = KinetoBody(2, count, std::int64_t{0}, 42, 7);
    EXPECT_FALSE(ParseKinetoMessage(KinetoDatagramOf("req", body)).ok()) << count;
  }
  EXPECT_FALSE(
      ParseKinetoMessage(KinetoDatagramOf("req", KinetoBody(2, 1, std::int64_t{0}, 42), 1)).ok());
  EXPECT_FALSE(ParseKinetoMessage(KinetoDatagramOf("ctxt", KinetoBody(0, 42))).ok());
  EXPECT_FALSE(
      ParseKinetoMessage(KinetoDatagramOf("ctxt", KinetoBody(0, 0, std::int64_t{0}))).ok());
}

TEST(ParseKinetoMessage, TypesAreEndedByNulsOnly) {
  const std::string body = KinetoBody(2, 1, std::int64_t{0}, 42);
  EXPECT_TRUE(ParseKinetoMessage(KinetoDatagramOf("req", body)).ok());
  for (const std::string& type :
       {std::string("data"), std::string("re"), std::string("reqs"), std::string("REQ"),
        std::string(), std::string(32, 'r'), std::string("req\0x", 5)}) {
    const auto message = ParseKinetoMessage(KinetoDatagramOf(type, body));
    EXPECT_THAT(message.status().ToString(), HasSubstr("type is unknown")) << type;
  }
}

// What the other side reads: a size, 32 bytes of type, and exactly that many bytes. A body that is
// shorter than its header says would be read beyond its end in the trainer.
TEST(KinetoConfiguration, HasTheSizeThatItSays) {
  for (const std::string& text : {std::string(), std::string("A=b\n"), std::string(5000, 'x')}) {
    const std::string answer = KinetoConfiguration(text);
    ASSERT_EQ(answer.size(), 40 + text.size());
    std::uint64_t size = 0;
    std::memcpy(&size, answer.data(), sizeof size);
    EXPECT_EQ(size, text.size());
    EXPECT_EQ(answer.substr(8, 32), std::string("req").append(29, '\0'));
    EXPECT_EQ(answer.substr(40), text);
  }
  EXPECT_EQ(KinetoCount(3), KinetoDatagramOf("ctxt", KinetoBody(3)));
}

}  // namespace
}  // namespace strobe::source

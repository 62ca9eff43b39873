#include "common/http/server.h"

#include <gmock/gmock.h>
#include <netdb.h>
#include <poll.h>

#include <array>
#include <atomic>
#include <ctime>
#include <fstream>
#include <stdexcept>
#include <thread>

#include "common/base/mutex.h"
#include "common/tls/live_identity.h"
#include "tests/fakes/loopback_client.h"
#include "tests/fakes/no_free_files.h"

namespace strobe::http {
namespace {

using testing::HasSubstr;

TEST(HttpServer, ServesItsPagesAndNothingElse) {
  const auto server =
      Server::Start({.listen = "127.0.0.1:0"}, {{"/metrics", [](const Request& request) {
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

TEST(HttpServer, HandsOutTheHeadersThatAreWantedAsOftenAsTheyWereSent) {
  std::vector<std::pair<std::string, std::string>> seen;
  const auto server = Server::Start({.listen = "127.0.0.1:0", .headers = {"X-User", "X-Groups"}},
                                    {}, [&seen](const Request& request) {
                                      seen = request.headers;
                                      return Page{200, "ok"};
                                    });
  ASSERT_TRUE(server.ok()) << server.status();
  Exchange((*server)->port(),
           "GET / HTTP/1.1\r\nHost: x\r\nx-groups: a, b\r\nx-USER: eve\r\nX-Other: c\r\n"
           "X-User: bob\r\nConnection: close\r\n\r\n");
  using testing::Pair;
  EXPECT_THAT(seen, testing::ElementsAre(Pair("X-User", "eve"), Pair("X-User", "bob"),
                                         Pair("X-Groups", "a, b")));
}

std::string SourceSeen(int port, const char* host) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_flags = AI_NUMERICHOST;
  hints.ai_socktype = SOCK_STREAM;
  EXPECT_EQ(getaddrinfo(host, std::to_string(port).c_str(), &hints, &found), 0);
  const int fd = socket(found->ai_family, SOCK_STREAM, 0);
  const bool connected = connect(fd, found->ai_addr, found->ai_addrlen) == 0;
  freeaddrinfo(found);
  std::string answer;
  const std::string request = "GET / HTTP/1.0\r\nHost: x\r\n\r\n";
  if (connected && write(fd, request.data(), request.size()) > 0) {
    char buffer[4096];
    for (ssize_t n = 0; (n = read(fd, buffer, sizeof buffer)) > 0;)
      answer.append(buffer, static_cast<std::size_t>(n));
  }
  close(fd);
  return answer.substr(std::min(answer.size(), answer.find("from ")));
}

bool HasIpv6() {
  const int fd = socket(AF_INET6, SOCK_STREAM, 0);
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_addr = in6addr_loopback;
  const bool has = bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  close(fd);
  return has;
}

TEST(HttpServer, RefusesAPortThatIsNone) {
  for (const char* listen : {"localhost:99999", "localhost:-1", "localhost:", "localhost", "http"})
    EXPECT_TRUE(absl::IsInvalidArgument(Server::Start({.listen = listen}, {}).status())) << listen;
}

TEST(HttpServer, ListensOnBothIpFamilies) {
  if (!HasIpv6()) GTEST_SKIP() << "this machine has no IPv6";
  const auto start = [](const char* listen) {
    return Server::Start({.listen = listen}, {{"/", [](const Request& request) {
                                                 return Page{200, "from " + request.source};
                                               }}});
  };
  const auto both = start("[::]:0"), v6 = start("[::1]:0"), v4 = start("127.0.0.1:0");
  ASSERT_TRUE(both.ok()) << both.status();
  ASSERT_TRUE(v6.ok()) << v6.status();
  EXPECT_EQ(SourceSeen((*both)->port(), "::1"), "from ::1");
  EXPECT_EQ(SourceSeen((*both)->port(), "127.0.0.1"), "from 127.0.0.1") << "not ::ffff:127.0.0.1";
  EXPECT_EQ(SourceSeen((*v6)->port(), "::1"), "from ::1");
  EXPECT_EQ(SourceSeen((*v6)->port(), "127.0.0.1"), "");
  EXPECT_EQ(SourceSeen((*v4)->port(), "::1"), "");
}

TEST(HttpServer, TheLongestIdleGoWhenThereAreTooMany) {
  const auto server = Server::Start({.listen = "127.0.0.1:0"}, {{"/", [](const Request&) {
                                                                   return Page{200, "ok"};
                                                                 }}});
  std::vector<int> idle;
  for (int i = 0; i < 300; ++i) idle.push_back(Dial((*server)->port()));
  EXPECT_THAT(Exchange((*server)->port(), "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"),
              HasSubstr("200 OK"));
  char byte;
  EXPECT_EQ(read(idle.front(), &byte, 1), 0) << "closed by the server";
  for (const int fd : idle) close(fd);
}

// Regression: four slow requests occupied all threads.
TEST(HttpServer, SlowAnswersKeepNobodyElseWaiting) {
  Notification finish;
  std::atomic<int> begun{0}, asked{0};
  const auto server =
      Server::Start({.listen = "127.0.0.1:0",
                     .threads = 1,
                     .work_of =
                         [&](const Request& request) {
                           const bool slow = request.path == "/slow";
                           asked += slow ? 1 : 0;
                           return Work{slow ? Load::kWaits : Load::kShort};
                         },
                     .slow = {.threads = 2, .waiting = 4}},
                    {{"/slow",
                      [&](const Request&) {
                        ++begun;
                        finish.Wait();
                        return Page{.body = std::string(10'000, 'x'), .compress = true};
                      }},
                     {"/fast", [](const Request&) {
                        return Page{200, "at once"};
                      }}});
  const int port = (*server)->port();
  const auto get = [&](const std::string& path) {
    return Exchange(port, "GET " + path + " HTTP/1.1\r\nHost: x\r\nAccept-Encoding: gzip\r\n" +
                              "Connection: close\r\n\r\n");
  };
  std::vector<std::string> answers(6);
  std::vector<std::thread> clients;
  for (int i = 0; i < 6; ++i) {
    clients.emplace_back([&, i] { answers[i] = get("/slow"); });
    // Waits until each of the first two requests runs, so that the other four are queued.
    while (i < 2 && begun <= i) std::this_thread::yield();
  }
  for (int i = 0; i < 20; ++i) EXPECT_THAT(get("/fast"), HasSubstr("at once"));
  // After it has classified the sixth request, the server's only thread queues it before it takes
  // another one.
  while (asked < 6) std::this_thread::yield();
  const std::string refused = get("/slow");
  EXPECT_THAT(refused, HasSubstr("503"));
  EXPECT_THAT(refused, HasSubstr("Retry-After: 5"));
  EXPECT_THAT(get("/fast"), HasSubstr("at once"));
  EXPECT_EQ(begun, 2);
  finish.Notify();
  for (std::thread& client : clients) client.join();
  for (const std::string& answer : answers) {
    EXPECT_THAT(answer, HasSubstr("200 OK"));
    EXPECT_THAT(answer, HasSubstr("Content-Encoding: gzip"));
  }
}

TEST(HttpServer, TellsHandlersThatTheirClientIsGoneAndDropsThoseWhoseTurnHasNotCome) {
  Notification finish;
  std::atomic<int> begun{0}, present{0}, asked{0};
  const auto server = Server::Start({.listen = "127.0.0.1:0",
                                     .work_of =
                                         [&](const Request&) {
                                           ++asked;
                                           return Work{Load::kWaits};
                                         },
                                     .slow = {.threads = 1}},
                                    {}, [&](const Request& request) {
                                      ++begun;
                                      present += request.is_gone() ? 0 : 1;
                                      finish.Wait();
                                      while (request.query == "goes" && !request.is_gone())
                                        std::this_thread::yield();
                                      return Page{200, "told"};
                                    });
  ASSERT_TRUE(server.ok()) << server.status();
  std::vector<int> clients;
  for (int i = 0; i < 3; ++i) {
    const std::string line = i < 2 ? "GET /?goes HTTP/1.1" : "GET /?stays HTTP/1.1";
    const std::string request = line + "\r\nHost: x\r\nConnection: close\r\n\r\n";
    clients.push_back(Dial((*server)->port()));
    EXPECT_GT(write(clients.back(), request.data(), request.size()), 0);
    while (asked <= i || begun == 0) std::this_thread::yield();
  }
  for (int i = 0; i < 2; ++i) close(clients[i]);
  finish.Notify();
  std::string answer(4096, 0);
  EXPECT_GT(read(clients[2], answer.data(), answer.size()), 0);
  EXPECT_THAT(answer, HasSubstr("200 OK"));
  EXPECT_EQ(begun, 2) << "the second client went while its request was queued";
  EXPECT_EQ(present, 2);
  close(clients[2]);
}

TEST(HttpServer, EndsWhileSlowAnswersAreAwaited) {
  Notification finish, begun;
  auto server = Server::Start({.listen = "127.0.0.1:0",
                               .work_of = [](const Request&) { return Work{Load::kWaits}; },
                               .slow = {.threads = 1}},
                              {{"/slow", [&](const Request&) {
                                  begun.Notify();
                                  finish.Wait();
                                  return Page{200, "late"};
                                }}});
  const std::string request = "GET /slow HTTP/1.1\r\nHost: x\r\n\r\n";
  std::vector<int> clients;
  for (int i = 0; i < 3; ++i) {
    clients.push_back(Dial((*server)->port()));
    EXPECT_GT(write(clients.back(), request.data(), request.size()), 0);
  }
  begun.Wait();
  std::thread finisher([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    finish.Notify();
  });
  server->reset();
  finisher.join();
  for (const int client : clients) close(client);
}

TEST(HttpServer, ALongAnswerMayTakeALongTime) {
  const std::string body(8 << 20, 'x');
  const auto server = Server::Start({.listen = "127.0.0.1:0"}, {{"/long", [&](const Request&) {
                                                                   return Page{200, body};
                                                                 }}});
  const int client = Dial((*server)->port());
  const int few = 64 << 10;  // What the client's system reads ahead.
  setsockopt(client, SOL_SOCKET, SO_RCVBUF, &few, sizeof(few));
  const std::string request = "GET /long HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
  ASSERT_GT(write(client, request.data(), request.size()), 0);
  std::size_t got = 0;
  std::vector<char> buffer(256 << 10);
  // Longer than the deadline of an answer without a body.
  for (int i = 0; i < 24; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    const ssize_t bytes = read(client, buffer.data(), buffer.size());
    ASSERT_GT(bytes, 0) << "after " << got << " bytes";
    got += static_cast<std::size_t>(bytes);
  }
  ASSERT_LT(got, body.size()) << "the answer was sent too early to tell";
  for (ssize_t bytes = 1; bytes > 0; got += static_cast<std::size_t>(std::max<ssize_t>(bytes, 0)))
    bytes = read(client, buffer.data(), buffer.size());
  EXPECT_GT(got, body.size());
  close(client);
}

TEST(HttpServer, TakesBodiesUpToItsBound) {
  const auto server =
      Server::Start({.listen = "127.0.0.1:0", .max_body_bytes = 2000},
                    {{"/", [](const Request& request) {
                        return Page{200, request.method + request.body + request.content_type};
                      }}});
  const auto post = [&](const std::string& headers, const std::string& body) {
    return Exchange((*server)->port(), "POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n" +
                                           headers + "\r\n\r\n" + body);
  };
  EXPECT_THAT(post("Content-Type: a/b\r\nContent-Length: 3", "abc"), HasSubstr("POSTabca/b"));
  EXPECT_THAT(post("Transfer-Encoding: chunked", "3\r\nabc\r\n0\r\n\r\n"), HasSubstr("POSTabc"));
  EXPECT_THAT(post("Content-Length: 2001", std::string(2001, 'x')), HasSubstr("413"));
  EXPECT_THAT(
      post("Transfer-Encoding: chunked", "900\r\n" + std::string(0x900, 'x') + "\r\n0\r\n\r\n"),
      HasSubstr("413"));
  EXPECT_THAT(post("Content-Length: 99999999999", ""), HasSubstr("413"));
}

// A client that is refused by its head must not get its body into the server's memory.
TEST(HttpServer, RefusesByTheHeadBeforeTheBodyIsRead) {
  std::atomic<int> answered{0};
  const auto server = Server::Start({.listen = "127.0.0.1:0",
                                     .max_body_bytes = 100,
                                     .headers = {"Authorization"},
                                     .refuse_head = [](const Request& head) -> std::optional<Page> {
                                       EXPECT_EQ(head.body, "");
                                       if (head.path == "/throws") throw 5;
                                       if (head.headers.size() == 1 && head.method == "POST")
                                         return std::nullopt;
                                       return Page{401, "who are you"};
                                     }},
                                    {{"/", [&](const Request& request) {
                                        ++answered;
                                        return Page{200, request.body};
                                      }}});
  ASSERT_TRUE(server.ok()) << server.status();
  const auto post = [&](const std::string& path, const std::string& headers,
                        const std::string& body) {
    return Exchange((*server)->port(),
                    "POST " + path + " HTTP/1.1\r\nHost: x\r\n" + headers + "\r\n\r\n" + body);
  };
  EXPECT_THAT(post("/", "Connection: close\r\nContent-Length: 3\r\nauthorization: x", "abc"),
              HasSubstr("abc"));
  const std::string refused = post("/", "Content-Length: 90", "");
  EXPECT_THAT(refused, HasSubstr("401")) << "the body has not been waited for";
  EXPECT_THAT(refused, HasSubstr("Connection: close"));
  EXPECT_THAT(post("/", "Transfer-Encoding: chunked", ""), HasSubstr("401"));
  EXPECT_THAT(post("/throws", "Content-Length: 90", ""), HasSubstr("500"));
  EXPECT_EQ(answered, 1);
}

TEST(HttpServer, TellsWhatItRefusesByItself) {
  Mutex mutex;
  std::map<HttpRefusal, int> told;
  Notification begun, finish;
  std::atomic<int> asked{0};
  const auto server = Server::Start({.listen = "127.0.0.1:0",
                                     .max_body_bytes = 2000,
                                     .max_body_bytes_at_once = 1500,
                                     .threads = 1,
                                     .work_of =
                                         [&](const Request&) {
                                           ++asked;
                                           return Work{Load::kWaits};
                                         },
                                     .slow = {.threads = 1, .waiting = 1},
                                     .on_refusal =
                                         [&](HttpRefusal refusal) {
                                           MutexLock lock(&mutex);
                                           ++told[refusal];
                                         }},
                                    {{"/", [&](const Request&) {
                                        begun.Notify();
                                        finish.Wait();
                                        return Page{200, "ok"};
                                      }}});
  ASSERT_TRUE(server.ok()) << server.status();
  const auto post = [&](std::size_t length) {
    return Exchange((*server)->port(), "POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n" +
                                           ("Content-Length: " + std::to_string(length)) +
                                           "\r\n\r\n" + std::string(length, 'x'));
  };
  EXPECT_THAT(post(2001), HasSubstr("413"));
  std::thread first([&] { EXPECT_THAT(post(1000), HasSubstr("200 OK")); });
  begun.Wait();
  EXPECT_THAT(post(501), HasSubstr("503")) << "the first body is still held";
  std::thread second([&] { EXPECT_THAT(post(400), HasSubstr("200 OK")); });
  // The server's only thread queues a request before it takes another one.
  while (asked < 2) std::this_thread::yield();
  EXPECT_THAT(post(50), HasSubstr("503")) << "one waits already";
  finish.Notify();
  first.join();
  second.join();
  MutexLock lock(&mutex);
  EXPECT_THAT(told, testing::UnorderedElementsAre(testing::Pair(HttpRefusal::kTooLong, 1),
                                                  testing::Pair(HttpRefusal::kBusy, 2)));
}

// Counts the bytes that are asked for at once.
class Counting final : public BodySource {
 public:
  explicit Counting(std::uint64_t fails_at) : fails_at_(fails_at) {}
  std::uint64_t size() const override { return kSize; }
  absl::StatusOr<std::size_t> Read(std::uint64_t offset, std::span<char> into) override {
    most = std::max(most.load(), into.size());
    if (offset >= fails_at_) return absl::DataLossError("it was replaced");
    std::fill(into.begin(), into.end(), static_cast<char>('a' + offset % 26));
    return into.size();
  }
  static constexpr std::uint64_t kSize = (8u << 20) + 7;
  std::atomic<std::size_t> most{0};

 private:
  const std::uint64_t fails_at_;
};

TEST(HttpServer, SendsABodyInPieces) {
  for (const bool slow : {false, true}) {
    ServerOptions options{.listen = "127.0.0.1:0"};
    if (slow) options.work_of = [](const Request&) { return Work{Load::kWaits}; };
    const auto whole = std::make_shared<Counting>(Counting::kSize);
    const auto broken = std::make_shared<Counting>(1u << 20);
    const auto server = Server::Start(
        options, {{"/whole", [&](const Request&) { return Page{.source = whole}; }},
                  {"/broken", [&](const Request&) { return Page{.source = broken}; }}});
    ASSERT_TRUE(server.ok()) << server.status();
    const auto get = [&](const std::string& line) {
      return Exchange((*server)->port(),
                      line + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    };
    const std::string answer = get("GET /whole");
    const std::size_t body = answer.find("\r\n\r\n") + 4;
    EXPECT_THAT(answer.substr(0, body), HasSubstr("Content-Length: 8388615"));
    EXPECT_EQ(answer.size() - body, Counting::kSize);
    EXPECT_LE(whole->most, 1u << 20) << "memory does not depend on the size";
    EXPECT_EQ(get("HEAD /whole").find("\r\n\r\n") + 4, get("HEAD /whole").size());
    EXPECT_LT(get("GET /broken").size(), Counting::kSize) << "the client notices what is missing";
    // A second request on the same connection.
    EXPECT_GT(Exchange((*server)->port(),
                       "GET /whole HTTP/1.1\r\nHost: x\r\n\r\n"
                       "GET /whole HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
                  .size(),
              2 * Counting::kSize);
  }
}

// How much memory this process holds that belongs to no file.
std::size_t AnonymousMemory() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("RssAnon:")) return std::stoull(line.substr(8)) << 10;
  return 0;
}

// Reads one answer with a Content-Length.
std::size_t ReadAnswer(int client) {
  std::string got;
  std::vector<char> buffer(256 << 10);
  std::size_t body = std::string::npos, length = 0;
  while (body == std::string::npos || got.size() < body + length) {
    const ssize_t bytes = read(client, buffer.data(), buffer.size());
    if (bytes <= 0) return 0;
    got.append(buffer.data(), static_cast<std::size_t>(bytes));
    if (const std::size_t end = got.find("\r\n\r\n");
        body == std::string::npos && end < got.size()) {
      body = end + 4;
      length = std::stoull(got.substr(got.find("Content-Length: ") + 16));
    }
  }
  return length;
}

// Regression: an answer was kept until the next request of its connection.
TEST(HttpServer, AConnectionThatWaitsForItsNextRequestHoldsNothing) {
  constexpr std::size_t kBytes = std::size_t{16} << 20;
  const auto server = Server::Start({.listen = "127.0.0.1:0", .threads = 1},
                                    {{"/large", [](const Request&) {
                                        return Page{200, std::string(kBytes, 'x')};
                                      }}});
  ASSERT_TRUE(server.ok()) << server.status();
  const std::size_t before = AnonymousMemory();
  std::vector<int> clients;
  const std::string request = "GET /large HTTP/1.1\r\nHost: x\r\n\r\n";
  for (int i = 0; i < 12; ++i) {
    clients.push_back(Dial((*server)->port()));
    ASSERT_GT(write(clients.back(), request.data(), request.size()), 0);
    EXPECT_EQ(ReadAnswer(clients.back()), kBytes);
  }
  EXPECT_LT(AnonymousMemory(), before + 6 * kBytes);
  for (const int client : clients) close(client);
}

// Regression: who did not read what he had asked for made the server hold it, without a bound.
TEST(HttpServer, AnswersThatNobodyReadsTakeABoundedAmountOfMemory) {
  constexpr std::size_t kBytes = std::size_t{8} << 20;
  std::atomic<int> made{0};
  const auto server = Server::Start(
      {.listen = "127.0.0.1:0",
       .work_of =
           [](const Request& request) {
             return Work{request.path == "/large" ? Load::kHeavy : Load::kShort, request.query};
           },
       .slow = {.threads = 1, .waiting = 100},
       .answers = {.all = 5 * kBytes, .each = 3 * kBytes}},
      {{"/large",
        [&](const Request&) {
          ++made;
          return Page{200, std::string(kBytes, 'x')};
        }},
       {"/small", [](const Request&) {
          return Page{200, "at once"};
        }}});
  ASSERT_TRUE(server.ok()) << server.status();
  std::vector<int> clients;
  // The status of an answer, of which nothing else is read.
  const auto ask = [&](const std::string& path) {
    const std::string request = "GET " + path + " HTTP/1.1\r\nHost: x\r\n\r\n";
    clients.push_back(Dial((*server)->port()));
    const int few = 4096;
    setsockopt(clients.back(), SOL_SOCKET, SO_RCVBUF, &few, sizeof(few));
    EXPECT_GT(write(clients.back(), request.data(), request.size()), 0);
    std::string head(12, 0);
    EXPECT_GT(read(clients.back(), head.data(), head.size()), 0);
    return head.substr(9);
  };
  for (int i = 0; i < 3; ++i) EXPECT_EQ(ask("/large?mallory"), "200");
  EXPECT_EQ(ask("/large?mallory"), "503");
  EXPECT_EQ(made, 3) << "what could not be sent is not made";
  EXPECT_EQ(ask("/small?mallory"), "200");
  for (int i = 0; i < 2; ++i) EXPECT_EQ(ask("/large?bob"), "200");
  EXPECT_EQ(ask("/large?bob"), "503") << "all together hold what they may";
  for (int i = 0; i < 4; ++i) close(clients[i]);
  // Their memory is free once the server has noticed.
  std::string status;
  for (int i = 0; i < 1000 && status != "200"; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    status = ask("/large?mallory");
    close(clients.back());
    clients.pop_back();
  }
  EXPECT_EQ(status, "200");
  for (std::size_t i = 4; i < clients.size(); ++i) close(clients[i]);
}

// Regression: requests of one user, although short by themselves, kept all others waiting.
TEST(HttpServer, AskersTakeTurnsWithShortRequestsToo) {
  Notification finish;
  std::atomic<int> begun{0};
  const auto server = Server::Start({.listen = "127.0.0.1:0",
                                     .threads = 1,
                                     .work_of =
                                         [](const Request& request) {
                                           return Work{Load::kShort, request.query};
                                         },
                                     .brief = WorkLimits{.threads = 2, .each = 1, .waiting = 100}},
                                    {{"/", [&](const Request& request) {
                                        if (request.asker == "mallory") {
                                          ++begun;
                                          finish.Wait();
                                        }
                                        return Page{200, "told to " + request.asker};
                                      }}});
  ASSERT_TRUE(server.ok()) << server.status();
  const auto get = [&](const std::string& asker) {
    return Exchange((*server)->port(),
                    "GET /?" + asker + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  };
  std::vector<std::thread> clients;
  for (int i = 0; i < 8; ++i)
    clients.emplace_back([&] { EXPECT_THAT(get("mallory"), HasSubstr("told to mallory")); });
  while (begun == 0) std::this_thread::yield();
  for (int i = 0; i < 20; ++i) EXPECT_THAT(get("bob"), HasSubstr("told to bob"));
  EXPECT_EQ(begun, 1);
  finish.Notify();
  for (std::thread& client : clients) client.join();
}

TEST(HttpServer, DrainingEndsConnections) {
  const auto server = Server::Start({.listen = "127.0.0.1:0"}, {{"/", [](const Request&) {
                                                                   return Page{200, "ok"};
                                                                 }}});
  const std::string question = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
  const int idle = Dial((*server)->port()), silent = Dial((*server)->port());
  std::array<char, 1000> answer{};
  ASSERT_EQ(write(idle, question.data(), question.size()), static_cast<ssize_t>(question.size()));
  ASSERT_GT(read(idle, answer.data(), answer.size()), 0);
  (*server)->Drain();
  EXPECT_EQ(read(idle, answer.data(), answer.size()), 0) << "closed";
  // One that has not asked yet is still answered.
  ASSERT_EQ(write(silent, question.data(), question.size()), static_cast<ssize_t>(question.size()));
  ASSERT_GT(read(silent, answer.data(), answer.size()), 0);
  EXPECT_THAT(answer.data(), HasSubstr("Connection: close"));
  EXPECT_THAT(Exchange((*server)->port(), question), HasSubstr("Connection: close"));
  close(idle);
  close(silent);
}

TEST(HttpServer, ServesTlsWithTheCertificateOfTheMoment) {
  const WallTime now = SystemClock().WallNow();
  const Validity validity{now - std::chrono::hours(1), now + std::chrono::hours(1)};
  const KeyPair first = *NewAuthority("first", validity),
                second = *NewAuthority("second", validity);
  const Claim claim{"x", {"hooks.svc"}, Usage::kServer, validity};
  const KeyPair own = *NewCertificate(first, claim);
  LiveIdentity identity({own, first.certificate});
  const auto server =
      Server::Start({.listen = "127.0.0.1:0", .identity = &identity}, {{"/", [](const Request&) {
                                                                          return Page{200, "ok"};
                                                                        }}});
  const std::string get = "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
  const auto ask = [&](const std::string& roots) {
    return TlsClient{roots, "hooks.svc"}.Exchange((*server)->port(), get);
  };
  EXPECT_THAT(ask(first.certificate), HasSubstr("200 OK"));
  EXPECT_EQ(Exchange((*server)->port(), get).find("200 OK"), std::string::npos) << "plain text";
  const std::string renewed = *Certify(second, *NewSigningRequest(own.key), claim);
  ASSERT_TRUE(identity.Renew(renewed, second.certificate).ok());
  EXPECT_EQ(ask(first.certificate), "");
  EXPECT_THAT(ask(second.certificate), HasSubstr("200 OK"));
}

// Regression: a failed accept was repeated at once, so that a thread took a whole processor for as
// long as the process could open no file.
TEST(HttpServer, RestsWhileNoConnectionCanBeAccepted) {
  const auto server = Server::Start({.listen = "127.0.0.1:0"}, {{"/", [](const Request&) {
                                                                   return Page{200, "ok"};
                                                                 }}});
  ASSERT_TRUE(server.ok()) << server.status();
  const int client = socket(AF_INET, SOCK_STREAM, 0);
  {
    const NoFreeFiles none;
    Connect(client, (*server)->port());
    const std::clock_t before = std::clock();  // Processor time, of all threads.
    pollfd answered{client, POLLIN, 0};
    EXPECT_EQ(poll(&answered, 1, 400), 0);
    EXPECT_LT(std::clock() - before, CLOCKS_PER_SEC / 10);
  }
  const std::string get = "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
  ASSERT_EQ(write(client, get.data(), get.size()), static_cast<ssize_t>(get.size()));
  std::array<char, 1000> answer{};
  ASSERT_GT(read(client, answer.data(), answer.size() - 1), 0) << "accepted once there is room";
  EXPECT_THAT(answer.data(), HasSubstr("200 OK"));
  close(client);
}

// Regression: an exception before a connection was served ended the accepting for good.
TEST(HttpServer, AcceptsAgainAfterAnException) {
  const WallTime now = SystemClock().WallNow();
  const Validity validity{now - std::chrono::hours(1), now + std::chrono::hours(1)};
  const KeyPair authority = *NewAuthority("authority", validity);
  const LiveIdentity identity(
      {*NewCertificate(authority, {"server", {"hooks.svc"}, Usage::kServer, validity}),
       authority.certificate});
  std::atomic<int> asked{0};
  const auto server = Server::Start({.listen = "127.0.0.1:0",
                                     .identity = &identity,
                                     .client_authorities = [&]() -> std::string {
                                       if (++asked == 1) throw std::runtime_error("no memory");
                                       return authority.certificate;
                                     }},
                                    {{"/", [](const Request&) {
                                        return Page{200, "ok"};
                                      }}});
  ASSERT_TRUE(server.ok()) << server.status();
  const TlsClient client{authority.certificate, "hooks.svc",
                         *NewCertificate(authority, {"y", {"y"}, Usage::kClient, validity})};
  const std::string get = "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
  EXPECT_EQ(client.Exchange((*server)->port(), get), "");
  EXPECT_THAT(client.Exchange((*server)->port(), get), HasSubstr("200 OK"));
}

TEST(HttpServer, SaysWhenItCannotListen) {
  const auto first = Server::Start({.listen = "127.0.0.1:0"}, {});
  EXPECT_FALSE(Server::Start({.listen = "127.0.0.1:" + std::to_string((*first)->port())}, {}).ok());
  EXPECT_FALSE(Server::Start({.listen = "nowhere"}, {}).ok());
}

TEST(HttpServer, AHandlerThatThrowsIsAnErrorToItsCallerAlone) {
  const auto server = Server::Start(
      {.listen = "127.0.0.1:0"},
      {{"/bad", [](const Request&) -> Page { throw 5; }}, {"/good", [](const Request&) {
                                                             return Page{200, "fine"};
                                                           }}});
  ASSERT_TRUE(server.ok()) << server.status();
  const auto get = [&](const std::string& path) {
    return Exchange((*server)->port(),
                    "GET " + path + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  };
  for (int i = 0; i < 20; ++i) EXPECT_THAT(get("/bad"), HasSubstr("500"));
  EXPECT_THAT(get("/good"), HasSubstr("fine"));
}

TEST(HttpServer, AThrowWhileARequestIsJudgedIsAnErrorToItsCallerAlone) {
  const auto server = Server::Start({.listen = "127.0.0.1:0",
                                     .threads = 1,
                                     .work_of = [](const Request& request) -> Work {
                                       if (request.query == "bad")
                                         throw std::runtime_error("a defect");
                                       return {};
                                     }},
                                    {{"/", [](const Request&) {
                                        return Page{200, "ok"};
                                      }}});
  ASSERT_TRUE(server.ok()) << server.status();
  for (const auto& [query, status] : {std::pair{"bad", "500"}, {"good", "200 OK"}})
    EXPECT_THAT(Exchange((*server)->port(), std::string("GET /?") + query +
                                                " HTTP/1.1\r\nHost: x\r\n"
                                                "Connection: close\r\n\r\n"),
                HasSubstr(status));
}

}  // namespace
}  // namespace strobe::http

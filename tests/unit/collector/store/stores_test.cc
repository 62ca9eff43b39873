#include "collector/store/stores.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <chrono>
#include <thread>

#include "collector/store/cloud_store.h"
#include "common/base/file_descriptor.h"
#include "common/base/mutex.h"
#include "common/base/strings.h"

namespace {

// A resolver of names whose servers do not answer. It cannot be cancelled.
struct SilentResolver {
  std::atomic<bool> on{false};
  strobe::Notification asked, end, ended;
};
SilentResolver g_silent_resolver;

}  // namespace

// Replaces the function of the C library in this program.
extern "C" int getaddrinfo(const char* node, const char* service, const addrinfo* hints,
                           addrinfo** found) {
  static const auto real =
      reinterpret_cast<decltype(&getaddrinfo)>(dlsym(RTLD_NEXT, "getaddrinfo"));
  if (!g_silent_resolver.on) return real(node, service, hints, found);
  g_silent_resolver.asked.Notify();
  g_silent_resolver.end.WaitFor(std::chrono::seconds(20));
  g_silent_resolver.ended.Notify();
  return EAI_AGAIN;
}

namespace strobe::storage {
namespace {

// Regression: a cancelled call returned at once, but closing the store waited for the resolver.
TEST(CloudStore, IsClosedWithoutWaitingForTheResolver) {
  g_silent_resolver.on = true;
  Cancellation cancellation;
  auto store = OpenCloudStore(*Logdir::Parse("s3://bucket/logs"),
                              {{"aws_endpoint", "http://store.invalid:1"},
                               {"aws_region", "none"},
                               {"aws_skip_signature", "true"},
                               {"allow_http", "true"}},
                              {.cancellation = &cancellation});
  ASSERT_TRUE(store.ok()) << store.status();
  std::thread user([&] {
    g_silent_resolver.asked.WaitFor(std::chrono::seconds(20));
    cancellation.Cancel();
  });
  EXPECT_TRUE(absl::IsCancelled((*store)->Stat("x").status()));
  store->reset();
  EXPECT_TRUE(g_silent_resolver.asked.is_set());
  EXPECT_FALSE(g_silent_resolver.ended.is_set());
  user.join();
  g_silent_resolver.end.Notify();
  g_silent_resolver.ended.WaitFor(std::chrono::seconds(20));
  g_silent_resolver.on = false;
}

// An S3 server that answers every request with the same page of a listing.
class ListingServer {
 public:
  explicit ListingServer(std::string contents) : contents_(std::move(contents)) {
    socket_ = FileDescriptor(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* const raw = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(bind(socket_.get(), raw, size), 0);
    EXPECT_EQ(listen(socket_.get(), 8), 0);
    EXPECT_EQ(getsockname(socket_.get(), raw, &size), 0);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { Serve(); });
  }
  ~ListingServer() {
    shutdown(socket_.get(), SHUT_RDWR);
    thread_.join();
  }
  ListingServer(const ListingServer&) = delete;
  ListingServer& operator=(const ListingServer&) = delete;

  std::unique_ptr<ObjectStore> Open(const std::string& logdir) const {
    auto store = OpenCloudStore(*Logdir::Parse(logdir),
                                {{"aws_endpoint", StrCat("http://127.0.0.1:", port_)},
                                 {"aws_region", "none"},
                                 {"aws_skip_signature", "true"},
                                 {"allow_http", "true"}},
                                {});
    EXPECT_TRUE(store.ok()) << store.status();
    return *std::move(store);
  }

 private:
  void Serve() {
    for (;;) {
      const FileDescriptor client(accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (client.get() < 0) return;
      std::string request;
      std::array<char, 4096> room{};
      while (request.find("\r\n\r\n") == std::string::npos) {
        const ssize_t got = recv(client.get(), room.data(), room.size(), 0);
        if (got <= 0) break;
        request.append(room.data(), static_cast<std::size_t>(got));
      }
      const std::string body = StrCat(
          "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<ListBucketResult xmlns=\"http://s3\">",
          "<Name>b</Name><Prefix>logs/</Prefix><IsTruncated>false</IsTruncated>", contents_,
          "</ListBucketResult>");
      const std::string answer =
          StrCat("HTTP/1.1 200 OK\r\nContent-Type: application/xml\r\nConnection: close\r\n",
                 "Content-Length: ", body.size(), "\r\n\r\n", body);
      EXPECT_EQ(WriteAll(client.get(), answer), 0);
    }
  }

  const std::string contents_;
  FileDescriptor socket_;
  std::uint16_t port_ = 0;
  std::thread thread_;
};

std::string ListedObject(std::string_view key) {
  return StrCat("<Contents><Key>", key, "</Key><LastModified>2026-01-01T00:00:00.000Z",
                "</LastModified><ETag>&quot;e&quot;</ETag><Size>7</Size></Contents>");
}

// As XML writes it, and as it is in the logdir.
constexpr std::pair<std::string_view, std::string_view> kKeys[] = {
    {"logs/run/", "run/"},
    {"logs/run/sub/", "run/sub/"},
    {"logs/run//w", "run//w"},
    {"logs/run/a//b", "run/a//b"},
    {"logs/run/./w", "run/./w"},
    {"logs/run/../other/w", "run/../other/w"},
    {"logs/run/a&amp;b&lt;c&#62;&quot;&apos;&#xe9;", "run/a&b<c>\"'\xc3\xa9"},
    {"logs/run/&amp;amp;", "run/&amp;"},
    {"logs/run/ space ", "run/ space "},
    {"logs/run/tab&#9;line&#xA;", "run/tab\tline\n"},
    {"logs/run/61", "run/61"},
    {"logs/run/%2F%41", "run/%2F%41"},
    {"logs/run/w", "run/w"},
    {"logs/run/w/x", "run/w/x"},
    {"logs//w", "/w"},
};

// Regression: the crate's paths lost the slash of "run/", and one key with "//" failed the listing.
TEST(CloudStore, ListsEveryKeyAsItIs) {
  std::string contents;
  for (const std::string_view key : {"", "/", "log", "logs", "logsx/run/w", "other/run/w"})
    contents += ListedObject(key);
  std::vector<std::string> all;
  for (const auto& [xml, key] : kKeys) {
    contents += ListedObject(xml);
    all.emplace_back(key);
  }
  for (const char* prefix : {"logs/a/", "logs//", "logs/../", "logs/a/", "logs/b&amp;c/", "x/"})
    contents += StrCat("<CommonPrefixes><Prefix>", prefix, "</Prefix></CommonPrefixes>");
  const ListingServer server(contents);
  const std::unique_ptr<ObjectStore> store = server.Open("s3://b/logs");
  std::vector<std::string> told;
  const absl::Status listed = store->ListUnchecked("run/", [&](const StoredObject& object) {
    told.push_back(object.key);
    return true;
  });
  ASSERT_TRUE(listed.ok()) << listed;
  EXPECT_EQ(told, all) << "what is not in the logdir is not told";
  std::vector<std::string> files;
  const absl::StatusOr<std::vector<StoredObject>> objects = ListAll(*store, "run/");
  ASSERT_TRUE(objects.ok()) << objects.status();
  for (const StoredObject& object : *objects) {
    files.emplace_back(object.name());
    EXPECT_EQ(object.bytes, 7u);
    EXPECT_EQ(object.version, "\"e\"");
  }
  EXPECT_EQ(files, (std::vector<std::string>{" space ", "%2F%41", "&amp;", "61",
                                             "a&b<c>\"'\xc3\xa9", "w", "w/x"}));
  EXPECT_EQ(*store->ListDirectories(""), (std::vector<std::string>{"a", "b&c"}));
}

}  // namespace
}  // namespace strobe::storage

#include "sidecar/source/kineto/kineto_daemon.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <set>
#include <utility>

#include "common/base/guard.h"
#include "common/base/log.h"
#include "common/base/strings.h"
#include "sidecar/source/kineto/kineto_directory.h"
#include "sidecar/source/kineto/kineto_messages.h"

namespace strobe::source {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Nanos kOpenEvery = seconds(2);
// While a process has not read its answer, which no event tells, while one has an order, and
// otherwise.
constexpr Nanos kLookForReading = milliseconds(10), kLookForOrders = milliseconds(100),
                kLookIdle = seconds(1);
constexpr Nanos kLookForEnded = milliseconds(250);
constexpr Nanos kTidyEvery = seconds(5), kStaleAfter = seconds(60);
constexpr int kDatagramsPerTurn = 64;

bool SendKineto(const FileDescriptor& socket, const std::string& bytes) {
  return send(socket.get(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL) ==
         static_cast<ssize_t>(bytes.size());
}

}  // namespace

KinetoDaemon::KinetoDaemon(const Clock& clock, KinetoDaemonOptions options)
    : clock_(clock),
      options_(std::move(options)),
      sockets_(options_.socket_files ? options_.directory : ""),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  for (const char* reason : {"forged", "full", "garbage", "late"}) refused_[reason] = 0;
  if (const absl::Status status = PrepareKinetoDirectory(options_.directory); !status.ok()) {
    problem_ = MessageOf(status);
    LogError("Kineto's daemon is off", {{"error", problem_}});
    return;
  }
  Open();
  answers_thread_ = std::thread([this] { RunThread("kineto", [this] { Run(); }); });
  tidy_thread_ = std::thread([this] {
    RunThread("kineto", [this] {
      do Tidy();
      while (!stopping_.WaitFor(kTidyEvery));
    });
  });
}

KinetoDaemon::~KinetoDaemon() {
  if (!answers_thread_.joinable()) return;
  stopping_.Cancel();
  const std::uint64_t one = 1;
  (void)!write(wake_.get(), &one, sizeof one);
  answers_thread_.join();
  tidy_thread_.join();
  if (socket_.get() >= 0) RemoveKinetoDaemon(sockets_);
}

std::string KinetoDaemon::problem() const {
  MutexLock lock(&mutex_);
  return problem_;
}

std::vector<KinetoClient> KinetoDaemon::clients() const {
  MutexLock lock(&mutex_);
  std::vector<KinetoClient> all;
  for (const auto& [socket, client] : clients_.clients()) all.push_back(client);
  return all;
}

bool KinetoDaemon::Assign(const std::string& client, const KinetoOrder& order) {
  MutexLock lock(&mutex_);
  return clients_.Assign(client, order);
}

std::optional<KinetoDelivery> KinetoDaemon::DeliveryOf(const std::string& client) const {
  MutexLock lock(&mutex_);
  return clients_.DeliveryOf(client);
}

void KinetoDaemon::End(const std::string& client, bool done) {
  MutexLock lock(&mutex_);
  clients_.End(client, done);
}

std::map<std::string, std::uint64_t> KinetoDaemon::refused() const {
  MutexLock lock(&mutex_);
  return refused_;
}

void KinetoDaemon::Run() {
  while (!stopping_.cancelled()) {
    Serve();
    Look();
  }
}

// Waits for datagrams and answers them.
void KinetoDaemon::Serve() {
  if (socket_.get() < 0 && clock_.MonoNow() - opened_ >= kOpenEvery) Open();
  // A negative descriptor is ignored.
  pollfd wanted[] = {{wake_.get(), POLLIN, 0}, {socket_.get(), POLLIN, 0}};
  const auto pause = std::chrono::ceil<milliseconds>(Pause());
  if (poll(wanted, 2, static_cast<int>(pause.count())) <= 0) return;
  std::string room(kKinetoRoom, '\0');
  for (int i = 0; i < kDatagramsPerTurn && socket_.get() >= 0; ++i) {
    const std::optional<KinetoDatagram> datagram = ReceiveKineto(socket_, sockets_, room);
    if (!datagram) return;
    Answer(*datagram);
  }
}

void KinetoDaemon::Open() {
  opened_ = clock_.MonoNow();
  absl::StatusOr<FileDescriptor> socket = BindKinetoDaemon(sockets_);
  const std::string problem = socket.ok() ? "" : MessageOf(socket.status());
  if (socket.ok()) socket_ = *std::move(socket);
  MutexLock lock(&mutex_);
  if (problem == std::exchange(problem_, problem)) return;
  if (problem.empty())
    LogInfo("Kineto's daemon is listening", {});
  else
    LogWarning("Kineto's daemon cannot work", {{"error", problem}});
}

void KinetoDaemon::Refuse(const char* reason) {
  if (refused_[reason]++ == 0)
    LogWarning("a datagram to Kineto's daemon was refused", {{"reason", reason}});
}

void KinetoDaemon::Answer(const KinetoDatagram& datagram) {
  const absl::StatusOr<KinetoMessage> message = ParseKinetoMessage(datagram.bytes);
  const bool is_garbage = datagram.client.empty() || datagram.cut || !message.ok();
  const std::uint32_t own_pid = is_garbage || datagram.pid == 0 ? 0 : OwnPidOf(datagram.pid);
  const std::optional<std::uint64_t> began = own_pid == 0 ? std::nullopt : BeganOf(datagram.pid);
  MutexLock lock(&mutex_);
  if (is_garbage) return Refuse("garbage");
  // The kernel tells who sent it, unless that process is in a PID namespace beside ours.
  if (own_pid != 0 && own_pid != message->pids.front()) return Refuse("forged");
  const auto answer = answers_.find(datagram.client);
  const KinetoQuestion question{
      .socket = datagram.client,
      .pids = message->pids,
      .began = began,
      .idle = message->idle,
      .age = datagram.arrived ? clock_.WallNow() - *datagram.arrived : Nanos::max(),
      .unread = answer != answers_.end() && IsKinetoUnread(answer->second)};
  const bool in_time =
      question.age >= Nanos{0} && question.age <= KinetoClients::kLatestAnswer && !question.unread;
  if (!in_time) Refuse("late");
  if (message->kind == KinetoMessage::Kind::kRegister) {
    // By a socket that is not kept: anybody may register, under any number of names.
    if (in_time) (void)SendKineto(ConnectKinetoClient(sockets_, datagram.client), KinetoCount(1));
    return;
  }
  bool known = false;
  const KinetoOrder* order = clients_.Ask(question, clock_.MonoNow(), known);
  if (!known) Refuse("full");
  if (order == nullptr) return;
  const WallTime start = clock_.WallNow() + (order->start - clock_.MonoNow());
  if (Send(datagram.client, KinetoConfiguration(KinetoText(*order, start))))
    clients_.Sent(datagram.client);
}

bool KinetoDaemon::Send(const std::string& client, const std::string& bytes) {
  FileDescriptor& socket = answers_[client];
  if (socket.get() < 0) socket = ConnectKinetoClient(sockets_, client);
  return SendKineto(socket, bytes);
}

// Notices what happens without a datagram.
void KinetoDaemon::Look() {
  MutexLock lock(&mutex_);
  const MonoTime now = clock_.MonoNow();
  for (const auto& [client, socket] : answers_) {
    if (!IsKinetoUnread(socket)) clients_.Read(client, now);
  }
  if (now - looked_ >= kLookForEnded) {
    looked_ = now;
    LookForEnded();
  }
  clients_.Advance(now);
}

void KinetoDaemon::LookForEnded() {
  std::set<std::string> sockets;
  for (const auto& [client, ignored] : clients_.clients()) sockets.insert(client);
  for (const auto& [client, ignored] : clients_.deliveries()) sockets.insert(client);
  for (const auto& [client, ignored] : answers_) sockets.insert(client);
  for (const std::string& client : sockets) {
    if (IsKinetoClientThere(sockets_, client)) continue;
    clients_.Forget(client);
    answers_.erase(client);
  }
}

void KinetoDaemon::Tidy() const {
  std::vector<std::string> awaited;
  {
    MutexLock lock(&mutex_);
    for (const auto& [client, delivery] : clients_.deliveries())
      awaited.push_back(delivery.order.path);
  }
  // Removes the directory's name and the suffix: the rest is common to all files of a trace.
  for (std::string& path : awaited) {
    path.erase(0, path.rfind('/') + 1);
    path.erase(path.rfind('.'));
  }
  TidyKinetoDirectory(options_.directory, awaited, options_.max_duration + kStaleAfter);
}

Nanos KinetoDaemon::Pause() const {
  MutexLock lock(&mutex_);
  if (clients_.AnyUnread()) return kLookForReading;
  return clients_.deliveries().empty() ? kLookIdle : kLookForOrders;
}

}  // namespace strobe::source

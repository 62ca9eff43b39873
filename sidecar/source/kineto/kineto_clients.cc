#include "sidecar/source/kineto/kineto_clients.h"

#include <algorithm>

#include "common/base/duration.h"
#include "common/base/strings.h"

namespace strobe::source {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Stage = KinetoDelivery::Stage;
using Held = KinetoDelivery::Held;

constexpr Nanos kUsualInterval = seconds(5);  // Kineto's own.
constexpr Nanos kMinInterval = milliseconds(500), kMaxInterval = seconds(30);
// How long after the end of a recording Kineto may be busy with it.
constexpr Nanos kProcessing = seconds(3);

Held WhyHeld(const KinetoClient& client, const KinetoQuestion& question, MonoTime now) {
  if (!question.idle) return Held::kInUse;
  if (client.occupied && now < *client.occupied) return Held::kOccupied;
  if (question.unread) return Held::kUnread;
  if (question.age < Nanos{0} || question.age > KinetoClients::kLatestAnswer)
    return Held::kSeenLate;
  return Held::kNotAsked;
}

bool IsTooLate(const KinetoOrder& order, MonoTime now) { return order.start - now < order.Ahead(); }

}  // namespace

Nanos KinetoClient::Interval() const {
  const Nanos longest = *std::max_element(gaps.begin(), gaps.end());
  return longest == Nanos{0} ? kUsualInterval : std::clamp(longest, kMinInterval, kMaxInterval);
}

std::string KinetoClient::Words(Nanos interval) {
  using Tenths = std::chrono::duration<std::int64_t, std::deci>;
  return FormatDuration(std::chrono::round<Tenths>(interval));
}

std::string KinetoClient::Label(bool several) const {
  constexpr std::size_t kShown = 8;  // Characters of the socket's random end.
  if (!several || socket.size() < kShown) return StrCat("torch ", pid());
  return StrCat("torch ", pid(), " (", socket.substr(socket.size() - kShown), ")");
}

// Returns null if there are too many.
KinetoClient* KinetoClients::Note(const KinetoQuestion& question, MonoTime now) {
  const auto found = clients_.find(question.socket);
  if (found == clients_.end() && clients_.size() >= kMaxClients) return nullptr;
  KinetoClient& client = clients_[question.socket];
  const MonoTime asked = now - std::clamp(question.age, Nanos{0}, kUsualInterval);
  if (found != clients_.end()) client.gaps = {client.gaps[1], asked - client.asked_at};
  client.socket = question.socket;
  client.pids = question.pids;
  client.began = question.began;
  client.idle = question.idle;
  client.asked_at = asked;
  return &client;
}

const KinetoOrder* KinetoClients::Ask(const KinetoQuestion& question, MonoTime now, bool& known) {
  const KinetoClient* client = Note(question, now);
  known = client != nullptr;
  const auto it = deliveries_.find(question.socket);
  if (client == nullptr || it == deliveries_.end()) return nullptr;
  KinetoDelivery& delivery = it->second;
  delivery.idle = client->idle;
  delivery.interval = client->Interval();
  if (delivery.stage != Stage::kWaiting) return nullptr;
  delivery.held = WhyHeld(*client, question, now);
  if (delivery.held != Held::kNotAsked) return nullptr;
  if (IsTooLate(delivery.order, now)) {
    delivery.stage = Stage::kMissed;
    return nullptr;
  }
  return &delivery.order;
}

void KinetoClients::Sent(const std::string& socket) {
  if (const auto it = deliveries_.find(socket); it != deliveries_.end())
    it->second.stage = Stage::kSent;
}

void KinetoClients::Read(const std::string& socket, MonoTime now) {
  const auto it = deliveries_.find(socket);
  if (it == deliveries_.end() || it->second.stage != Stage::kSent) return;
  it->second.stage = Stage::kRead;
  it->second.read = now;
}

void KinetoClients::Forget(const std::string& socket) {
  clients_.erase(socket);
  if (const auto it = deliveries_.find(socket); it != deliveries_.end()) it->second.gone = true;
}

void KinetoClients::Advance(MonoTime now) {
  constexpr int kMissedQuestions = 3;
  std::erase_if(clients_, [&](const auto& entry) {
    const KinetoClient& client = entry.second;
    return now - client.asked_at > kMissedQuestions * client.Interval() + seconds(1);
  });
  for (auto& [socket, delivery] : deliveries_) {
    if (delivery.stage == Stage::kWaiting && IsTooLate(delivery.order, now))
      delivery.stage = Stage::kMissed;
  }
}

bool KinetoClients::Assign(const std::string& socket, const KinetoOrder& order) {
  const auto client = clients_.find(socket);
  if (client == clients_.end() || deliveries_.contains(socket)) return false;
  deliveries_[socket] = {
      .order = order, .idle = client->second.idle, .interval = client->second.Interval()};
  return true;
}

std::optional<KinetoDelivery> KinetoClients::DeliveryOf(const std::string& socket) const {
  const auto it = deliveries_.find(socket);
  return it == deliveries_.end() ? std::nullopt : std::optional(it->second);
}

void KinetoClients::End(const std::string& socket, bool done) {
  const auto it = deliveries_.find(socket);
  if (it == deliveries_.end()) return;
  const bool carried_out = it->second.stage == Stage::kSent || it->second.stage == Stage::kRead;
  const auto client = clients_.find(socket);
  if (client != clients_.end() && carried_out && !done)
    client->second.occupied = it->second.order.end() + kProcessing;
  deliveries_.erase(it);
}

bool KinetoClients::AnyUnread() const {
  return std::any_of(deliveries_.begin(), deliveries_.end(), [](const auto& entry) {
    return entry.second.stage == Stage::kSent && !entry.second.gone;
  });
}

bool AreRelated(const KinetoClient& a, const KinetoClient& b) {
  const auto descends = [](const KinetoClient& child, const KinetoClient& from) {
    return std::find(child.pids.begin() + 1, child.pids.end(), from.pid()) != child.pids.end();
  };
  return descends(a, b) || descends(b, a);
}

}  // namespace strobe::source

// The processes that ask for orders by Kineto's on-demand protocol, and what each was told. Pure:
// the time is an argument and nothing blocks.
//
// Rules that follow from how Kineto's client works (docs/how-to/without-python.md):
// - A process is answered only if an order is due, and then at once or not at all. It takes an
//   answer that comes too late for the answer to its next question, and from then on all of them.
// - For the same reason, no answer is sent while the process has not read an earlier one.
// - An order that could not begin in time is withheld, because Kineto would drop it silently.
// - A process has one order at a time, and none while its profiler is in use: Kineto drops others
//   silently, and nothing can take an order back.
#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "sidecar/source/kineto/kineto_order.h"

namespace strobe::source {

// A process, by its socket.
struct KinetoClient {
  std::string socket{};               // The name of its socket; unique.
  std::vector<std::uint32_t> pids{};  // The process and its ancestors, in its own PID namespace.
  // When the process began, in the kernel's ticks since boot; none if it is in a PID namespace
  // beside ours.
  std::optional<std::uint64_t> began{};
  bool idle = false;                   // Its profiler was free when it asked last.
  MonoTime asked_at{};                 // When it asked last.
  std::array<Nanos, 2> gaps{};         // Between its last questions; 0 = not known.
  std::optional<MonoTime> occupied{};  // When an order that nobody awaits any more has ended.

  std::uint32_t pid() const { return pids.front(); }
  // How often it asks.
  Nanos Interval() const;
  // The interval as text: "1s".
  static std::string Words(Nanos interval);
  // Its name is "torch <pid>"; `several` tells processes with the same ID apart.
  std::string Label(bool several) const;
};

struct KinetoQuestion {
  std::string socket{};
  std::vector<std::uint32_t> pids{};
  std::optional<std::uint64_t> began{};  // See KinetoClient.
  bool idle = false;
  Nanos age{};          // How long ago it arrived; negative or large after steps of the clock.
  bool unread = false;  // The process has not read an earlier answer.
};

struct KinetoDelivery {
  enum class Stage {
    kWaiting,  // For the process to ask.
    kSent,     // The answer is in the process's socket.
    kRead,     // The process has read it.
    kMissed,   // It could not be told in time.
  };
  // Why the process was not told when it asked last.
  enum class Held { kNotAsked, kInUse, kOccupied, kUnread, kSeenLate };

  KinetoOrder order{};
  Stage stage = Stage::kWaiting;
  Held held = Held::kNotAsked;
  bool gone = false;  // The process has ended.
  bool idle = true;   // See KinetoClient.
  Nanos interval{};   // See KinetoClient::Interval.
  std::optional<MonoTime> read{};
};

class KinetoClients {
 public:
  static constexpr std::size_t kMaxClients = 64;
  static constexpr Nanos kLatestAnswer = std::chrono::milliseconds(60);

  // Notes the question. Returns the order that must be sent now, or null. False in `known` if there
  // are too many processes to note this one.
  const KinetoOrder* Ask(const KinetoQuestion& question, MonoTime now, bool& known);
  // The order that Ask returned was sent.
  void Sent(const std::string& socket);
  // The process has read what it was sent.
  void Read(const std::string& socket, MonoTime now);
  // The process has ended.
  void Forget(const std::string& socket);
  // Forgets processes that missed three of their questions, and marks orders that are too late.
  void Advance(MonoTime now);

  // Gives a process an order when it asks next. Replaces none: false if it has one.
  bool Assign(const std::string& socket, const KinetoOrder& order);
  // Nothing if the process has no order.
  std::optional<KinetoDelivery> DeliveryOf(const std::string& socket) const;
  // Ends the order. Unless it is `done`, a process that was told carries it out all the same and
  // gets no other one until then.
  void End(const std::string& socket, bool done);

  const std::map<std::string, KinetoClient>& clients() const { return clients_; }
  const std::map<std::string, KinetoDelivery>& deliveries() const { return deliveries_; }
  bool AnyUnread() const;

 private:
  KinetoClient* Note(const KinetoQuestion& question, MonoTime now);

  std::map<std::string, KinetoClient> clients_;       // By socket.
  std::map<std::string, KinetoDelivery> deliveries_;  // By socket.
};

// True if one of the two processes started the other, by the process IDs that they tell.
bool AreRelated(const KinetoClient& a, const KinetoClient& b);

}  // namespace strobe::source

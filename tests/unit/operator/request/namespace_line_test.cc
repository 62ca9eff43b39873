#include "operator/request/namespace_line.h"

#include <gmock/gmock.h>

#include <map>
#include <random>
#include <set>

namespace strobe::request {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr WallTime kStart{1'700'000'000s};
WallTime At(int second) { return kStart + std::chrono::seconds(second); }

TEST(NamespaceLine, CountsWhoIsUnderWayAndWhoHasWaitedLonger) {
  NamespaceLine line;
  EXPECT_EQ(line.Try("a", "a/1", At(1)).active, 0);
  EXPECT_EQ(line.Try("a", "a/2", At(2)).active, 1) << "of two at once one sees the other";
  EXPECT_EQ(line.Try("b", "b/1", At(0)).active, 0) << "namespaces know nothing of each other";
  line.Begin("a/1");
  line.Wait("a/2");
  const policy::EarlierCaptures older = line.Try("a", "a/0", At(0)),
                                younger = line.Try("a", "a/3", At(3));
  EXPECT_EQ(older.active, 1);
  EXPECT_EQ(older.ahead, 0);
  EXPECT_EQ(younger.active, 2);
  EXPECT_EQ(younger.ahead, 1);
}

TEST(NamespaceLine, AnEndWakesWhoHasWaitedLongest) {
  NamespaceLine line;
  line.Try("a", "a/1", At(1));
  line.Begin("a/1");
  for (int i = 4; i > 1; --i) {
    const std::string key = "a/" + std::to_string(i);
    line.Try("a", key, At(i));
    line.Wait(key);
  }
  EXPECT_THAT(line.Leave("a/1"), ElementsAre("a/2"));
  EXPECT_THAT(line.Leave("a/1"), IsEmpty());
  line.Try("a", "a/2", At(2));
  EXPECT_THAT(line.Begin("a/2"), ElementsAre("a/3")) << "there may be room for more";
  EXPECT_THAT(line.Leave("a/3"), ElementsAre("a/4")) << "also when one gives up";
  EXPECT_EQ(line.Try("a", "a/9", At(9)).active, 1) << "a/2";
}

TEST(NamespaceLine, WhoeverTriesInVainWakesThoseWhomItHeldUp) {
  NamespaceLine line;
  line.Try("a", "a/1", At(1));
  line.Try("a", "a/2", At(2));
  // a/2 waits because of a/1, which then does not begin.
  line.Wait("a/2");
  EXPECT_THAT(line.Leave("a/1"), ElementsAre("a/2"));
}

TEST(NamespaceLine, ARetryThatIsHeldBackIsNotUnderWay) {
  NamespaceLine line;
  line.Try("a", "a/1", At(1));
  line.Begin("a/1");
  line.Try("a", "a/1", At(9));
  line.Wait("a/1");
  EXPECT_EQ(line.Try("a", "a/2", At(2)).active, 0);
}

// A model of an operator whose policies allow `most` captures of a namespace at once. In any order
// of events there are never more, every request begins eventually, and a namespace does not look
// more often because another one has many requests.
class Model {
 public:
  Model(unsigned seed, int most) : random_(seed), most_(most) {}

  void Arrive(const std::string& ns) {
    const std::string key = ns + "/" + std::to_string(next_);
    since_[key] = At(next_++);
    Wake(key);
  }
  // Lets one of the woken requests try to begin. Returns false if no request is woken.
  bool LookOnce() {
    if (woken_.empty()) return false;
    auto chosen = woken_.begin();
    std::advance(chosen, static_cast<std::ptrdiff_t>(random_() % woken_.size()));
    const std::string key = *chosen;
    woken_.erase(chosen);
    if (since_.count(key) == 0 || running_.count(key) > 0) return true;
    const std::string ns = key.substr(0, key.find('/'));
    ++looks_[ns];
    const policy::EarlierCaptures earlier = line_.Try(ns, key, since_[key]);
    if (earlier.active + earlier.ahead >= most_) return WakeAll(line_.Wait(key));
    if (random_() % 8 == 0) {  // Its pods are not there: it leaves the line and tries again later.
      WakeAll(line_.Leave(key));
      again_.insert(key);
      return true;
    }
    running_.insert(key);
    int under_way = 0;
    for (const std::string& other : running_) under_way += other.starts_with(ns + "/") ? 1 : 0;
    EXPECT_LE(under_way, most_);
    return WakeAll(line_.Begin(key));
  }
  void EndOne() {
    if (running_.empty()) return;
    auto chosen = running_.begin();
    std::advance(chosen, static_cast<std::ptrdiff_t>(random_() % running_.size()));
    const std::string key = *chosen;
    running_.erase(chosen);
    since_.erase(key);
    WakeAll(line_.Leave(key));
  }
  void PollAgain() {
    for (const std::string& key : again_) Wake(key);
    again_.clear();
  }
  bool done() const { return since_.empty(); }

  std::mt19937 random_;
  std::map<std::string, int> looks_;

 private:
  void Wake(const std::string& key) { woken_.insert(key); }
  bool WakeAll(const std::vector<std::string>& keys) {
    for (const std::string& key : keys) Wake(key);
    return true;
  }

  const int most_;
  NamespaceLine line_;
  int next_ = 0;
  std::map<std::string, WallTime> since_;
  std::set<std::string> woken_, running_, again_;
};

TEST(NamespaceLine, NeverTooManyAndNobodyWaitsForEver) {
  for (unsigned seed = 0; seed < 40; ++seed) {
    Model model(seed, 1 + static_cast<int>(seed % 3));
    int arrivals = 200;
    for (int step = 0; step < 20'000 && (arrivals > 0 || !model.done()); ++step) {
      const auto what = model.random_() % 10;
      if (what < 3 && arrivals > 0)
        --arrivals, model.Arrive(std::string(1, static_cast<char>('a' + model.random_() % 4)));
      else if (what < 5)
        model.EndOne();
      else if (what < 6)
        model.PollAgain();
      else
        model.LookOnce();
    }
    EXPECT_TRUE(model.done()) << "seed " << seed;
  }
}

TEST(NamespaceLine, ACrowdElsewhereCostsANamespaceNothing) {
  const auto looks_of_b = [](int crowd) {
    Model model(1, 1);
    for (int i = 0; i < crowd; ++i) model.Arrive("a");
    for (int i = 0; i < 5; ++i) model.Arrive("b");
    while (!model.done()) {
      while (model.LookOnce()) {
      }
      model.PollAgain();
      model.EndOne();
    }
    return model.looks_["b"];
  };
  EXPECT_LE(looks_of_b(1000), looks_of_b(0) + 15);
}

}  // namespace
}  // namespace strobe::request

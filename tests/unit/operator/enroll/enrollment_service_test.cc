#include "operator/enroll/enrollment_service.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>

#include <map>

#include "tests/fakes/simulated_time.h"

namespace strobe::enroll {
namespace {

using namespace std::chrono_literals;

class NoAuthorityStore final : public AuthorityStore {
 public:
  absl::StatusOr<StoredAuthorities> Load() override { return absl::UnavailableError(""); }
  absl::Status Save(const StoredAuthorities&) override { return absl::UnavailableError(""); }
  absl::Status WriteRoots(const std::string&) override { return absl::UnavailableError(""); }
  absl::StatusOr<bool> AreRootsWritten(const std::string&) override { return false; }
};

class DenyingReviewer final : public TokenReviewer {
 public:
  absl::StatusOr<PodIdentity> Review(const std::string&) override {
    ++asked;
    return absl::UnauthenticatedError("no");
  }
  int asked = 0;
};

class EnrollmentServiceTest : public testing::Test {
 protected:
  // Returns how many of the calls were limited.
  int Call(const std::string& peer, int calls) {
    int limited = 0;
    for (int i = 0; i < calls; ++i) {
      v1::EnrollRequest request;
      request.set_token("any text");
      v1::EnrollResponse response;
      const grpc::Status status = service_.EnrollFrom(peer, request, response);
      limited += status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED ? 1 : 0;
    }
    return limited;
  }

  SimulatedTime time_;
  NoAuthorityStore store_;
  AuthorityKeeper keeper_{time_, store_, {.server_names = {"strobe.ns.svc"}}, [] { return true; }};
  DenyingReviewer reviewer_;
  std::map<std::string, int> results_;
  EnrollmentService service_{time_, keeper_, reviewer_,
                             [this](const std::string& result) { ++results_[result]; }};
};

TEST_F(EnrollmentServiceTest, AStrangerCannotHaveTokensReviewedAtWill) {
  // Each connection has another port.
  EXPECT_EQ(Call("ipv4:10.0.0.1:1000", 250) + Call("ipv4:10.0.0.1:1001", 250), 300);
  EXPECT_EQ(reviewer_.asked, 200);
  EXPECT_EQ(Call("ipv4:10.0.0.2:1000", 200), 0) << "another address has a rate of its own";
  time_.Advance(1s);
  EXPECT_EQ(Call("ipv4:10.0.0.1:1000", 50), 30);
  EXPECT_EQ(results_["limited"], 330);
}

TEST_F(EnrollmentServiceTest, AMachineIsOneAddressWithAllOfItsIpv6Network) {
  EXPECT_EQ(Call("ipv6:%5Bfd00::1%5D:1000", 200), 0);
  EXPECT_EQ(Call("ipv6:%5Bfd00::2%5D:1000", 100), 100);
  EXPECT_EQ(Call("ipv6:%5Bfd00:0:0:1::2%5D:1000", 100), 0);
}

TEST(AddressOfPeer, HasNeitherPortNorBrackets) {
  EXPECT_EQ(AddressOfPeer("ipv4:10.0.0.1:44"), "10.0.0.1");
  EXPECT_EQ(AddressOfPeer("ipv6:[fd00::1]:44"), "fd00::1");
  EXPECT_EQ(AddressOfPeer("ipv6:%5Bfd00::1%5D:44"), "fd00::1");
  EXPECT_EQ(AddressOfPeer("unix"), "unix");
}

}  // namespace
}  // namespace strobe::enroll

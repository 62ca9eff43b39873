#include "sidecar/enroll/enroller.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <utility>

#include "common/base/duration.h"
#include "common/base/files.h"
#include "common/base/guard.h"
#include "common/base/log.h"
#include "common/base/new_file.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "strobe/v1/enrollment.grpc.pb.h"

namespace strobe::enroll {
namespace {

constexpr Nanos kCallTimeout = std::chrono::seconds(10);
constexpr Nanos kFirstRetry = std::chrono::milliseconds(500), kMaxRetry = std::chrono::seconds(60);
// How often the wall clock is looked at: it may be set, and waits do not count the time that a
// machine is suspended.
constexpr Nanos kLookAtClock = std::chrono::seconds(30);

std::string RootsFile(const std::string& state_dir) { return state_dir + "/roots.pem"; }

// Replaces the file in one step, so that a kill, or a crash of the machine, at any time leaves the
// old roots or the new ones.
void KeepRoots(const std::string& state_dir, const std::string& roots) {
  NewFile file(RootsFile(state_dir));
  (void)file.Write(roots);  // FinishDurably returns its error.
  if (const absl::Status saved = file.FinishDurably(); !saved.ok())
    LogWarning("the roots cannot be saved for the next start", {{"error", MessageOf(saved)}});
}

}  // namespace

WallTime NextRenewal(const Validity& validity, WallTime now) {
  const WallTime renewal = RenewalTime(validity);
  const Nanos least = (renewal - validity.from - kClockLeeway) / 50;
  return now + Spread(std::max({renewal - now, least, kFirstRetry}));
}

Enroller::Enroller(const Clock& clock, Options options,
                   std::function<void(const Enrolled&)> enrolled)
    : clock_(clock), options_(std::move(options)), on_enrolled_(std::move(enrolled)) {}

Enroller::~Enroller() { Stop(); }

void Enroller::Stop() {
  stop_.Notify();
  if (thread_.joinable()) thread_.join();
}

void Enroller::Start() {
  thread_ = std::thread([this] { RunThread("enroll", [this] { Run(); }); });
}

void Enroller::Run() {
  roots_ = options_.roots;
  if (!options_.state_dir.empty()) {
    // The kept roots are probably newer than those that the pod was created with. Both come from
    // our authority, so both are trusted.
    // An END line that is not the end of its line would make the whole text unreadable.
    if (const auto kept = ReadTextFile(RootsFile(options_.state_dir)); kept.ok())
      roots_ += "\n" + *kept;
  }
  Nanos retry = kFirstRetry;
  Nanos wait{0};
  WallTime renewal{};
  std::string complaint;  // What was logged last, so that a failure is logged once.
  while (!stop_.WaitFor(wait)) {
    if (const Nanos left = renewal - clock_.WallNow(); left > Nanos{0}) {
      wait = std::min(left, kLookAtClock);
      continue;
    }
    const absl::Status status = RunGuarded("enroll", [this] { return EnrollOnce(); });
    if (status.ok()) {
      renewal = NextRenewal(validity_, clock_.WallNow());
      wait = Nanos{0};
      retry = kFirstRetry;
      complaint.clear();
      continue;
    }
    if (MessageOf(status) != complaint) {
      LogWarning(enrolled() ? "the certificate cannot be renewed yet" : "cannot enroll yet",
                 {{"operator", options_.address.name}, {"error", MessageOf(status)}});
      complaint = MessageOf(status);
    }
    wait = Spread(retry);
    retry = std::min(retry * 2, kMaxRetry);
  }
}

absl::Status Enroller::EnrollOnce() {
  ASSIGN_OR_RETURN(const std::string token, ReadTextFile(options_.token_file));
  if (key_.empty()) {
    ASSIGN_OR_RETURN(key_, NewKey());
  }
  v1::EnrollRequest request;
  request.set_token(token.substr(0, token.find_last_not_of(" \n") + 1));
  ASSIGN_OR_RETURN(*request.mutable_signing_request(), NewSigningRequest(key_));

  // A Service that was created anew has another address, so its name is tried as well.
  const bool by_name = options_.address.connect_to.empty() || last_was_direct_;
  last_was_direct_ = !by_name;
  const auto stub =
      v1::Enrollment::NewStub(OpenOperatorChannel(clock_, options_.address, by_name, {{}, roots_}));
  grpc::ClientContext context;
  context.set_deadline(DeadlineIn(kCallTimeout));
  v1::EnrollResponse response;
  if (const grpc::Status status = stub->Enroll(&context, request, &response); !status.ok())
    return absl::UnavailableError(status.error_message());
  last_was_direct_ = false;
  // The roots of this answer replace those in use. Without a certificate among them, no later call
  // could trust the operator.
  if (const absl::Status roots = ValidityOf(response.roots()).status(); !roots.ok())
    return absl::InvalidArgumentError(
        StrCat("the operator's answer has no usable roots: ", MessageOf(roots)));
  ASSIGN_OR_RETURN(const Validity validity, ValidityOf(response.certificate()));
  if (response.roots() != roots_) {
    roots_ = response.roots();
    if (!options_.state_dir.empty()) KeepRoots(options_.state_dir, roots_);
  }
  if (identity_ != nullptr) {
    RETURN_IF_ERROR(identity_->Renew(response.certificate(), roots_));
  } else {
    ASSIGN_OR_RETURN(identity_, LiveIdentity::Create({{response.certificate(), key_}, roots_}));
    enrolled_.Notify();
    on_enrolled_({*identity_, {response.namespace_(), response.pod(), response.pod_uid()}});
  }
  validity_ = validity;
  LogInfo("enrolled", {{"until", FormatRfc3339(validity.until)}});
  return absl::OkStatus();
}

}  // namespace strobe::enroll

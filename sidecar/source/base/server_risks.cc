#include "sidecar/source/base/server_risks.h"

#include <grpcpp/generic/generic_stub.h>
#include <unistd.h>

#include <algorithm>
#include <string>

#include "absl/base/thread_annotations.h"
#include "common/base/mutex.h"
#include "common/base/strings.h"
#include "common/text/ip_text.h"

namespace strobe::source {

bool SparesGpus(const ServerRisks& risks, std::string_view address) {
  return !risks.gpu_tracing_by_servers && IsLoopback(address) &&
         access(risks.nvidia_driver.c_str(), F_OK) == 0;
}

std::string SparedNote(std::string_view who, std::string_view why) {
  return StrCat(who, " was asked for no devices: ", why);
}

namespace {

const char kMethod[] = "/tensorflow.ProfilerService/GetSnapshot";
// A truncated message: field 1, a string of 255 bytes, without its content.
constexpr std::string_view kNoMessage = "\x0a\xff\x01";

struct Question {
  std::unique_ptr<grpc::GenericStub> stub;
  grpc::ClientContext context;
  grpc::ByteBuffer answer;
};

}  // namespace

ServerAge AgeOf(grpc::StatusCode code) {
  if (code == grpc::StatusCode::INTERNAL) return ServerAge::kSince2026;
  if (code == grpc::StatusCode::UNIMPLEMENTED) return ServerAge::kBefore2026;
  return ServerAge::kUnknown;
}

std::vector<grpc::StatusCode> AskForMethod(std::span<const std::shared_ptr<grpc::Channel>> channels,
                                           const char* method,
                                           std::chrono::system_clock::time_point deadline) {
  const grpc::Slice slice(kNoMessage.data(), kNoMessage.size());
  const grpc::ByteBuffer bytes(&slice, 1);
  std::vector<Question> questions(channels.size());
  std::vector<grpc::StatusCode> answers(channels.size(), grpc::StatusCode::UNKNOWN);
  Mutex mutex;
  std::size_t pending = 0;
  {
    MutexLock lock(&mutex);
    pending = static_cast<std::size_t>(std::count_if(channels.begin(), channels.end(),
                                                     [](const auto& c) { return c != nullptr; }));
  }
  for (std::size_t i = 0; i < channels.size(); ++i) {
    if (channels[i] == nullptr) continue;
    Question& question = questions[i];
    question.stub = std::make_unique<grpc::GenericStub>(channels[i]);
    question.context.set_deadline(deadline);
    question.stub->UnaryCall(&question.context, method, grpc::StubOptions(), &bytes,
                             &question.answer, [&, i](const grpc::Status& status) {
                               MutexLock lock(&mutex);
                               answers[i] = status.error_code();
                               --pending;
                             });
  }
  MutexLock lock(&mutex);
  mutex.Await([&] { return pending == 0; });
  return answers;
}

std::vector<ServerAge> AskAges(std::span<const std::shared_ptr<grpc::Channel>> channels,
                               std::chrono::system_clock::time_point deadline) {
  std::vector<ServerAge> ages;
  for (const grpc::StatusCode code : AskForMethod(channels, kMethod, deadline))
    ages.push_back(AgeOf(code));
  return ages;
}

std::string_view WhyNoHostTracing(ServerAge age) {
  switch (age) {
    case ServerAge::kSince2026:
      return "";
    case ServerAge::kBefore2026:
      return "is from before 2026 (jaxlib before 0.9.0, TensorFlow before 2.21), and recording "
             "host annotations can crash such a trainer; they were left out. Upgrade the "
             "framework, "
             "set tracers.host to Disabled, or allow it with --host-tracing-on-old-servers";
    case ServerAge::kUnknown:
      break;
  }
  return "did not show in time whether it is from before 2026; recording host annotations can "
         "crash such a trainer, so they were left out";
}

}  // namespace strobe::source

#include "cli/kube/kubectl.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <utility>

#include "absl/strings/ascii.h"
#include "common/base/duration.h"
#include "common/base/file_descriptor.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"

namespace strobe::cluster {
namespace {

// The limit for one command. A request that may take longer sets --request-timeout.
constexpr Nanos kTimeout = std::chrono::minutes(2);

// What kubectl writes for the API server's reasons; see StatusReason in
// k8s.io/apimachinery/pkg/apis/meta/v1/types.go, and CheckErr in k8s.io/kubectl/pkg/cmd/util.
constexpr std::array<std::pair<std::string_view, absl::StatusCode>, 11> kReasons = {{
    {"(Forbidden)", absl::StatusCode::kPermissionDenied},
    {"(Unauthorized)", absl::StatusCode::kUnauthenticated},
    {"You must be logged in to the server", absl::StatusCode::kUnauthenticated},
    {"(NotFound)", absl::StatusCode::kNotFound},
    {"(AlreadyExists)", absl::StatusCode::kAlreadyExists},
    {"is invalid", absl::StatusCode::kInvalidArgument},
    {"(BadRequest)", absl::StatusCode::kInvalidArgument},
    {"denied the request", absl::StatusCode::kPermissionDenied},
    {"no matches for kind", absl::StatusCode::kFailedPrecondition},
    {"the server doesn't have a resource type", absl::StatusCode::kFailedPrecondition},
    {"does not exist", absl::StatusCode::kNotFound},  // A file.
}};

// Whether a line is one of kubectl's own log, such as "E1124 08:29:10.121163   13605
// memcache.go:265]
// ...". It repeats, for each try, what the last line says in plain words.
bool IsLogged(std::string_view line) {
  const auto digit = [&](std::size_t i) { return line[i] >= '0' && line[i] <= '9'; };
  return line.size() > 21 && (line[0] == 'E' || line[0] == 'W' || line[0] == 'I') && digit(1) &&
         digit(2) && digit(3) && digit(4) && line[5] == ' ' && line[8] == ':' && line[11] == ':';
}

// kubectl's own explanation of its failure.
std::string MessageIn(const std::string& err) {
  std::string plain;
  for (const std::string& line : Split(err, '\n')) {
    if (!IsLogged(line)) plain += line + "\n";
  }
  std::string_view message = ToStd(absl::StripAsciiWhitespace(ToAbsl(plain)));
  if (message.empty()) message = ToStd(absl::StripAsciiWhitespace(ToAbsl(err)));
  // Our own words say that it is an error, the object comes from us, and kubectl's advice is a flag
  // of kubectl.
  for (const std::string_view before :
       {"error: ", "error validating \"STDIN\": error validating data: "})
    if (message.starts_with(before)) message.remove_prefix(before.size());
  std::string text(message.substr(0, message.find("; if you choose to ignore these errors")));
  constexpr std::string_view kCreating = "error when creating \"STDIN\": ";
  if (const std::size_t at = text.find(kCreating); at != std::string::npos)
    text.erase(at, kCreating.size());
  return text;
}

constexpr std::size_t kMaxOut = 256u << 20, kMaxErr = 64u << 10;
// An object of the API has at most a few MiB; this bounds a line that never ends.
constexpr std::size_t kMaxLine = 16u << 20;
constexpr int kTickMs = 100;

void Close(FileDescriptor& file) { file = FileDescriptor(); }

struct Pipe {
  FileDescriptor read{}, write{};
};
absl::StatusOr<Pipe> MakePipe() {
  int ends[2] = {-1, -1};
  if (pipe2(ends, O_CLOEXEC) != 0) return absl::ErrnoToStatus(errno, "pipe");
  return Pipe{FileDescriptor(ends[0]), FileDescriptor(ends[1])};
}

// A running child. Its destructor ends it.
class Child {
 public:
  static absl::StatusOr<Child> Start(const std::string& program,
                                     const std::vector<std::string>& arguments, bool has_input);
  Child(Child&& other) noexcept
      : out(std::move(other.out)),
        err(std::move(other.err)),
        in(std::move(other.in)),
        pid_(std::exchange(other.pid_, -1)) {}
  Child& operator=(Child&&) = delete;
  ~Child() {
    if (pid_ < 0) return;
    kill(pid_, SIGKILL);
    Wait();
  }

  // Ends it with SIGTERM; kubectl ends its watch then.
  void End() const {
    if (pid_ > 0) kill(pid_, SIGTERM);
  }
  // Wait() will return at once.
  bool HasEnded() const {
    siginfo_t info{};
    return waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid == pid_;
  }
  // Its exit code, or 128 plus the signal that ended it.
  int Wait() {
    int status = 0;
    while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) continue;
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

  FileDescriptor out{}, err{}, in{};

 private:
  Child(FileDescriptor o, FileDescriptor e, FileDescriptor i, pid_t pid)
      : out(std::move(o)), err(std::move(e)), in(std::move(i)), pid_(pid) {}
  pid_t pid_;
};

absl::StatusOr<Child> Child::Start(const std::string& program,
                                   const std::vector<std::string>& arguments, bool has_input) {
  ASSIGN_OR_RETURN(Pipe out, MakePipe());
  ASSIGN_OR_RETURN(Pipe err, MakePipe());
  ASSIGN_OR_RETURN(Pipe in, MakePipe());
  std::vector<char*> argv = {const_cast<char*>(program.c_str())};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_adddup2(&files, out.write.get(), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&files, err.write.get(), STDERR_FILENO);
  if (has_input) posix_spawn_file_actions_adddup2(&files, in.read.get(), STDIN_FILENO);
  // This process ignores SIGPIPE, and a child inherits that.
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t defaults;
  sigemptyset(&defaults);
  sigaddset(&defaults, SIGPIPE);
  posix_spawnattr_setsigdefault(&attributes, &defaults);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
  pid_t pid = -1;
  const int failed = posix_spawnp(&pid, program.c_str(), &files, &attributes, argv.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  if (failed == ENOENT) {
    return absl::NotFoundError(
        StrCat(program, " is not in $PATH; install it, or call this command as kubectl strobe"));
  }
  if (failed != 0) return absl::ErrnoToStatus(failed, StrCat("cannot run ", program));
  for (const int fd : {out.read.get(), err.read.get(), in.write.get()})
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
  if (!has_input) Close(in.write);
  return Child(std::move(out.read), std::move(err.read), std::move(in.write), pid);
}

// Appends some of what can be read now, so that the caller's bounds hold whatever the child writes.
// Closes the descriptor at its end.
void ReadInto(FileDescriptor& from, std::string& text) {
  std::array<char, 65536> buffer;
  const ssize_t got = read(from.get(), buffer.data(), buffer.size());
  if (got > 0)
    text.append(buffer.data(), static_cast<std::size_t>(got));
  else if (got == 0 || (errno != EAGAIN && errno != EINTR))
    Close(from);
}

void WriteSome(FileDescriptor& to, std::string_view& rest) {
  const ssize_t put = write(to.get(), rest.data(), rest.size());
  if (put > 0) rest.remove_prefix(static_cast<std::size_t>(put));
  if ((put < 0 && errno != EAGAIN && errno != EINTR) || rest.empty()) Close(to);
}

// Moves bytes until the child has closed its outputs, or has ended and nothing is left to read:
// what it has started, such as a plugin that gives credentials, may live on and hold the outputs
// open. `look` is called after each movement and at least every kTickMs; the transfer ends when it
// returns false.
template <typename Look>
void Transfer(Child& child, std::string_view input, KubectlResult& result, const Look& look) {
  if (input.empty()) Close(child.in);
  while (child.out.get() >= 0 || child.err.get() >= 0) {
    std::array<pollfd, 3> waits = {{{child.out.get(), POLLIN, 0},
                                    {child.err.get(), POLLIN, 0},
                                    {child.in.get(), POLLOUT, 0}}};  // poll skips those below 0.
    const bool had_ended = child.HasEnded();
    if (poll(waits.data(), waits.size(), kTickMs) == 0 && had_ended) return;
    if (waits[0].revents != 0) ReadInto(child.out, result.out);
    if (waits[1].revents != 0) ReadInto(child.err, result.err);
    if (waits[2].revents != 0) WriteSome(child.in, input);
    if (result.err.size() > kMaxErr) result.err.resize(kMaxErr);
    if (!look()) return;
  }
}

std::vector<std::string> Joined(const std::vector<std::string>& common,
                                const std::vector<std::string>& arguments) {
  std::vector<std::string> all = arguments;
  // Options that follow "--" would not be options.
  all.insert(all.begin(), common.begin(), common.end());
  return all;
}

}  // namespace

absl::Status StatusOf(const KubectlResult& result) {
  if (result.exit_code == 0) return absl::OkStatus();
  std::string message = MessageIn(result.err);
  if (message.empty()) message = StrCat("kubectl ended with exit code ", result.exit_code);
  for (const auto& [words, code] : kReasons) {
    if (Contains(message, words)) return {code, message};
  }
  if (Contains(message, "dial tcp") || Contains(message, "was refused"))
    message += "; --context, --kubeconfig or $KUBECONFIG choose the cluster";
  return absl::UnavailableError(message);
}

absl::StatusOr<std::string> Output(Kubectl& kubectl, const std::vector<std::string>& arguments,
                                   const std::string& input) {
  ASSIGN_OR_RETURN(KubectlResult result, Complete(kubectl, arguments, input));
  return std::move(result.out);
}

absl::StatusOr<KubectlResult> Complete(Kubectl& kubectl, const std::vector<std::string>& arguments,
                                       const std::string& input) {
  ASSIGN_OR_RETURN(KubectlResult result, kubectl.Run(arguments, input, kTimeout));
  if (absl::Status status = StatusOf(result); !status.ok()) return status;
  return result;
}

absl::StatusOr<KubectlResult> KubectlProcess::Run(const std::vector<std::string>& arguments,
                                                  const std::string& input, Nanos timeout) {
  ASSIGN_OR_RETURN(Child child, Child::Start(program_, Joined(common_, arguments), !input.empty()));
  const SystemClock clock;
  const MonoTime until = clock.MonoNow() + timeout;
  KubectlResult result;
  absl::Status problem;
  Transfer(child, input, result, [&] {
    if (clock.MonoNow() > until)
      problem = absl::DeadlineExceededError(
          StrCat("kubectl ", arguments.empty() ? "" : arguments[0], " did not end within ",
                 FormatDuration(timeout), "; --request-timeout limits its requests"));
    else if (result.out.size() > kMaxOut)
      problem = absl::ResourceExhaustedError(
          StrCat("kubectl wrote more than ", kMaxOut >> 20, " MiB; name one namespace"));
    return problem.ok();
  });
  if (!problem.ok()) return problem;
  result.exit_code = child.Wait();
  return result;
}

absl::StatusOr<KubectlResult> KubectlProcess::Follow(const std::vector<std::string>& arguments,
                                                     const Line& line, const Tick& tick) {
  ASSIGN_OR_RETURN(Child child,
                   Child::Start(program_, Joined(common_, arguments), /*has_input=*/false));
  KubectlResult result;
  bool ended = false;
  Transfer(child, {}, result, [&] {
    std::size_t begin = 0;
    for (std::size_t end = result.out.find('\n'); end != std::string::npos && !ended;
         end = result.out.find('\n', begin)) {
      ended = !line(std::string_view(result.out).substr(begin, end - begin));
      begin = end + 1;
    }
    result.out.erase(0, begin);
    ended = ended || !tick() || result.out.size() > kMaxLine;
    return !ended;
  });
  if (ended) child.End();
  result.exit_code = child.Wait();
  result.out.clear();
  if (ended) result.exit_code = 0;
  return result;
}

}  // namespace strobe::cluster

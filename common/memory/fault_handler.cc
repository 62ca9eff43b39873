#include "common/memory/fault_handler.h"

#include <array>
#include <cerrno>
#include <cstddef>

namespace strobe {
namespace {

struct Installed {
  MendFault mend = nullptr;
  struct sigaction previous = {};
};
std::array<Installed, NSIG> g_installed;

void OnFault(int number, siginfo_t* info, void* context) {
  const int was = errno;
  const Installed& installed = g_installed[static_cast<std::size_t>(number)];
  if (installed.mend(*info)) {
    errno = was;
    return;
  }
  const struct sigaction& previous = installed.previous;
  if ((previous.sa_flags & SA_SIGINFO) != 0 && previous.sa_sigaction != nullptr)
    return previous.sa_sigaction(number, info, context);
  // After the return the processor repeats the access. With the previous handler restored, the
  // second signal ends the process, as if this handler had never been installed.
  sigaction(number, &previous, nullptr);
}

}  // namespace

void InstallFaultHandler(int number, MendFault mend) {
  Installed& installed = g_installed[static_cast<std::size_t>(number)];
  installed.mend = mend;
  struct sigaction action = {};
  action.sa_sigaction = OnFault;
  action.sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK;
  sigaction(number, &action, &installed.previous);
}

}  // namespace strobe

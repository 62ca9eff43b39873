// strobe: captures without Kubernetes.
#include <iostream>

#include "collector/base/log.h"
#include "collector/base/version.h"
#include "operator/cli/capture_command.h"

int main(int argc, char** argv) {
  CLI::App app("Synchronized profiler captures of many workers.", "strobe");
  app.set_version_flag("--version", strobe::kVersion);
  app.require_subcommand(1);
  strobe::CaptureFlags flags;
  CLI::App* capture = app.add_subcommand("capture", "record all workers from one instant and put the traces into a logdir");
  strobe::AddCaptureFlags(*capture, flags);
  if (argc > 1 && argv[1][0] != '-' && !capture->check_name(argv[1])) {
    std::cerr << "strobe: there is no command \"" << argv[1] << "\"; strobe --help lists them\n";
    return 2;
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  strobe::InitLog(strobe::LogLevel::kError, strobe::LogFormat::kText);
  return strobe::RunCapture(flags);
}

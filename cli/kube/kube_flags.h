// The flags of the commands for clusters: `kubectl strobe ...`, which are also `strobe kube ...`.
#pragma once
#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "cli/kube/capture_request.h"

namespace strobe::cli {

// kubectl's own flags, which are passed on to it.
struct ConnectionFlags {
  std::string ns{}, context{}, kubeconfig{}, cluster{}, user{}, as{}, as_uid{}, server{}, token{},
      request_timeout{}, certificate_authority{}, tls_server_name{}, cache_dir{};
  std::vector<std::string> as_group{};
  bool insecure_skip_tls_verify = false;

  std::vector<std::string> Arguments() const;
};
void AddConnectionFlags(CLI::App& command, ConnectionFlags& flags);

struct KubeCaptureFlags {
  ConnectionFlags connection{};
  cluster::CaptureRequestFlags request{};
  std::string from{}, dry_run{}, output{};
  bool wait = false, no_wait = false, quiet = false, open = false;

  // Without either flag, it waits unless there is an output.
  bool waits() const { return wait || (!no_wait && output.empty()); }
};
struct KubeViewFlags {
  ConnectionFlags connection{};
  std::string what{};  // A request's name, or the URL of a run or a logdir.
  std::string service_account{}, image{}, memory = "2Gi", deadline = "4h", timeout = "2m";
  int port = 0;
  bool no_open = false, quiet = false;
};
void AddKubeViewFlags(CLI::App& command, KubeViewFlags& flags);

void AddKubeCaptureFlags(CLI::App& command, KubeCaptureFlags& flags);

struct KubeCheckFlags {
  ConnectionFlags connection{};
  cluster::CaptureRequestFlags request{};
  std::string from{}, output = "table", timeout = "1m";
};
void AddKubeCheckFlags(CLI::App& command, KubeCheckFlags& flags);

// Flags of the commands that ask for the evidence of a job that stands still: why and stacks.
struct KubeEvidenceFlags {
  ConnectionFlags connection{};
  cluster::CaptureRequestFlags request{};
  std::string output = "text", timeout = "1m";
};
void AddKubeWhyFlags(CLI::App& command, KubeEvidenceFlags& flags);
void AddKubeStacksFlags(CLI::App& command, KubeEvidenceFlags& flags);

struct KubeListFlags {
  ConnectionFlags connection{};
  bool all_namespaces = false;
  std::string output = "table";
};
void AddKubeListFlags(CLI::App& command, KubeListFlags& flags);

// Flags of the commands that work on requests by name: get, cancel, rm, logs and cp.
struct KubeNamesFlags {
  ConnectionFlags connection{};
  std::vector<std::string> names{};
  std::string name{};                  // cp, which works on one request.
  std::string output = "table";        // get.
  std::string to{}, storage_config{};  // cp.
  bool quiet = false;                  // cp.
  int tail = 50;                       // logs.
};
void AddKubeGetFlags(CLI::App& command, KubeNamesFlags& flags);
void AddKubeCancelFlags(CLI::App& command, KubeNamesFlags& flags);
void AddKubeRmFlags(CLI::App& command, KubeNamesFlags& flags);
void AddKubeLogsFlags(CLI::App& command, KubeNamesFlags& flags);
void AddKubeCpFlags(CLI::App& command, KubeNamesFlags& flags);

}  // namespace strobe::cli

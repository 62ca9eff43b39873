#include "cli/kube/kube_flags.h"

#include <utility>

#include "cli/base/common_flags.h"
#include "common/base/strings.h"

namespace strobe::cli {
namespace {

constexpr char kConnectionGroup[] = "Flags of kubectl";

struct Passed {
  const char* names;
  std::string ConnectionFlags::*value;
  const char* help;
};
constexpr Passed kPassed[] = {
    {"-n,--namespace", &ConnectionFlags::ns, "the namespace of the job"},
    {"--context", &ConnectionFlags::context, "the context of the kubeconfig"},
    {"--kubeconfig", &ConnectionFlags::kubeconfig, "the kubeconfig"},
    {"--cluster", &ConnectionFlags::cluster, "the cluster of the kubeconfig"},
    {"--user", &ConnectionFlags::user, "the user of the kubeconfig"},
    {"--as", &ConnectionFlags::as, "the user to impersonate"},
    {"--as-uid", &ConnectionFlags::as_uid, "the UID to impersonate"},
    {"-s,--server", &ConnectionFlags::server, "the API server's address"},
    {"--token", &ConnectionFlags::token, "a bearer token"},
    {"--request-timeout", &ConnectionFlags::request_timeout, "limit of one request, such as 10s"},
    {"--certificate-authority", &ConnectionFlags::certificate_authority,
     "file with the API server's authority"},
    {"--tls-server-name", &ConnectionFlags::tls_server_name,
     "the name in the API server's certificate"},
    {"--cache-dir", &ConnectionFlags::cache_dir, "kubectl's cache"},
};

constexpr char kExitCodes[] =
    "Exit code: 0 enough workers have a trace in the logdir, 1 they do not, 2 a flag or a field is "
    "wrong, 130 the command was interrupted.";

void AddTargetFlags(CLI::App& command, cluster::CaptureRequestFlags& flags) {
  command.add_option("target", flags.target,
                     "a job as KIND/NAME, such as job/llm, or pods as pod/NAME; or each part of a "
                     "service as ROLE=KIND/NAME or ROLE=LABELS");
  command.add_option("-l,--selector", flags.selector, "pods by their labels, such as app=train")
      ->type_name("LABELS");
}

// The flags that describe a capture.
void AddRequestFlags(CLI::App& command, cluster::CaptureRequestFlags& flags, std::string& from) {
  AddTargetFlags(command, flags);
  command
      .add_option("-f,--from", from,
                  "a ProfileRequest, whose fields the flags override; - = standard input")
      ->type_name("FILE");
  for (const cluster::FieldFlag& field : cluster::FieldFlags()) {
    const std::string flag(field.flag);
    command.add_option(flag, flags.fields[flag], std::string(field.help))
        ->type_name(std::string(field.type))
        ->group(field.group.empty() ? kCommonFlags : std::string(field.group));
  }
  command
      .add_option("--at-step", flags.at_step,
                  "with --steps, the first step: a number, *N for the next multiple of N, or next")
      ->type_name("STEP")
      ->group("When it records");
}

void AddEvidenceFlags(CLI::App& command, KubeEvidenceFlags& flags) {
  AddTargetFlags(command, flags.request);
  command
      .add_option("--logdir", flags.request.fields["--logdir"],
                  "where the evidence is written, as the workers see it [the policy's default]")
      ->type_name("URL");
  AddOutputFlag(command, flags.output, "", {"text", "json"});
  command.add_option("--timeout", flags.timeout, "how long the operator may take")
      ->capture_default_str()
      ->type_name("DURATION");
  AddConnectionFlags(command, flags.connection);
}

constexpr char kEvidenceCodes[] =
    "The evidence, which has names and paths of the program, is kept in a run. You need the rights "
    "that a capture needs.\n"
    "Exit code: 0 answered, also where nobody is named; 1 no answer, 2 a flag is wrong.";

void AddNames(CLI::App& command, KubeNamesFlags& flags, const char* which) {
  command.add_option("name", flags.names, which)->required();
  AddConnectionFlags(command, flags.connection);
}

void AddKubectlOutput(CLI::App& command, std::string& output) {
  command.add_option("-o,--output", output, "format of the result")
      ->capture_default_str()
      ->check(CLI::IsMember({"table", "json", "yaml", "name"}));
}

}  // namespace

std::vector<std::string> ConnectionFlags::Arguments() const {
  std::vector<std::string> arguments;
  for (const Passed& passed : kPassed) {
    const std::string names = passed.names;
    if (const std::string& value = this->*passed.value; !value.empty())
      arguments.push_back(StrCat(names.substr(names.find("--")), "=", value));
  }
  for (const std::string& group : as_group) arguments.push_back(StrCat("--as-group=", group));
  if (insecure_skip_tls_verify) arguments.emplace_back("--insecure-skip-tls-verify");
  return arguments;
}

void AddConnectionFlags(CLI::App& command, ConnectionFlags& flags) {
  for (const Passed& passed : kPassed)
    command.add_option(passed.names, flags.*passed.value, passed.help)->group(kConnectionGroup);
  command.add_option("--as-group", flags.as_group, "a group to impersonate")
      ->allow_extra_args(false)  // The next word may be the job.
      ->group(kConnectionGroup);
  command
      .add_flag("--insecure-skip-tls-verify", flags.insecure_skip_tls_verify,
                "do not check the API server's certificate")
      ->group(kConnectionGroup);
}

void AddKubeCaptureFlags(CLI::App& command, KubeCaptureFlags& flags) {
  AddRequestFlags(command, flags.request, flags.from);
  command
      .add_option("--name", flags.request.name,
                  "name of the request [the job's, with letters appended]")
      ->type_name("NAME");
  command
      .add_option(
          "--dry-run", flags.dry_run,
          "server: the API server checks the request and does not store it; client: only build it")
      ->check(CLI::IsMember({"server", "client", "none"}));
  command
      .add_option("-o,--output", flags.output,
                  "print the request and do not wait; with --wait, print it when it has ended")
      ->check(CLI::IsMember({"json", "yaml", "name"}));
  auto* wait = command.add_flag("--wait", flags.wait,
                                "wait until the request has ended, the default without --output");
  command.add_flag("--no-wait", flags.no_wait, "only create the request")->excludes(wait);
  command.add_flag("--open", flags.open,
                   "show the stored run in the browser, as kubectl strobe view does");
  command.add_flag("--quiet", flags.quiet, "show no progress");
  AddConnectionFlags(command, flags.connection);
  command.footer(StrCat(
      "Defaults are those of the ProfileRequest: kubectl explain profilerequest.spec.\n"
      "Examples:\n"
      "  kubectl strobe capture job/llm -n ml --duration 2s\n"
      "  kubectl strobe capture jobset/llm -n ml --steps 5 --ranks 0,7 --logdir gs://traces/ml\n"
      "  kubectl strobe capture job/llm -n ml --dry-run=server -o yaml\n"
      "  kubectl strobe capture prefill=deploy/vllm-p decode=deploy/vllm-d -n ml --open\n"
      "Ctrl-C cancels the capture. Pressed again, it ends the command without waiting.\n",
      kExitCodes));
}

void AddKubeCheckFlags(CLI::App& command, KubeCheckFlags& flags) {
  AddRequestFlags(command, flags.request, flags.from);
  AddOutputFlag(command, flags.output);
  command.add_option("--timeout", flags.timeout, "how long the operator and the workers may take")
      ->capture_default_str()
      ->type_name("DURATION");
  AddConnectionFlags(command, flags.connection);
  command.footer(
      "Nothing is recorded; each worker writes and deletes a small object in the logdir.\n"
      "Examples:\n"
      "  kubectl strobe check job/llm -n ml\n"
      "  kubectl strobe check job/llm -n ml --duration 5m --logdir gs://traces/ml --output json\n"
      "Exit code: 0 a capture would work now, 1 it would not, 2 a flag is wrong.");
}

void AddKubeWhyFlags(CLI::App& command, KubeEvidenceFlags& flags) {
  AddEvidenceFlags(command, flags);
  command.footer(
      StrCat("Asks all processes of the job at once for their stacks, collectives and connections. "
             "Nothing "
             "is recorded.\n"
             "Examples:\n"
             "  kubectl strobe why job/llm -n ml\n"
             "  kubectl strobe why jobset/llm -n ml --output json | jq -r .class\n",
             kEvidenceCodes));
}

void AddKubeStacksFlags(CLI::App& command, KubeEvidenceFlags& flags) {
  AddEvidenceFlags(command, flags);
  command.footer(
      StrCat("Shows the main threads; strobe stacks shows all threads of a run's folder evidence.\n"
             "Examples:\n"
             "  kubectl strobe stacks job/llm -n ml\n",
             kEvidenceCodes));
}

void AddKubeViewFlags(CLI::App& command, KubeViewFlags& flags) {
  command.add_option("run", flags.what, "name of a request, or the URL of a run or of a logdir")
      ->required();
  command
      .add_option("--service-account", flags.service_account,
                  "identity that reads the traces [that of the job's pods]")
      ->type_name("NAME");
  command.add_option("--image", flags.image,
                     "image with the program strobe [the one of the job's pods]");
  command.add_option("--memory", flags.memory, "memory limit of the viewer")->capture_default_str();
  command
      .add_option("--deadline", flags.deadline,
                  "Kubernetes removes the viewer after this time in any case")
      ->capture_default_str()
      ->type_name("DURATION");
  command.add_option("--timeout", flags.timeout, "how long the viewer may take to start")
      ->capture_default_str()
      ->type_name("DURATION");
  command.add_option("--port", flags.port, "local port; 0 picks a free one")
      ->capture_default_str()
      ->check(CLI::Range(0, 65535));
  command.add_flag("--no-open", flags.no_open, "only print the address, open no browser");
  command.add_flag("--quiet", flags.quiet, "show no progress");
  AddConnectionFlags(command, flags.connection);
  command.footer(
      "Runs a viewer as a Job in the namespace, with the storage settings and the identity of the "
      "job's sidecars, and forwards a port of this machine to it. You need the rights to create, "
      "get, list and delete jobs, to list pods, and to create pods/portforward. The viewer ends "
      "with "
      "this command, or a minute after it loses its connection.\n"
      "Examples:\n"
      "  kubectl strobe view llm-x7k2p -n ml\n"
      "  kubectl strobe view gs://traces/ml --service-account traces-reader -n ml\n"
      "Exit code: 0 ended by Ctrl-C, 1 the viewer could not be started or ended, 2 a flag is "
      "wrong.");
}

void AddKubeListFlags(CLI::App& command, KubeListFlags& flags) {
  command.add_flag("-A,--all-namespaces", flags.all_namespaces,
                   "list the requests of all namespaces");
  AddKubectlOutput(command, flags.output);
  AddConnectionFlags(command, flags.connection);
  command.footer(
      "Examples:\n"
      "  kubectl strobe ls -n ml\n"
      "Exit code: 0 listed, 1 the cluster refused, 2 a flag is wrong.");
}

void AddKubeGetFlags(CLI::App& command, KubeNamesFlags& flags) {
  AddNames(command, flags, "names of the requests");
  AddKubectlOutput(command, flags.output);
  command.footer(
      "Examples:\n"
      "  kubectl strobe get llm-x7k2p -n ml\n"
      "Exit code: 0 all of them succeeded, 1 not all of them, 2 a flag is wrong.");
}

void AddKubeCancelFlags(CLI::App& command, KubeNamesFlags& flags) {
  AddNames(command, flags, "names of the requests to cancel");
  command.footer(
      "Examples:\n"
      "  kubectl strobe cancel llm-x7k2p -n ml\n"
      "Exit code: 0 cancelled, 1 the cluster refused, 2 a flag is wrong.");
}

void AddKubeRmFlags(CLI::App& command, KubeNamesFlags& flags) {
  AddNames(command, flags, "names of the requests to delete");
  command.footer(
      "A running capture is cancelled. The run's files stay, unless the request's reclaimPolicy is "
      "Delete; strobe rm deletes them.\n"
      "Examples:\n"
      "  kubectl strobe rm llm-x7k2p -n ml\n"
      "Exit code: 0 deleted, 1 the cluster refused, 2 a flag is wrong.");
}

void AddKubeLogsFlags(CLI::App& command, KubeNamesFlags& flags) {
  AddNames(command, flags, "names of the requests");
  command.add_option("--tail", flags.tail, "how many lines of each sidecar's log to show")
      ->capture_default_str()
      ->check(CLI::Range(0, 1'000'000));
  command.footer(
      "Examples:\n"
      "  kubectl strobe logs llm-x7k2p -n ml\n"
      "Exit code: 0 shown, 1 not or not all of it shown, 2 a flag is wrong.");
}

void AddKubeCpFlags(CLI::App& command, KubeNamesFlags& flags) {
  command.add_option("name", flags.name, "name of the request")->required();
  command.add_option("to", flags.to, "the logdir to copy to; the run keeps its name")->required();
  command.add_flag("--quiet", flags.quiet, "show no progress");
  AddStorageConfigFlag(command, flags.storage_config);
  AddConnectionFlags(command, flags.connection);
  command.footer(
      "Reads the run with your own credentials, as strobe cp does; a file logdir must be mounted "
      "here under the same path.\n"
      "Examples:\n"
      "  kubectl strobe cp llm-x7k2p /tmp/logs -n ml\n"
      "Exit code: 0 copied, 1 not or not all of it copied, 2 a flag is wrong.");
}

}  // namespace strobe::cli

"""The jobs that tests/controllers/record.py records. `ranks` maps an ending of a pod's name to the rank that Strobe should find, and `workers`
says how many pods train. A jobRef without a name means the job of that kind that the controller made."""

_TEMPLATE = {"spec": {"restartPolicy": "Never", "containers": [{"name": "trainer", "image": "trainer", "command": ["train"]}]}}


def _ray_group(kind):
    return {"rayStartParams": {}, "template": {"spec": {"containers": [{"name": f"ray-{kind}", "image": "rayproject/ray:2.46.0", "resources": {
        "limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1", "memory": "1Gi"}}}]}}}


_RAY_CLUSTER = {"rayVersion": "2.46.0", "headGroupSpec": _ray_group("head"),
                "workerGroupSpecs": [{"groupName": "gpus", "replicas": 2, "minReplicas": 2, "maxReplicas": 2, **_ray_group("worker")}]}
_KUBERAY = {"controller": "kuberay", "crds": ["config/crd/bases"], "pods": 3, "workers": 2, "ranks": {},
            "flags": ["--metrics-addr=127.0.0.1:0", "--health-probe-bind-address=127.0.0.1:0", "--enable-leader-election=false"]}


def _ray(kind, name, **spec):
    return {"apiVersion": "ray.io/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def _replicated_job(name, replicas, pods):
    return {"name": name, "replicas": replicas, "template": {"spec": {
        "parallelism": pods, "completions": pods, "completionMode": "Indexed", "template": _TEMPLATE}}}


def _queue(cpus):
    """A queue of Kueue with room for so many processors."""
    flavors = [{"name": "default", "resources": [{"name": "cpu", "nominalQuota": cpus}]}]
    return [{"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "ResourceFlavor", "metadata": {"name": "default"}},
            {"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "ClusterQueue", "metadata": {"name": "all"}, "spec": {
                "namespaceSelector": {}, "resourceGroups": [{"coveredResources": ["cpu"], "flavors": flavors}]}},
            {"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "LocalQueue", "metadata": {"name": "team"}, "spec": {"clusterQueue": "all"}}]


def _queued_job():
    container = {**_TEMPLATE["spec"]["containers"][0], "resources": {"requests": {"cpu": "1"}}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "llm", "labels": {"kueue.x-k8s.io/queue-name": "team"}}, "spec": {
        "suspend": True, "parallelism": 3, "completions": 3, "completionMode": "Indexed",
        "template": {"spec": {"restartPolicy": "Never", "containers": [container]}}}}


_KUEUE = {"controller": "kueue", "crds": ["config/components/crd/bases"], "objects": ["workloads", "job/llm"], "workers": 3,
          "certificates": ("/etc", "/etc/kueue/metrics/certs"),
          "config": {"apiVersion": "config.kueue.x-k8s.io/v1beta1", "kind": "Configuration", "namespace": "kueue-system", "manageJobsWithoutQueueName": False,
                     "integrations": {"frameworks": ["batch/job"]}, "featureGates": {"VisibilityOnDemand": False}}}


def _has_workload(kubectl):
    return kubectl.get("workloads")["items"]


def _mpi_job(**spec):
    def replicas(count):
        return {"replicas": count, "template": {"spec": {"containers": [{"name": "trainer", "image": "trainer"}]}}}

    return {"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "metadata": {"name": "llm"}, "spec": {
        "slotsPerWorker": 1, "sshAuthMountPath": "/etc/mpi/ssh", "mpiReplicaSpecs": {"Launcher": replicas(1), "Worker": replicas(2)}, **spec}}


_MPI = {"controller": "mpi", "crds": ["manifests/base/kubeflow.org_mpijobs.yaml"], "flags": ["-kubeConfig={kubeconfig}", "-monitoring-port=0", "-lock-namespace=default"],
        "jobRef": {"kind": "MPIJob", "name": "llm"}, "objects": ["mpijob/llm"], "pods": 3}


def _admit_pod_groups(kubectl):
    """What Volcano's scheduler does when a queue has room."""
    groups = kubectl.get("podgroups.scheduling.volcano.sh")["items"]
    for group in groups:
        kubectl.run("patch", "podgroups.scheduling.volcano.sh", group["metadata"]["name"], "--type=merge", "-p", '{"status":{"phase":"Inqueue"}}')
    return groups


def _volcano_job():
    def task(name, count):
        return {"name": name, "replicas": count, "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "trainer", "image": "trainer"}]}}}

    return {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "llm"}, "spec": {
        "minAvailable": 4, "queue": "default", "plugins": {"svc": [], "mpi": ["--master=launcher", "--worker=worker"]},
        "tasks": [task("launcher", 1), task("first", 1), task("worker", 2)]}}


_VOLCANO = {"controller": "volcano", "crds": ["config/crd/volcano/bases", "config/crd/jobflow/bases"], "objects": ["jobs.batch.volcano.sh/llm"], "workers": 3,
            "jobRef": {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "llm"},
            "flags": ["--kubeconfig={kubeconfig}", "--leader-elect=false", "--enable-healthz=false"]}
_VOLCANO_QUEUE = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "default"}, "spec": {"weight": 1}}


def _leader_worker_set():
    container = {"name": "trainer", "image": "trainer", "command": ["train"]}
    return {"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet", "metadata": {"name": "llm"}, "spec": {
        "replicas": 2, "leaderWorkerTemplate": {"size": 3, "workerTemplate": {"spec": {"containers": [container]}}}}}


def _rotating(namespace, secret, configuration):
    """What Kubeflow's controllers wait for: they make certificates for their webhooks, and write them into a Secret and the webhooks' configuration.
    Their webhooks only validate, so that the configuration names one that nothing calls."""
    idle = {"name": "idle.strobe.dev", "admissionReviewVersions": ["v1"], "sideEffects": "None", "clientConfig": {"url": "https://127.0.0.1/"},
            "rules": [{"apiGroups": ["nothing.strobe.dev"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["nothing"]}]}
    return {"installed": [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}},
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": secret, "namespace": namespace}},
        {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration", "metadata": {"name": configuration}, "webhooks": [idle]}],
        "certificates": ("/tmp/k8s-webhook-server", "/tmp/k8s-webhook-server/serving-certs")}


_JOBSET = {"controller": "jobset", "crds": ["config/components/crd/bases"],
           "config": {"apiVersion": "config.jobset.x-k8s.io/v1alpha1", "kind": "Configuration"}}
_PROBES = ["--webhook-server-port={webhook_port}", "--health-probe-bind-address=127.0.0.1:0"]


def _pytorch_job():
    def replicas(count):
        return {"replicas": count, "template": {"spec": {"containers": [{"name": "pytorch", "image": "trainer", "command": ["train"]}]}}}

    return {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": "llm"}, "spec": {
        "pytorchReplicaSpecs": {"Master": replicas(1), "Worker": replicas(2)}}}


def _train_job():
    return {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "metadata": {"name": "llm"}, "spec": {
        "runtimeRef": {"name": "torch-distributed"}, "trainer": {"image": "trainer", "command": ["torchrun", "train.py"], "numNodes": 3, "numProcPerNode": 2}}}


RECORDINGS = [
    {"name": "pytorchjob", "controller": "training", "crds": ["manifests/base/crds/kubeflow.org_pytorchjobs.yaml"],
     **_rotating("kubeflow", "training-operator-webhook-cert", "validator.training-operator.kubeflow.org"),
     "flags": [*_PROBES, "--metrics-bind-address=127.0.0.1:0", "--enable-scheme=pytorchjob"], "jobRef": {"kind": "PyTorchJob", "name": "llm"},
     "pods": 3, "workers": 3, "ranks": {"llm-master-0": 0, "llm-worker-0": 1, "llm-worker-1": 2}, "steps": [[_pytorch_job()]], "objects": ["pytorchjob/llm"]},
    {"name": "trainjob", "controller": "trainer", "with": [{**_JOBSET, "webhooks": ["config/components/webhook/manifests.yaml"]}],
     "crds": ["manifests/base/crds/trainer.kubeflow.org_clustertrainingruntimes.yaml", "manifests/base/crds/trainer.kubeflow.org_trainingruntimes.yaml",
              "manifests/base/crds/trainer.kubeflow.org_trainjobs.yaml"],
     "manifests": ["manifests/base/runtimes/torch_distributed.yaml"],
     **_rotating("kubeflow-system", "kubeflow-trainer-webhook-cert", "validator.trainer.kubeflow.org"),
     "flags": _PROBES, "jobRef": {"kind": "TrainJob", "name": "llm"},
     "pods": 3, "workers": 3, "ranks": {"llm-node-0-0": 0, "llm-node-0-1": 1, "llm-node-0-2": 2}, "steps": [[_train_job()]], "objects": ["jobset/llm", "trainjob/llm"]},
    {"name": "leaderworkerset", "controller": "lws", "crds": ["config/crd/bases"], "webhooks": ["config/webhook/manifests.yaml"],
     "config": {"apiVersion": "config.lws.x-k8s.io/v1alpha1", "kind": "Configuration"}, "jobRef": {"kind": "LeaderWorkerSet", "name": "llm"},
     "pods": 6, "workers": 6, "ranks": {"llm-0": 0, "llm-0-1": 1, "llm-0-2": 2, "llm-1": 3, "llm-1-1": 4, "llm-1-2": 5},
     "steps": [[_leader_worker_set()]], "objects": ["leaderworkerset/llm"]},
    {**_MPI, "name": "mpijob", "workers": 2, "ranks": {"llm-worker-0": 0, "llm-worker-1": 1}, "steps": [[_mpi_job()]]},
    {**_MPI, "name": "mpijob-launcher-works", "workers": 3, "ranks": {"llm-launcher": 0, "llm-worker-0": 1, "llm-worker-1": 2},
     "steps": [[_mpi_job(runLauncherAsWorker=True)]]},
    {**_VOLCANO, "name": "volcano", "pods": 4, "ranks": {"llm-first-0": 0, "llm-worker-0": 1, "llm-worker-1": 2},
     "steps": [[_VOLCANO_QUEUE], [_volcano_job()], _admit_pod_groups]},
    {**_VOLCANO, "name": "volcano-waiting", "pods": 0, "ranks": {},
     "steps": [[_VOLCANO_QUEUE], [_volcano_job()], lambda kubectl: kubectl.get("podgroups.scheduling.volcano.sh")["items"]]},
    {**_KUEUE, "name": "kueue-job", "pods": 3, "ranks": {"llm-0": 0, "llm-1": 1, "llm-2": 2}, "jobRef": {"kind": "Workload"},
     "steps": [_queue(8), [_queued_job()]]},
    {**_KUEUE, "name": "kueue-job-waiting", "pods": 0, "ranks": {}, "jobRef": {"kind": "Workload"},
     "steps": [_queue(2), [_queued_job()], _has_workload]},
    {**_KUBERAY, "name": "rayjob", "jobRef": {"kind": "RayJob", "name": "llm"},
     "steps": [[_ray("RayJob", "llm", entrypoint="python train.py", rayClusterSpec=_RAY_CLUSTER)]],
     "objects": ["rayjob/llm", "rayclusters"]},
    {**_KUBERAY, "name": "rayjob-suspended", "jobRef": {"kind": "RayJob", "name": "llm"}, "pods": 0,
     "steps": [[_ray("RayJob", "llm", entrypoint="python train.py", suspend=True, shutdownAfterJobFinishes=True, rayClusterSpec=_RAY_CLUSTER)],
               lambda kubectl: kubectl.get("rayjob", "llm").get("status", {}).get("jobDeploymentStatus") == "Suspended"],
     "objects": ["rayjob/llm"]},
    {**_KUBERAY, "name": "rayservice", "jobRef": {"kind": "RayService", "name": "llm"},
     "steps": [[_ray("RayService", "llm", serveConfigV2="applications: []", rayClusterConfig=_RAY_CLUSTER)]],
     "objects": ["rayservice/llm", "rayclusters"]},
    {**_JOBSET, "name": "jobset-slices", "pods": 5, "workers": 5,
     "jobRef": {"kind": "JobSet", "name": "llm"},
     "ranks": {"llm-leader-0-0": 0, "llm-slice-0-0": 1, "llm-slice-0-1": 2, "llm-slice-1-0": 3, "llm-slice-1-1": 4},
     "steps": [[{"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": "llm"}, "spec": {
         "network": {"enableDNSHostnames": True}, "successPolicy": {"operator": "All"},
         "replicatedJobs": [_replicated_job("leader", 1, 1), _replicated_job("slice", 2, 2)]}}]],
     "objects": ["jobset/llm"]},
]

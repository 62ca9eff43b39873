// Synchronizes an application once, as Argo CD's controller does when automated synchronization is on, with Argo CD's own engine:
//
//	argo-sync KUBECONFIG NAMESPACE FILE
//
// FILE has the application's objects, hooks included. Prints one line of JSON: which objects were out of sync, and if there were
// any, how their synchronization ended and what became of each object and hook, in order.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"sort"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2/textlogger"

	"github.com/argoproj/gitops-engine/pkg/cache"
	"github.com/argoproj/gitops-engine/pkg/diff"
	"github.com/argoproj/gitops-engine/pkg/sync"
	"github.com/argoproj/gitops-engine/pkg/sync/common"
	"github.com/argoproj/gitops-engine/pkg/sync/hook"
	"github.com/argoproj/gitops-engine/pkg/utils/kube"
	"github.com/argoproj/gitops-engine/pkg/utils/tracing"
)

// Argo CD marks what belongs to an application with this annotation.
const tracking = "argocd.argoproj.io/tracking-id"

type result struct {
	OutOfSync []string `json:"outOfSync"`
	Phase     string   `json:"phase,omitempty"`
	Message   string   `json:"message,omitempty"`
	Steps     []step   `json:"steps,omitempty"`
}

type step struct {
	Object  string `json:"object"`
	Phase   string `json:"phase"`
	Hook    bool   `json:"hook"`
	Message string `json:"message"`
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// desired returns the application's objects, marked as Argo CD marks them.
func desired(file string) []*unstructured.Unstructured {
	data, err := os.ReadFile(file)
	check(err)
	objects, err := kube.SplitYAML(data)
	check(err)
	for _, object := range objects {
		annotations := object.GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[tracking] = fmt.Sprintf("strobe:%s/%s", object.GetKind(), object.GetName())
		object.SetAnnotations(annotations)
	}
	return objects
}

func outOfSync(state sync.ReconciliationResult) []string {
	compared, err := diff.DiffArray(state.Target, state.Live)
	check(err)
	found := []string{}
	for i, one := range compared.Diffs {
		object := state.Target[i]
		if object == nil {
			object = state.Live[i]
			// A hook that is left over does not put an application out of sync.
			if object == nil || hook.IsHook(object) {
				continue
			}
		}
		if one.Modified {
			found = append(found, fmt.Sprintf("%s/%s", object.GetKind(), object.GetName()))
		}
	}
	return found
}

func main() {
	if len(os.Args) != 4 {
		check(fmt.Errorf("usage: argo-sync KUBECONFIG NAMESPACE FILE"))
	}
	namespace := os.Args[2]
	objects := desired(os.Args[3])
	config, err := clientcmd.BuildConfigFromFlags("", os.Args[1])
	check(err)
	log := textlogger.NewLogger(textlogger.NewConfig())
	kubectl := &kube.KubectlCmd{Log: log, Tracer: tracing.NopTracer{}}
	live := cache.NewClusterCache(config, cache.SetLogr(log),
		cache.SetPopulateResourceInfoHandler(func(object *unstructured.Unstructured, _ bool) (any, bool) {
			mark := object.GetAnnotations()[tracking]
			return mark, mark != ""
		}))
	check(live.EnsureSynced())
	state := func() sync.ReconciliationResult {
		managed, err := live.GetManagedLiveObjs(objects, func(r *cache.Resource) bool { return r.Info.(string) != "" })
		check(err)
		return sync.Reconcile(objects, managed, namespace, live)
	}
	ended := result{OutOfSync: outOfSync(state())}
	if len(ended.OutOfSync) > 0 {
		phase, message, results := common.OperationRunning, "", []common.ResourceSyncResult{}
		// The controller begins again with each change of an object, with what it knows from before.
		for started := metav1.Now(); !phase.Completed(); time.Sleep(300 * time.Millisecond) {
			context, cleanup, err := sync.NewSyncContext("", state(), config, config, kubectl, namespace, live.GetOpenAPISchema(),
				sync.WithLogr(log), sync.WithPrune(true), sync.WithInitialState(phase, message, results, started))
			check(err)
			context.Sync()
			phase, message, results = context.GetState()
			cleanup()
		}
		ended.Phase, ended.Message = string(phase), message
		sort.Slice(results, func(i, j int) bool { return results[i].Order < results[j].Order })
		for _, one := range results {
			key := one.ResourceKey
			ended.Steps = append(ended.Steps, step{key.Kind + "/" + key.Name, string(one.SyncPhase), one.HookType != "", one.Message})
		}
	}
	check(json.NewEncoder(os.Stdout).Encode(ended))
}

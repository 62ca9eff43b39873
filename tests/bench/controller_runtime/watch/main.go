// A minimal controller-runtime operator that watches pods: a manager, its cache, and a reconciler that reads each pod.
// Prints "synced N" when it has seen N pods.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

type reconciler struct {
	client client.Client
	want   int
	mutex  sync.Mutex
	seen   map[ctrl.Request]bool
}

func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	pod := &corev1.Pod{}
	if err := r.client.Get(ctx, request.NamespacedName, pod); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.seen[request] = true
	if len(r.seen) == r.want {
		fmt.Println("synced", r.want)
	}
	return ctrl.Result{}, nil
}

func run() error {
	want := flag.Int("pods", 0, "to wait for; --kubeconfig says where")
	flag.Parse()
	log.SetLogger(zap.New())
	scheme := runtime.NewScheme()
	_ = corev1.AddToScheme(scheme)
	manager, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{Scheme: scheme, Metrics: server.Options{BindAddress: "0"}})
	if err != nil {
		return err
	}
	r := &reconciler{client: manager.GetClient(), want: *want, seen: map[ctrl.Request]bool{}}
	if err := ctrl.NewControllerManagedBy(manager).For(&corev1.Pod{}).Complete(r); err != nil {
		return err
	}
	return manager.Start(ctrl.SetupSignalHandler())
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

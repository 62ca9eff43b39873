// A typical mutating webhook: it uses controller-runtime's server, decodes pods into structs, and computes the patch by
// comparison. It adds a sidecar like Strobe's, and serves with the tls.crt and tls.key of a directory.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

type injector struct{ decoder admission.Decoder }

func (i *injector) Handle(_ context.Context, request admission.Request) admission.Response {
	pod := &corev1.Pod{}
	if err := i.decoder.Decode(request, pod); err != nil {
		return admission.Errored(http.StatusBadRequest, err)
	}
	always := corev1.ContainerRestartPolicyAlways
	pod.Spec.InitContainers = append(pod.Spec.InitContainers, corev1.Container{
		Name: "strobe-sidecar", Image: "strobe-sidecar:0.1.0", RestartPolicy: &always,
		Args:         []string{"--listen=0.0.0.0:9470", "--http-listen=0.0.0.0:9472", "--framework=localhost:9012"},
		Ports:        []corev1.ContainerPort{{Name: "strobe", ContainerPort: 9470}},
		Resources:    corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("50m")}},
		StartupProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/healthz", Port: intstr.FromInt32(9472)}}},
		VolumeMounts: []corev1.VolumeMount{{Name: "strobe", MountPath: "/var/strobe"}},
	})
	pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: "strobe", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}})
	for c := range pod.Spec.Containers {
		container := &pod.Spec.Containers[c]
		container.Env = append(container.Env, corev1.EnvVar{Name: "STROBE_DIR", Value: "/var/strobe"})
		container.VolumeMounts = append(container.VolumeMounts, corev1.VolumeMount{Name: "strobe", MountPath: "/var/strobe"})
	}
	changed, err := json.Marshal(pod)
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, err)
	}
	return admission.PatchResponseFromRaw(request.Object.Raw, changed)
}

func main() {
	port := flag.Int("port", 0, "to listen on")
	directory := flag.String("certificates", "", "with tls.crt and tls.key")
	flag.Parse()
	log.SetLogger(zap.New())
	scheme := runtime.NewScheme()
	_ = corev1.AddToScheme(scheme)
	server := webhook.NewServer(webhook.Options{Host: "127.0.0.1", Port: *port, CertDir: *directory})
	server.Register("/inject", &webhook.Admission{Handler: &injector{admission.NewDecoder(scheme)}})
	if err := server.Start(ctrl.SetupSignalHandler()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

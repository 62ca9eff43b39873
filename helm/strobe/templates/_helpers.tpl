{{- define "strobe.name" -}}
{{- range $section := list "advanced" "crds" "image" "injection" "log" "metrics" "networkPolicy" "notify" "policy" "rbac" "serviceAccount" "tls" "triggers" "viewer" "webhook" }}
{{- if not (kindIs "map" (get $.Values $section)) }}
{{- fail (printf "values of this version of the chart are missing (%s); set none of its sections to null, and upgrade with --reset-then-reuse-values instead of --reuse-values" $section) }}
{{- end }}
{{- end }}
{{- range $value := list (list "advanced" "flowSchema") (list "advanced" "hooks") (list "advanced" "podDisruptionBudget") (list "injection" "storage") (list "viewer" "image") }}
{{- if not (hasKey (get $.Values (first $value)) (last $value)) }}
{{- fail (printf "values of this version of the chart are missing (%s); upgrade with --reset-then-reuse-values instead of --reuse-values" (join "." $value)) }}
{{- end }}
{{- end }}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" }}
{{- end }}

{{- define "strobe.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" }}
{{- else if contains (include "strobe.name" .) .Release.Name }}
{{- .Release.Name | trunc 40 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name (include "strobe.name" .) | trunc 40 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "strobe.operator" -}}
{{ include "strobe.fullname" . }}-operator
{{- end }}

{{- define "strobe.serviceAccount" -}}
{{- if .Values.serviceAccount.create }}{{ default (include "strobe.operator" .) .Values.serviceAccount.name }}{{ else }}{{ required "serviceAccount.name is needed when serviceAccount.create is false" .Values.serviceAccount.name }}{{ end }}
{{- end }}

{{- define "strobe.selector" -}}
{{ include "strobe.selectorOf" (dict "root" . "component" "operator") }}
{{- end }}

{{- /* The labels by which the pods of one component are selected. */ -}}
{{- define "strobe.selectorOf" -}}
app.kubernetes.io/name: {{ include "strobe.name" .root | quote }}
app.kubernetes.io/instance: {{ .root.Release.Name | quote }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- define "strobe.labels" -}}
{{ include "strobe.labelsOf" (dict "root" . "component" "operator") }}
{{- end }}

{{- /* All labels of an object or pod of a component, `more` among them. Each key once, because kubectl and kustomize (Flux) refuse a key that is there twice. What selectors need comes first. A version may have "+", as Flux's and `helm package --version 1.0.0+x` make it, which no label may have. */ -}}
{{- define "strobe.labelsOf" -}}
{{- $chart := dict "app.kubernetes.io/version" (include "strobe.labelValue" .root.Chart.AppVersion) "app.kubernetes.io/managed-by" .root.Release.Service "helm.sh/chart" (include "strobe.labelValue" (printf "%s-%s" .root.Chart.Name .root.Chart.Version)) }}
{{- merge (include "strobe.selectorOf" . | fromYaml) (.more | default dict) (.root.Values.advanced.commonLabels | default dict) $chart | toYaml }}
{{- end }}

{{- define "strobe.labelValue" -}}
{{ regexReplaceAll "[^A-Za-z0-9]+$" (. | replace "+" "_" | trunc 63) "" }}
{{- end }}

{{- define "strobe.authorityNamespace" -}}
{{- default (printf "%s-authority" .Release.Namespace) .Values.tls.authorityNamespace }}
{{- end }}

{{/* Expressions of a namespaceSelector, as JSON: only the namespace watchNamespace, or none if that is not set. */}}
{{- define "strobe.watched" -}}
{{- with .Values.watchNamespace }}{{ list (dict "key" "kubernetes.io/metadata.name" "operator" "In" "values" (list .)) | toJson }}{{ else }}[]{{ end }}
{{- end }}

{{- /* The reference of an image: `image` is image, injection.image or viewer.image of the values. A digest names the bytes, so that the tag says nothing more. */ -}}
{{- define "strobe.image" -}}
{{- $registry := coalesce (.root.Values.global | default dict).imageRegistry .image.registry .root.Values.image.registry }}
{{- with $registry }}{{ trimSuffix "/" . }}/{{ end }}{{ .image.repository }}{{ if .image.digest }}@{{ .image.digest }}{{ else }}:{{ default .root.Chart.AppVersion .image.tag }}{{ end }}
{{- end }}

{{- /* How the operator's image is run, in all pods of the chart. */ -}}
{{- define "strobe.program" -}}
image: {{ include "strobe.image" (dict "root" . "image" .Values.image) | quote }}
{{- with .Values.image.pullPolicy }}
imagePullPolicy: {{ . }}
{{- end }}
{{ include "strobe.security" . }}
{{- end }}

{{- /* The security context of every container of the chart. */ -}}
{{- define "strobe.security" -}}
securityContext:
  {{- with .Values.advanced.securityContext }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- if and .Values.runAsUser (not (hasKey (.Values.advanced.securityContext | default dict) "runAsUser")) }}
  runAsUser: {{ .Values.runAsUser }}
  runAsGroup: {{ .Values.runAsUser }}
{{- end }}
{{- end }}

{{- /* The names in a list of Secrets, as JSON. Each is a name, or an object with a name as in a pod. */ -}}
{{- define "strobe.secretNames" -}}
{{- $names := list }}
{{- range . }}
{{- $names = append $names (kindIs "string" . | ternary . (get (kindIs "map" . | ternary . dict) "name")) }}
{{- end }}
{{- $names | uniq | toJson }}
{{- end }}

{{- /* Helm keeps the object when the release or the object in it is removed. Argo CD takes the first annotation for the deletion of the application only; the second is for pruning. */ -}}
{{- define "strobe.keep" -}}
helm.sh/resource-policy: keep
argocd.argoproj.io/sync-options: Prune=false
{{- end }}

{{- /* A quantity as text. Helm reads numbers as floating-point numbers, which would print as 1e+09. */ -}}
{{- define "strobe.quantity" -}}
{{- if kindIs "string" . }}{{ . }}{{ else if eq (float64 (int64 .)) (float64 .) }}{{ int64 . }}{{ else }}{{ . }}{{ end }}
{{- end }}

{{- /* The whole seconds of a duration such as 8760h. */ -}}
{{- define "strobe.seconds" -}}
{{- $from := toDate "2006-01-02" "2000-01-01" }}
{{- sub ($from | mustDateModify . | unixEpoch | int64) ($from | unixEpoch | int64) }}
{{- end }}

{{- /* Fails for values that fit the schema but not together: the API server or the operator would refuse them halfway through an installation. */ -}}
{{- define "strobe.validate" -}}
{{- $ports := dict "webhook.port" .Values.webhook.port "metrics.port" .Values.metrics.port }}
{{- $services := dict "the port of the Service's webhook" 443 "metrics.port" .Values.metrics.port }}
{{- if .Values.tls.enabled }}
{{- $ports = set $ports "tls.enrollPort" .Values.tls.enrollPort }}
{{- $services = set $services "tls.enrollPort" .Values.tls.enrollPort }}
{{- end }}
{{- $receiver := .Values.triggers.receiver }}
{{- if $receiver.enabled }}
{{- if not (or $receiver.token.secret $receiver.clientCA.secret) }}
{{- fail "triggers.receiver needs token.secret or clientCA.secret, because everybody who reaches its port could start captures" }}
{{- end }}
{{- $ports = set $ports "triggers.receiver.port" $receiver.port }}
{{- $services = set $services "triggers.receiver.port" $receiver.port }}
{{- end }}
{{- if and $receiver.clientCA.names (not $receiver.clientCA.secret) }}
{{- fail "triggers.receiver.clientCA.names needs triggers.receiver.clientCA.secret" }}
{{- end }}
{{- range $all := list $ports $services }}
{{- $taken := dict }}
{{- range $name, $port := $all }}
{{- with get $taken (toString $port) }}{{ fail (printf "%s and %s are both %v; choose different ports" . $name $port) }}{{ end }}
{{- $_ := set $taken (toString $port) $name }}
{{- end }}
{{- end }}
{{- $range := splitList "-" .Values.injection.hostNetworkPorts }}
{{- if or (gt (int (first $range)) (int (last $range))) (gt (int (last $range)) 65535) (lt (int (first $range)) 1) }}
{{- fail (printf "injection.hostNetworkPorts is %s; write FIRST-LAST, both from 1 to 65535" .Values.injection.hostNetworkPorts) }}
{{- end }}
{{- range .Values.logdirs }}{{ if contains ".." . }}{{ fail (printf "logdirs has %s; \"..\" is not allowed in it" .) }}{{ end }}{{ end }}
{{- if and .Values.policy.defaultLogdir (not (and .Values.policy.create .Values.logdirs)) }}
{{- fail "policy.defaultLogdir needs logdirs and policy.create, because it must be one of logdirs or below one" }}
{{- end }}
{{- with .Values.policy.defaultLogdir }}
{{- $default := . }}
{{- $below := list }}
{{- range $.Values.logdirs }}{{ if or (eq $default .) (hasPrefix (printf "%s/" (trimSuffix "/" .)) $default) }}{{ $below = append $below . }}{{ end }}{{ end }}
{{- if not $below }}{{ fail (printf "policy.defaultLogdir is %s, which is neither one of logdirs nor below one" .) }}{{ end }}
{{- end }}
{{- $settle := include "strobe.seconds" .Values.tls.settle | int64 }}
{{- $certificate := include "strobe.seconds" .Values.tls.certificateLifetime | int64 }}
{{- if lt $certificate 1 }}{{ fail (printf "tls.certificateLifetime is %s; it must be at least 1s" .Values.tls.certificateLifetime) }}{{ end }}
{{- if lt $settle $certificate }}
{{- fail (printf "tls.settle is %s and tls.certificateLifetime is %s; settle must be at least as long" .Values.tls.settle .Values.tls.certificateLifetime) }}
{{- end }}
{{- if le (include "strobe.seconds" .Values.tls.authorityLifetime | int64) (mul 3 (add $settle $certificate)) }}
{{- fail (printf "tls.authorityLifetime is %s; it must be more than 3 x (tls.settle + tls.certificateLifetime)" .Values.tls.authorityLifetime) }}
{{- end }}
{{- if ge (include "strobe.seconds" .Values.webhook.drainTime | int64) (int64 .Values.advanced.terminationGracePeriodSeconds) }}
{{- fail (printf "webhook.drainTime is %s; it must be less than advanced.terminationGracePeriodSeconds, %v" .Values.webhook.drainTime .Values.advanced.terminationGracePeriodSeconds) }}
{{- end }}
{{- if gt (include "strobe.seconds" .Values.viewer.accessCache | int64) 300 }}{{ fail (printf "viewer.accessCache is %s; it must be at most 5m" .Values.viewer.accessCache) }}{{ end }}
{{- if and .Values.policy.sidecar.runAsGroup (not .Values.policy.sidecar.runAsUser) }}
{{- fail "policy.sidecar.runAsGroup needs policy.sidecar.runAsUser" }}
{{- end }}
{{- end }}

{{- /* Fails if another operator serves namespaces of this release, because each would stamp, and then refuse, the other's requests. Finds nothing where Helm has no cluster to look at. */ -}}
{{- define "strobe.alone" -}}
{{- if .Release.IsInstall }}
{{- range $other := get (lookup "admissionregistration.k8s.io/v1" "MutatingWebhookConfiguration" "" "") "items" | default list }}
{{- $notes := $other.metadata.annotations | default dict }}
{{- $ours := and (eq (get $notes "meta.helm.sh/release-name" | toString) $.Release.Name) (eq (get $notes "meta.helm.sh/release-namespace" | toString) $.Release.Namespace) }}
{{- range $webhook := $other.webhooks | default list }}
{{- with $webhook.clientConfig.service }}
{{- if and (eq $webhook.name "stamp-requests.strobe.dev") (not $ours) (not (and (eq .name (include "strobe.operator" $)) (eq .namespace $.Release.Namespace))) }}
{{- $served := list }}
{{- range ($webhook.namespaceSelector | default dict).matchExpressions | default list }}{{ $served = concat $served (.values | default list) }}{{ end }}
{{- if or (not $served) (not $.Values.watchNamespace) (has $.Values.watchNamespace $served) }}
{{- fail (printf "the operator %s in namespace %s already serves %s (MutatingWebhookConfiguration %s). Two operators would stamp, and then refuse, each other's requests: uninstall that release, or set watchNamespace of both to different namespaces" .name .namespace ($served | join ", " | default "all namespaces") $other.metadata.name) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- define "strobe.clientConfig" -}}
service:
  name: {{ include "strobe.operator" .root }}
  namespace: {{ .root.Release.Namespace }}
  path: {{ .path }}
  port: 443
{{- end }}

{{- /* The Secrets that the receiver of alerts reads, by the name of their volume, as JSON. */ -}}
{{- define "strobe.receiverSecrets" -}}
{{- $secrets := dict }}
{{- with .Values.triggers.receiver }}
{{- if and .enabled .token.secret }}{{ $_ := set $secrets "alert-token" .token.secret }}{{ end }}
{{- if and .enabled .clientCA.secret }}{{ $_ := set $secrets "alert-clients" .clientCA.secret }}{{ end }}
{{- if and .enabled .certificateSecret }}{{ $_ := set $secrets "alert-certificate" .certificateSecret }}{{ end }}
{{- end }}
{{- toJson $secrets }}
{{- end }}

{{- define "strobe.webhookAnnotations" -}}
{{- if .Values.webhook.certManager }}
annotations:
  cert-manager.io/inject-ca-from: {{ .Release.Namespace }}/{{ include "strobe.fullname" . }}-webhook
{{- end }}
{{- end }}

{{- /* Labels and annotations of the pods that end by themselves: `component` says which. */ -}}
{{- define "strobe.hookMetadata" -}}
labels: {{- include "strobe.labelsOf" (dict "root" .root "component" .component "more" .root.Values.advanced.hooks.podLabels) | nindent 2 }}
{{- $annotations := merge (.annotations | default dict) .root.Values.advanced.hooks.podAnnotations }}
{{- with $annotations }}
annotations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- /* Where pods of ours run and with what their image is pulled. */ -}}
{{- define "strobe.placement" -}}
{{- with include "strobe.secretNames" (concat ((.Values.global | default dict).imagePullSecrets | default list) (.Values.imagePullSecrets | default list)) | fromJsonArray }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- with .Values.advanced.podSecurityContext }}
securityContext: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- /* What the pods that end by themselves have in common: they run where the operator runs. Its affinity to pods is left out, because it may keep a second pod off the operator's node. */ -}}
{{- define "strobe.hookSpec" -}}
restartPolicy: Never
enableServiceLinks: false
{{- with .Values.advanced.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with (.Values.affinity | default dict).nodeAffinity }}
affinity:
  nodeAffinity: {{- toYaml . | nindent 4 }}
{{- end }}
{{- with include "strobe.placement" . | trim }}
{{ . }}
{{- end }}
{{- end }}

{{- /* How their container runs. Kubernetes shows the end of its log in the pod's status when it fails. */ -}}
{{- define "strobe.hookProgram" -}}
{{ include "strobe.program" . }}
terminationMessagePolicy: FallbackToLogsOnError
{{- with .Values.advanced.hooks.resources }}
resources: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- /* Egress to DNS and to the API server. Where a pod reaches a Service, most networks compare the port of the pods behind it, not the Service's. There is no `to`: the API server is rarely a pod, and DNS need not be one. */ -}}
{{- define "strobe.clusterEgress" -}}
- ports:
    {{- range .Values.networkPolicy.dnsPorts | default (list 53 5353) }}
    - {port: {{ . }}, protocol: UDP}
    - {port: {{ . }}, protocol: TCP}
    {{- end }}
    {{- range .Values.networkPolicy.apiServerPorts }}
    - {port: {{ . }}, protocol: TCP}
    {{- end }}
{{- end }}

{{- /* A NetworkPolicy that comes and goes with a hook, because the hook runs before or after the chart's other objects exist: `name`, `component`, and the annotations `hook`. */ -}}
{{- define "strobe.hookPolicy" -}}
{{- if .root.Values.networkPolicy.enabled }}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  name: {{ .name }}
  namespace: {{ .root.Release.Namespace }}
  labels: {{- include "strobe.labels" .root | nindent 4 }}
  annotations: {{- merge (dict "helm.sh/hook-weight" "-10") .hook | toYaml | nindent 4 }}
spec:
  podSelector:
    matchLabels: {{- include "strobe.selectorOf" . | nindent 6 }}
  policyTypes: [Ingress, Egress]
  egress:
    {{- include "strobe.clusterEgress" .root | nindent 4 }}
{{- end }}
{{- end }}

{{- define "strobe.name" -}}
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
app.kubernetes.io/name: {{ include "strobe.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: operator
{{- end }}

{{- define "strobe.labels" -}}
{{ include "strobe.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "strobe.authorityNamespace" -}}
{{- default (printf "%s-authority" .Release.Namespace) .Values.tls.authorityNamespace }}
{{- end }}

{{/* Expressions of a namespaceSelector, as JSON: the one namespace that is looked at, when it is one. */}}
{{- define "strobe.watched" -}}
{{- with .Values.watchNamespace }}{{ list (dict "key" "kubernetes.io/metadata.name" "operator" "In" "values" (list .)) | toJson }}{{ else }}[]{{ end }}
{{- end }}

{{- define "strobe.image" -}}
{{ .repository }}:{{ default .appVersion .tag }}
{{- end }}

{{- define "strobe.containerSecurity" -}}
allowPrivilegeEscalation: false
capabilities: {drop: [ALL]}
readOnlyRootFilesystem: true
runAsNonRoot: true
seccompProfile: {type: RuntimeDefault}
{{- if .Values.runAsUser }}
runAsUser: {{ .Values.runAsUser }}
runAsGroup: {{ .Values.runAsUser }}
{{- end }}
{{- end }}

{{- define "strobe.clientConfig" -}}
service:
  name: {{ include "strobe.operator" .root }}
  namespace: {{ .root.Release.Namespace }}
  path: {{ .path }}
  port: 443
{{- end }}

{{- define "strobe.webhookAnnotations" -}}
{{- if .Values.webhook.certManager }}
annotations:
  cert-manager.io/inject-ca-from: {{ .Release.Namespace }}/{{ include "strobe.fullname" . }}-webhook
{{- end }}
{{- end }}

{{- /* Where pods of ours run and with what their image is pulled. */ -}}
{{- define "strobe.placement" -}}
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

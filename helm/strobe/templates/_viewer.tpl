{{- define "strobe.viewer" -}}
{{ include "strobe.fullname" . }}-web
{{- end }}

{{- define "strobe.viewerAccount" -}}
{{- if .Values.viewer.serviceAccount.create }}{{ default (include "strobe.viewer" .) .Values.viewer.serviceAccount.name }}{{ else }}{{ required "viewer.serviceAccount.name is needed when viewer.serviceAccount.create is false" .Values.viewer.serviceAccount.name }}{{ end }}
{{- end }}

{{- define "strobe.viewerSelector" -}}
{{ include "strobe.selectorOf" (dict "root" . "component" "viewer") }}
{{- end }}

{{- define "strobe.viewerLabels" -}}
{{ include "strobe.labelsOf" (dict "root" . "component" "viewer") }}
{{- end }}

{{- /* The viewer, which listens on the pod's loopback, and the proxy, which everybody else reaches. */ -}}
{{- define "strobe.viewerContainers" }}
{{- $viewer := .Values.viewer }}
{{- $storage := $viewer.storage -}}
- name: viewer
  image: {{ include "strobe.image" (dict "root" . "image" $viewer.image) | quote }}
  {{- with $viewer.image.pullPolicy }}
  imagePullPolicy: {{ . }}
  {{- end }}
  {{- include "strobe.security" . | nindent 2 }}
  command: [/opt/strobe/bin/strobe, serve, --config=/etc/strobe/viewer/serve.yaml]
  {{- with $storage.secret }}
  envFrom:
    - secretRef: {name: {{ . }}}
  {{- end }}
  {{- if or $storage.caBundle.secret $storage.caBundle.configMap $viewer.env }}
  env:
    {{- if or $storage.caBundle.secret $storage.caBundle.configMap }}
    - {name: STROBE_STORAGE_CA_BUNDLE, value: /etc/strobe/storage-ca/{{ $storage.caBundle.key }}}
    {{- end }}
    {{- with $viewer.env }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- end }}
  ports:
    - {name: health, containerPort: {{ $viewer.healthPort }}}
  readinessProbe:
    httpGet: {path: /healthz, port: health}
    periodSeconds: 5
  livenessProbe:
    httpGet: {path: /healthz, port: health}
    periodSeconds: 10
    failureThreshold: 6
  resources: {{- toYaml $viewer.resources | nindent 4 }}
  volumeMounts:
    - {name: config, mountPath: /etc/strobe/viewer, readOnly: true}
    - {name: cache, mountPath: /var/cache/strobe}
    - {name: token, mountPath: /var/run/secrets/kubernetes.io/serviceaccount, readOnly: true}
    {{- if or $storage.config.secret $storage.config.configMap }}
    - {name: storage-config, mountPath: /etc/strobe/storage-config, readOnly: true}
    {{- end }}
    {{- if or $storage.caBundle.secret $storage.caBundle.configMap }}
    - {name: storage-ca, mountPath: /etc/strobe/storage-ca, readOnly: true}
    {{- end }}
    {{- with $viewer.extraVolumeMounts }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
- name: proxy
  image: {{ required "viewer.proxy.image is needed: people log in through an authenticating proxy; see docs/how-to/serve.md" $viewer.proxy.image | quote }}
  {{- include "strobe.security" . | nindent 2 }}
  args: {{ toJson $viewer.proxy.args }}
  {{- with $viewer.proxy.env }}
  env: {{- toYaml . | nindent 4 }}
  {{- end }}
  ports:
    - {name: http, containerPort: {{ $viewer.proxy.port }}}
  readinessProbe:
    tcpSocket: {port: http}
    periodSeconds: 5
  resources: {{- toYaml $viewer.proxy.resources | nindent 4 }}
  {{- with $viewer.proxy.volumeMounts }}
  volumeMounts: {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end }}

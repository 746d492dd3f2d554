{{/* Names, labels and other parts that several templates share. */}}

{{- define "message-store-operator.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 50 | trimSuffix "-" }}
{{- end }}

{{- define "message-store-operator.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" }}
{{- else }}
{{- $name := include "message-store-operator.name" . }}
{{- if contains $name .Release.Name }}
{{- .Release.Name | trunc 50 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name $name | trunc 50 | trimSuffix "-" }}
{{- end }}
{{- end }}
{{- end }}

{{- define "message-store-operator.selectorLabels" -}}
app.kubernetes.io/name: {{ include "message-store-operator.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/component: operator
{{- end }}

{{- define "message-store-operator.labels" -}}
{{ include "message-store-operator.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/part-of: message-store-operator
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* Of the metadata of an object without annotations of its own. */}}
{{- define "message-store-operator.commonAnnotations" }}
{{- with .Values.commonAnnotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
{{- end }}
{{- end }}

{{/* Labels of objects for runs, which are not part of the operator itself. */}}
{{- define "message-store-operator.driverLabels" -}}
{{ include "message-store-operator.labels" . | replace "component: operator" "component: driver" }}
{{- end }}

{{- define "message-store-operator.serviceAccountName" -}}
{{- default (include "message-store-operator.fullname" .) .Values.serviceAccount.name }}
{{- end }}

{{- define "message-store-operator.driverRoleName" -}}
{{- printf "%s-driver" (include "message-store-operator.fullname" .) }}
{{- end }}

{{/* The registry and repository of an image. Takes a dict with "image" and "root". */}}
{{- define "message-store-operator.repository" -}}
{{- list .root.Values.global.imageRegistry .image.repository | compact | join "/" }}
{{- end }}

{{/* An image by digest, by tag, or by the chart's own version. Takes the same. */}}
{{- define "message-store-operator.image" -}}
{{- $repository := include "message-store-operator.repository" . }}
{{- if .image.digest -}}
{{- printf "%s@%s" $repository .image.digest }}
{{- else -}}
{{- printf "%s:%s" $repository (default .root.Chart.AppVersion .image.tag) }}
{{- end }}
{{- end }}

{{/* The namespaces in which a binding of an admission policy holds; empty for all. */}}
{{- define "message-store-operator.inServedNamespaces" -}}
{{- with .Values.watch.namespaces -}}
matchResources:
  namespaceSelector:
    matchExpressions:
      - key: kubernetes.io/metadata.name
        operator: In
        values: {{ toJson . }}
{{- end }}
{{- end }}

{{/*
What the operator, or a cluster, would refuse only after the installation. The template of the Deployment includes it.
*/}}
{{- define "message-store-operator.check" -}}
{{- range $name, $repository := dict "image.repository" .Values.image.repository "spark.image.repository" .Values.spark.image.repository }}
{{- if not $repository }}
{{- fail (printf "%s must name the repository that you pushed the image to: no registry has it, see docs/install.md" $name) }}
{{- end }}
{{- end }}
{{- if and (gt (int .Values.replicas) 1) (not .Values.leader.enabled) }}
{{- fail (printf "replicas is %v, but without leader.enabled only one replica may run" .Values.replicas) }}
{{- end }}
{{- if eq (int .Values.health.port) (int .Values.metrics.port) }}
{{- fail (printf "health.port and metrics.port are both %v: one port serves one of them" .Values.metrics.port) }}
{{- end }}
{{- range $name := list "serviceMonitor" "prometheusRule" }}
{{- if and (get $.Values.metrics $name).enabled (not $.Values.metrics.service.enabled) }}
{{- fail (printf "metrics.%s needs metrics.service.enabled" $name) }}
{{- end }}
{{- end }}
{{- with .Values.leader }}
{{- if not (and (gt (float64 .duration) (float64 .renewDeadline)) (gt (float64 .renewDeadline) (float64 .retry))) }}
{{- fail "leader.duration must be more than leader.renewDeadline, and that more than leader.retry" }}
{{- end }}
{{- end }}
{{- if semverCompare "<1.30.0-0" .Capabilities.KubeVersion.Version }}
{{- range $name, $asked := dict "driver.admissionPolicy" .Values.driver.admissionPolicy "approval.admissionPolicy" .Values.approval.admissionPolicy }}
{{- if $asked }}
{{- fail (printf "%s needs Kubernetes 1.30, and this is %s: set it to false" $name $.Capabilities.KubeVersion.Version) }}
{{- end }}
{{- end }}
{{- end }}
{{- range $role := list "driver" "executor" }}
{{- $size := get $.Values.spark $role | default dict }}
{{- range $field, $most := get $.Values.tenancy.sizes $role }}
{{- $asked := get $size $field }}
{{- if gt (include "message-store-operator.amount" $asked | int64) (include "message-store-operator.amount" $most | int64) }}
{{- fail (printf "spark.%s.%s: %v is more than %v, which tenancy.sizes.%s.%s allows" $role $field $asked $most $role $field) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* A number unchanged, or memory in bytes. */}}
{{- define "message-store-operator.amount" -}}
{{- $text := toString . | lower }}
{{- $factors := dict "k" 1024 "m" 1048576 "g" 1073741824 "t" 1099511627776 }}
{{- $unit := regexFind "[kmgt]$" $text }}
{{- mul (trimSuffix $unit $text | int64) (ternary (get $factors $unit) 1 (ne $unit "")) }}
{{- end }}

{{/*
The permissions, once. No wildcard stands in them.
*/}}

{{/* What the operator does in every namespace that it watches. */}}
{{- define "message-store-operator.watchedRules" -}}
- apiGroups: [messagestore.dev]
  resources: [messagestreams, retentionpolicies, replayjobs]
  verbs: [get, list, watch, patch]
- apiGroups: [messagestore.dev]
  resources: [messagestreams/status, retentionpolicies/status, replayjobs/status]
  verbs: [patch]
# A finished replay with ttlAfterFinished.
- apiGroups: [messagestore.dev]
  resources: [replayjobs]
  verbs: [delete]
# One application a run; its specification never changes.
- apiGroups: [sparkoperator.k8s.io]
  resources: [sparkapplications]
  verbs: [get, list, watch, create, delete]
# A run's document, report and control. get and patch are also what the drivers' Role grants: nobody may grant more than
# what they hold.
- apiGroups: [""]
  resources: [configmaps]
  verbs: [get, list, watch, create, patch, delete]
# The drivers' right to report: one Role a namespace, which names the ConfigMaps of the runs under way.
- apiGroups: [rbac.authorization.k8s.io]
  resources: [roles, rolebindings]
  verbs: [create]
- apiGroups: [rbac.authorization.k8s.io]
  resources: [roles]
  resourceNames: [{{ .Values.driver.serviceAccount.name }}-reports]
  verbs: [patch]
# Why a driver doesn't start or has ended.
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch]
# What it tells; and what the kubelet tells of a pod that no state shows, such as a volume whose Secret isn't there.
- apiGroups: [""]
  resources: [events]
  verbs: [list, create, patch]
{{- if .Values.tenancy.secrets.requireLabel }}
# Whether a Secret's label allows its use. The operator asks for metadata alone; a rule can't say that.
- apiGroups: [""]
  resources: [secrets]
  verbs: [get]
{{- end }}
# Whether the namespace is being deleted.
- apiGroups: [""]
  resources: [namespaces]
  verbs: [get]
{{- end }}

{{/* What the operator does in its own namespace. */}}
{{- define "message-store-operator.ownRules" -}}
# The leader's Lease, and one for each table: who may write to it.
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [get, list, create, update, delete]
{{- end }}

{{/* How the operator gives each namespace that gets a run its drivers' account: it may bind that one role only. */}}
{{- define "message-store-operator.accountRules" -}}
- apiGroups: [""]
  resources: [serviceaccounts]
  verbs: [create]
# Its annotations, where driver.serviceAccount.annotations have changed.
- apiGroups: [""]
  resources: [serviceaccounts]
  resourceNames: [{{ .Values.driver.serviceAccount.name }}]
  verbs: [patch]
- apiGroups: [rbac.authorization.k8s.io]
  resources: [clusterroles]
  resourceNames: [{{ include "message-store-operator.driverRoleName" . }}]
  verbs: [bind]
{{- end }}

{{/*
What a driver does: it makes its executors and takes them away. Runs are configured to need no ConfigMap, Service or
claim of Spark's own, and reports have a Role of their own that names their ConfigMaps.
*/}}
{{- define "message-store-operator.driverRules" -}}
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch, create, delete, deletecollection]
{{- end }}

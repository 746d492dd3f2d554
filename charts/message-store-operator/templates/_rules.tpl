{{/*
All permissions. None has a wildcard.
*/}}

{{/* The operator's permissions in each namespace that it watches. */}}
{{- define "message-store-operator.watchedRules" -}}
- apiGroups: [messagestore.dev]
  resources: [messagestreams, retentionpolicies, replayjobs]
  verbs: [get, list, watch, patch]
- apiGroups: [messagestore.dev]
  resources: [messagestreams/status, retentionpolicies/status, replayjobs/status]
  verbs: [patch]
# Finished replays with ttlAfterFinished.
- apiGroups: [messagestore.dev]
  resources: [replayjobs]
  verbs: [delete]
# One application per run; its spec never changes.
- apiGroups: [sparkoperator.k8s.io]
  resources: [sparkapplications]
  verbs: [get, list, watch, create, delete]
# A run's document, report and control. The operator grants get and patch to drivers, so it needs them itself.
- apiGroups: [""]
  resources: [configmaps]
  verbs: [get, list, watch, create, patch, delete]
# The drivers' right to report: one Role per namespace, which names the ConfigMaps of the runs in progress.
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
# The operator's Events; and the kubelet's about problems that no pod state shows, such as a volume without its Secret.
- apiGroups: [""]
  resources: [events]
  verbs: [list, create, patch]
{{- if .Values.tenancy.secrets.requireLabel }}
# Whether a Secret's label allows its use. The operator reads only metadata, which RBAC can't express.
- apiGroups: [""]
  resources: [secrets]
  verbs: [get]
{{- end }}
# Whether the namespace is being deleted.
- apiGroups: [""]
  resources: [namespaces]
  verbs: [get]
{{- end }}

{{/* The operator's permissions in its own namespace. */}}
{{- define "message-store-operator.ownRules" -}}
# The leader's Lease, and one per table for its writer.
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [get, list, create, update, delete]
{{- end }}

{{/* For the drivers' account in each namespace with runs. The operator may bind only the drivers' role. */}}
{{- define "message-store-operator.accountRules" -}}
- apiGroups: [""]
  resources: [serviceaccounts]
  verbs: [create]
# To update its annotations after driver.serviceAccount.annotations have changed.
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
A driver's permissions: to create and delete its executors. Runs are configured to need no ConfigMap, Service or
PersistentVolumeClaim of Spark's, and a separate Role for reports names their ConfigMaps.
*/}}
{{- define "message-store-operator.driverRules" -}}
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch, create, delete, deletecollection]
{{- end }}

#!/usr/bin/env bash
# The operator at work in the cluster of `make cluster`: real webhooks arrive on object storage and are taken in.
# It can be run again; what it made before goes first.
set -euo pipefail
cd "$(dirname "$0")/.."

KUBECONFIG=$(python3 -m tools.cluster kubeconfig)
export KUBECONFIG
kubectl=$(python3 -m tools.cluster.programs kubectl)
endpoint=http://127.0.0.1:36900
landing=examples/github-webhooks/landing/github-webhooks.jsonl

say() { printf '\n== %s\n' "$*"; }
run() { printf '$ kubectl %s\n' "$*"; "$kubectl" "$@"; }
# The credentials go to curl by its standard input: arguments are for all to see.
s3() {
  "$kubectl" -n storage get secret s3-root -o json |
    jq -r '.data | "user = \"\(.accessKey | @base64d):\(.secretKey | @base64d)\""' |
    curl --silent --show-error --fail --config - --aws-sigv4 aws:amz:us-east-1:s3 \
      --header 'x-amz-content-sha256: UNSIGNED-PAYLOAD' "$@"
}

say "A namespace under the restricted Pod Security Standard, with the store's credentials"
"$kubectl" delete namespace demo --ignore-not-found
"$kubectl" create namespace demo
"$kubectl" label namespace demo pod-security.kubernetes.io/enforce=restricted
"$kubectl" -n storage get secret s3-root -o json |
  jq '{apiVersion, kind, type, data, metadata: {name: "lake-credentials", namespace: "demo"}}' | "$kubectl" apply -f -

say "Real webhooks on object storage"
bucket=demo-$(date +%s)
s3 --request PUT "$endpoint/$bucket"
s3 --upload-file "$landing" "$endpoint/$bucket/landing/github-webhooks.jsonl"
wc -l "$landing"

say "The stream of examples/github-webhooks, with its table and its source in the bucket"
"$kubectl" create --dry-run=client -o json -f examples/github-webhooks/1-stream.yaml |
  jq --arg bucket "$bucket" '
    .metadata.namespace = "demo" |
    .spec.table.uri = "s3a://\($bucket)/table" |
    .spec.source.files.uri = "s3a://\($bucket)/landing" |
    .spec.storage = {
      endpoint: "http://s3.storage.svc:7070",
      pathStyleAccess: true,
      credentialsSecretRef: {name: "lake-credentials"}
    }' | "$kubectl" apply -f -
run -n demo wait messagestream/github-webhooks --for=condition=Ready --timeout=300s

say "What came of it"
run -n demo get messagestreams,sparkapplications,pods
run -n demo get messagestream github-webhooks -o "jsonpath={.status.totals}"

say "Done. The tables are plain Delta tables in bucket $bucket of the S3 server on $endpoint"

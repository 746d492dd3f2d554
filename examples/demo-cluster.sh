#!/usr/bin/env bash
# Show the operator in the cluster of `make cluster`: real webhooks arrive on object storage; streams ingest, purge and
# replay them, as `make demo` does on this machine. A second run first deletes the resources of the one before.
set -euo pipefail
cd "$(dirname "$0")/.."

KUBECONFIG=$(python3 -m hack.cluster kubeconfig)
export KUBECONFIG
kubectl=$(python3 -m hack.programs kubectl)
endpoint=http://127.0.0.1:36900
example=examples/github-webhooks
landing=$example/landing/github-webhooks.jsonl
# The limit of make demo, 90 days before 6 April 2026, so that any day purges the same messages.
age=PT$(($(date +%s) - $(date --date 2026-01-06T00:00:00Z +%s)))S

say() { printf '\n== %s\n' "$*"; }
run() { printf '$ kubectl %s\n' "$*"; "$kubectl" "$@"; }
# curl reads the credentials from standard input: every process can see arguments.
s3() {
  "$kubectl" -n storage get secret s3-root -o json |
    jq -r '.data | "user = \"\(.accessKey | @base64d):\(.secretKey | @base64d)\""' |
    curl --silent --show-error --fail --config - --aws-sigv4 aws:amz:us-east-1:s3 \
      --header 'x-amz-content-sha256: UNSIGNED-PAYLOAD' "$@"
}
# Apply a manifest of the example, changed by a jq program that has the bucket and its endpoint for pods.
apply() {
  "$kubectl" create --dry-run=client -o json -f "$example/$1" | jq --arg bucket "s3a://$bucket" --arg age "$age" "
    {endpoint: \"http://s3.storage.svc:7070\", pathStyleAccess: true,
     credentialsSecretRef: {name: \"lake-credentials\"}} as \$storage |
    .metadata.namespace = \"demo\" | $2" | "$kubectl" apply -f -
}
# Wait for a resource, and show the resources of all three kinds meanwhile. Give up five minutes after anything has
# changed: resources, runs with their reports, and pods; at the latest after half an hour.
follow() {
  local said objects known="" begun=$SECONDS changed=$SECONDS
  until said=$("$kubectl" -n demo wait "$@" --timeout=5s 2>&1); do
    run -n demo get messagestore -o wide
    objects=$("$kubectl" -n demo get messagestore,sparkapplications,configmaps,pods \
      -o 'jsonpath={.items[*].metadata.resourceVersion}')
    if [[ $objects != "$known" ]]; then known=$objects changed=$SECONDS; fi
    if ((SECONDS - changed >= 300 || SECONDS - begun >= 1800)); then
      echo "$said" >&2
      return 1
    fi
  done
  echo "$said"
  run -n demo get messagestore -o wide
}

say "A namespace under the restricted Pod Security Standard, with the store's credentials"
"$kubectl" delete namespace demo --ignore-not-found
"$kubectl" create namespace demo
"$kubectl" label namespace demo pod-security.kubernetes.io/enforce=restricted
"$kubectl" -n storage get secret s3-root -o json |
  jq '{apiVersion, kind, type, data, metadata: {name: "lake-credentials", namespace: "demo"}}' | "$kubectl" apply -f -
"$kubectl" -n demo label secret lake-credentials messagestore.dev/use=storage

say "Real webhooks on object storage"
bucket=demo-$(date +%s)
s3 --request PUT "$endpoint/$bucket"
s3 --upload-file "$landing" "$endpoint/$bucket/landing/github-webhooks.jsonl"
wc -l "$landing"

say "A stream ingests them: $example/1-stream.yaml, with its table and its source in the bucket"
apply 1-stream.yaml '.spec.storage = $storage |
  .spec.table.uri = "\($bucket)/table" |
  .spec.source.files.uri = "\($bucket)/landing"'
follow messagestream/github-webhooks --for=condition=Ready
run -n demo get sparkapplications,pods
run -n demo get messagestream github-webhooks -o "jsonpath={.status.totals}{'\n'}"

say "A policy archives and purges messages from before 6 January 2026; held messages stay"
apply 2-retention.yaml '.metadata.annotations["messagestore.dev/run-requested"] = "now" |
  .spec.rules[0].maxAge = $age |
  .spec.archive += {uri: "\($bucket)/archive", storage: $storage}'
follow retentionpolicy/webhooks-90-days --for=jsonpath='{.status.lastPurgeTime}'

say "A replay writes the remaining pull requests to objects, in order, and a manifest last"
apply 3-replay.yaml '.spec.destination.files = {uri: "\($bucket)/replayed", storage: $storage}'
follow replayjob/replay-pull-requests --for=condition=Complete
s3 "$endpoint/$bucket/replayed/manifest.json" | jq '{objects, outcome}'

say "Some webhooks arrive again, and one line is cut in half: duplicates are counted, the bad line is set aside"
again=$(mktemp)
trap 'rm "$again"' EXIT
{ tail -n 20 "$landing"; tail -n 1 "$landing" | cut -c 1-300; } > "$again"
s3 --upload-file "$again" "$endpoint/$bucket/landing/again.jsonl"
run -n demo annotate messagestream github-webhooks messagestore.dev/run-requested=again
follow messagestream/github-webhooks --for=jsonpath='{.status.totals.deadLettered}'=1
run -n demo get messagestream github-webhooks -o "jsonpath={.status.totals}{'\n'}"
run -n demo get events --field-selector involvedObject.apiVersion=messagestore.dev/v1alpha1

say "Done. The tables are plain Delta tables in bucket $bucket of the S3 server on $endpoint"

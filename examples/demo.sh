#!/usr/bin/env bash
# Ingest real webhooks, apply a retention policy to them and replay some of them, all on this machine.
# Usage: examples/demo.sh [path of the messagestore command]
set -euo pipefail

messagestore=${1:-messagestore}
examples=$(cd "$(dirname "$0")" && pwd)
work=${MESSAGESTORE_DEMO:-/tmp/messagestore-demo/make-demo}
mark=$work/.messagestore-demo

say() { printf '\n== %s\n' "$*"; }
run() { printf '$ %s\n' "${*/#$messagestore/messagestore}"; "$@"; }

if [[ -e $work && ! -e $mark ]]; then
    echo "$work exists and is not from an earlier demo: set MESSAGESTORE_DEMO to another folder" >&2
    exit 1
fi
rm -rf "$work"
mkdir -p "$work/manifests" "$work/github-webhooks/landing"
touch "$mark"

say "Data and manifests, copied to $work"
cp "$examples/github-webhooks/landing/github-webhooks.jsonl" "$work/github-webhooks/landing/"
for manifest in "$examples"/github-webhooks/*.yaml; do
    sed "s#/tmp/messagestore-demo#$work#" "$manifest" > "$work/manifests/$(basename "$manifest")"
done
wc -l "$work/github-webhooks/landing/github-webhooks.jsonl"

say "Check the manifests"
run "$messagestore" validate -f "$work/manifests"

say "Run a stream, a policy and a replay, in this order, as of 6 April 2026"
run "$messagestore" run -f "$work/manifests" --at 2026-04-06T00:00:00Z

say "The replay's output: objects in order, and a manifest written last"
ls "$work/github-webhooks/replayed"
head -n 1 "$work"/github-webhooks/replayed/part-*.jsonl | cut -c 1-200

say "Some webhooks arrive again, and one line is cut in half: duplicates are counted, the bad line is set aside"
landing=$examples/github-webhooks/landing/github-webhooks.jsonl
{ tail -n 20 "$landing"; tail -n 1 "$landing" | cut -c 1-300; } > "$work/github-webhooks/landing/again.jsonl"
run "$messagestore" run -f "$work/manifests/1-stream.yaml" --at 2026-04-06T00:05:00Z

say "The tables are plain Delta tables in $work/github-webhooks/table. A page shows what they hold:"
run "$messagestore" page "$work/github-webhooks/table" -o "$work/store.html" --policies "$work/manifests" \
    --at 2026-04-06T00:05:00Z

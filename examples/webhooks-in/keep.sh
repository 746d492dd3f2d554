#!/bin/sh
# Keep a delivery as a file of its own: the body, byte for byte, under its event and its id.
# Usage: LANDING=FOLDER BODY=FILE keep.sh EVENT DELIVERY
set -eu

event=$1 delivery=$2
for name in "$event" "$delivery"; do
  case $name in
    '' | *[!A-Za-z0-9_-]*) echo "no name of a file: $name" >&2; exit 1 ;;
  esac
done

# On object storage, instead of all that follows:
# aws s3 cp --only-show-errors "$BODY" "s3://lake/webhooks/$event/$delivery.json"
mkdir -p "$LANDING/$event"
new=$(mktemp "$LANDING/.XXXXXX")
trap 'rm -f "$new"' EXIT
cp "$BODY" "$new"
chmod 0644 "$new"
sync "$new"
# A reader finds the whole file, or none.
mv "$new" "$LANDING/$event/$delivery.json"
sync "$LANDING/$event"

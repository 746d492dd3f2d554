#!/usr/bin/env bash
# Brings the jars that a pom.xml names into a folder by Maven, and fails unless they are, byte for byte, those of the
# checksums.txt beside it.
# Usage: fetch.sh POM FOLDER    or, to write checksums.txt anew: fetch.sh POM
set -euo pipefail
pom=$1
folder=${2:-$(mktemp -d)}
sums=$(dirname "$pom")/checksums.txt
mvn -q -B -C -f "$pom" dependency:copy-dependencies -DoutputDirectory="$folder" 2>&1 | sed 's/\x1b\[[0-9;]*m//g'
found=$(cd "$folder" && LC_ALL=C sha256sum -- *.jar)
if [ $# = 1 ]; then
  rm -rf "$folder"
  echo "$found" > "$sums"
elif ! difference=$(diff "$sums" - <<< "$found"); then
  echo "jars: what Maven brought is not what $sums says:" >&2
  echo "$difference" >&2
  exit 1
fi

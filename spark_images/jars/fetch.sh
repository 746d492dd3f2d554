#!/usr/bin/env bash
# Downloads the jars that a pom.xml names into a folder by Maven, and fails unless their checksums are those of the
# checksums.txt beside the pom.xml.
# Usage: fetch.sh POM FOLDER    or, to write checksums.txt again: fetch.sh POM
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
  echo "jars: Maven's downloads differ from $sums:" >&2
  echo "$difference" >&2
  exit 1
fi

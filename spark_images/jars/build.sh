#!/usr/bin/env bash
# Puts the jars that the jobs need into one folder: Delta Lake from Maven, and this project's own extension of Spark,
# compiled against the jars of the given Python's pyspark.
# Usage: build.sh PYTHON FOLDER
set -euo pipefail
python=$1
mkdir -p "$2"
folder=$(cd "$2" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
sources=$here/../extension

stamp=$(find "$sources" "$here" -type f -print0 | sort -z | xargs -0 sha256sum | cut -d' ' -f1 | sha256sum | cut -d' ' -f1)
if [ "$(cat "$folder/.stamp" 2>/dev/null)" = "$stamp" ]; then
  exit 0
fi
echo "jars: Delta Lake by Maven, Spark extension by javac, into $folder"
rm -rf "$folder"
mkdir -p "$folder"
mvn -q -B -f "$here/pom.xml" dependency:copy-dependencies -DoutputDirectory="$folder" 2>&1 | sed 's/\x1b\[[0-9;]*m//g'
spark=$("$python" -c 'import pathlib, pyspark; print(pathlib.Path(pyspark.__file__).parent / "jars")')
classes=$(mktemp -d)
trap 'rm -rf "$classes"' EXIT
find "$sources" -name '*.java' -print0 | xargs -0 javac -Xlint:all,-processing,-classfile,-path,-serial -Werror --release 17 -cp "$spark/*:$folder/*" -d "$classes"
jar --create --file "$folder/messagestore-spark.jar" -C "$classes" .
echo "$stamp" > "$folder/.stamp"

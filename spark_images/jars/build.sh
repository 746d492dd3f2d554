#!/usr/bin/env bash
# Puts the jobs' jars into one folder: Delta Lake, S3 and Kafka's client from Maven, and this project's own
# extension of Spark, compiled against them and the jars of the given Python's pyspark.
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
echo "jars: Delta Lake, S3 and Kafka by Maven, Spark extension by javac, into $folder"
# Built beside the folder and then renamed, as a process may be using the present one.
made=$(mktemp -d "$folder.XXXXXX")
classes=$(mktemp -d)
trap 'rm -rf "$made" "$classes"' EXIT
chmod 755 "$made"
"$here/fetch.sh" "$here/pom.xml" "$made"
spark=$("$python" -c 'import pathlib, pyspark; print(pathlib.Path(pyspark.__file__).parent / "jars")')
find "$sources" -name '*.java' -print0 | xargs -0 javac -Xlint:all,-processing,-classfile,-path,-serial -Werror --release 17 -cp "$spark/*:$made/*" -d "$classes"
jar --create --file "$made/messagestore-spark.jar" -C "$classes" .
echo "$stamp" > "$made/.stamp"
rm -rf "$folder"
mv "$made" "$folder"

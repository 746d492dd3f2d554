#!/bin/bash
# Starts what Spark on Kubernetes asks a container for: `driver --properties-file FILE … PROGRAM ARGUMENTS...`, or
# `executor` with all else in the environment. Anything else is a command.
set -euo pipefail

# All jars, in the same order as in session.py: the JVM maps their classes from an archive, which is for this order. What
# else a submission or an image names comes after them.
class_path=$(LC_ALL=C && printf '%s:' "$MESSAGESTORE_JARS"/*.jar "$SPARK_HOME"/jars/*.jar)
class_path=${class_path%:}
archive=-XX:SharedArchiveFile=$(dirname "$MESSAGESTORE_JARS")/classes.jsa

# By another locale JVMs can't read names that are not ASCII.
export LC_ALL=C.UTF-8

case ${1:-} in
  driver)
    shift
    settings=()
    while [[ ${1:-} == --* ]]; do
      # --class is for programs that a JVM starts.
      if [[ $1 != --class ]]; then settings+=("$1" "$2"); fi
      if [[ $1 == --properties-file ]]; then own=$(sed -n 's/\\//g; s/^spark.driver.extraClassPath=//p' "$2"); fi
      shift 2
    done
    program=${1#local://}
    shift
    settings+=(--conf "spark.driver.bindAddress=$SPARK_DRIVER_BIND_ADDRESS")
    settings+=(--conf "spark.executorEnv.SPARK_DRIVER_POD_IP=$SPARK_DRIVER_BIND_ADDRESS")
    settings+=(--driver-class-path "$class_path${own:+:$own}")
    export SPARK_SUBMIT_OPTS="$archive ${SPARK_SUBMIT_OPTS:-}"
    # Python starts the JVM, not the other way round: so SIGTERM reaches the one that can end a run in order, and the
    # JVM lives as long as Python needs it.
    export PYSPARK_SUBMIT_ARGS="${settings[*]@Q} --deploy-mode client pyspark-shell"
    exec tini -s -- "$PYSPARK_PYTHON" "$program" "$@"
    ;;
  executor)
    # SPARK_JAVA_OPT_0, _1, … hold an option each, which may have blanks.
    options=()
    for ((number = 0; ; number++)); do
      name=SPARK_JAVA_OPT_$number
      if [ -z "${!name+set}" ]; then break; fi
      options+=("${!name}")
    done
    for folder in "${SPARK_CONF_DIR:-}" "${SPARK_CLASSPATH:-}" "${SPARK_DIST_CLASSPATH:-}"; do
      class_path+=${folder:+:$folder}
    done
    exec tini -s -- java "$archive" "${options[@]}" "-Xms$SPARK_EXECUTOR_MEMORY" "-Xmx$SPARK_EXECUTOR_MEMORY" \
      -cp "$class_path" \
      org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
      --driver-url "$SPARK_DRIVER_URL" \
      --executor-id "$SPARK_EXECUTOR_ID" \
      --cores "$SPARK_EXECUTOR_CORES" \
      --app-id "$SPARK_APPLICATION_ID" \
      --hostname "$SPARK_EXECUTOR_POD_IP" \
      --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" \
      --podName "$SPARK_EXECUTOR_POD_NAME"
    ;;
  *)
    exec "$@"
    ;;
esac

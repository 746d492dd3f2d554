# Kubeflow's Spark operator. It submits with spark-submit, so it needs Spark, and uses that of the jobs' image.
ARG DEPENDENCIES
FROM ${DEPENDENCIES}
COPY spark-operator /usr/bin/spark-operator
ENTRYPOINT ["tini", "-s", "--", "/usr/bin/spark-operator"]

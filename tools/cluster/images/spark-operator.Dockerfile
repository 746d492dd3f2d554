# kubeflow's Spark operator: it submits with spark-submit, so it needs a Spark, and takes the one of the jobs.
ARG DEPENDENCIES
FROM ${DEPENDENCIES}
COPY spark-operator /usr/bin/spark-operator
ENTRYPOINT ["tini", "-s", "--", "/usr/bin/spark-operator"]

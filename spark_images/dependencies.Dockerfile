# The jobs' base: Java, Python and Spark. It changes rarely; spark_images/Dockerfile adds the jobs.
# The build's context is a folder that `make images` fills: site/, with the Python packages of requirements.lock.
ARG BASE=debian:bookworm-20260918-slim@sha256:3783cc01769c7b2b1b83a5c5ad96c815348e28ed7da68e2e3687004faa906251
FROM ${BASE}

# If the base image has them already, nothing is installed and the build needs no network.
RUN command -v java python3 tini > /dev/null || { \
      apt-get update && \
      apt-get install --yes --no-install-recommends ca-certificates openjdk-17-jre-headless python3 tini tzdata && \
      rm -rf /var/lib/apt/lists/*; }

RUN groupadd --gid 185 spark && \
    useradd --uid 185 --gid 185 --home-dir /opt/spark/work-dir --shell /usr/sbin/nologin spark && \
    mkdir -p /opt/spark/work-dir && \
    chown spark:spark /opt/spark/work-dir

COPY site /usr/local/lib/python3.11/dist-packages
RUN python3 -m compileall -q -j 0 /usr/local/lib/python3.11/dist-packages && \
    python3 -c 'import delta, deltalake, numpy, pyarrow.dataset, pyarrow.fs, pyarrow.parquet, pyspark.sql'

# Java decodes environment variables by the locale, and keys may have any characters.
ENV LANG=C.UTF-8 \
    SPARK_HOME=/usr/local/lib/python3.11/dist-packages/pyspark \
    PYSPARK_PYTHON=python3 \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
WORKDIR /opt/spark/work-dir
USER 185:185

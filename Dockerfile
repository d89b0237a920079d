# An image for CI with Python, Java for Spark, and the command line. Mount the manifests at /work.
#   docker build --build-arg SOURCE="OWNER/NAME@$(git rev-parse HEAD)" -t reconciler .
#   docker run --rm -v "$PWD:/work" -e KAFKA_PASSWORD reconciler plan
# Without Java and Spark, for `engine: auto` and `inline`; with `connect` instead of `inline`, for a Spark Connect server:
#   docker build --build-arg LOCK=requirements-inline.lock --build-arg JAVA="" -t reconciler:inline .
ARG LOCK=requirements.lock
ARG JAVA=openjdk-21-jre-headless
FROM python:3.13-slim-trixie@sha256:9d2e5553305c7c7b0097999bb17187c69b921ccd6bc9d40e4bb5ebe652c00285 AS build
WORKDIR /src
COPY requirements-base.lock requirements-connect.lock requirements-inline.lock requirements.lock pyproject.toml hatch_build.py README.md LICENSE ./
COPY reconciler reconciler
COPY .github/workflows .github/workflows
# The first lock file has what builds pyspark and this program: pip resolves nothing and checks every hash.
# SOURCE: the repository and the commit that the workflows of `reconciler init` install.
ARG SOURCE=""
ARG LOCK
RUN python -m venv /opt/reconciler \
 && for lock in requirements-base.lock "$LOCK"; do \
      /opt/reconciler/bin/pip install --no-cache-dir --quiet --require-hashes --no-deps --no-build-isolation -r "$lock" || exit 1; \
    done \
 && RECONCILER_SOURCE="$SOURCE" /opt/reconciler/bin/pip install --no-cache-dir --quiet --no-deps --no-build-isolation .

FROM python:3.13-slim-trixie@sha256:9d2e5553305c7c7b0097999bb17187c69b921ccd6bc9d40e4bb5ebe652c00285
ARG JAVA
RUN apt-get update \
 && apt-get install -y --no-install-recommends $JAVA git \
 && rm -rf /var/lib/apt/lists/* \
 && useradd --create-home --uid 10001 reconciler \
 && chmod 755 /home/reconciler
COPY --from=build /opt/reconciler /opt/reconciler
ENV PATH=/opt/reconciler/bin:$PATH RECONCILER_NO_INPUT=1 PYTHONSAFEPATH=1 XDG_CACHE_HOME=/home/reconciler/.cache
# By number, so that Kubernetes can see that it is not root. OpenShift takes another one, which may read this home, too.
USER 10001
# The archive of Spark's classes, with which scans start sooner, also where HOME is another folder.
RUN if command -v java; then python -m reconciler.scan.prepare; fi
WORKDIR /work
ENTRYPOINT ["reconciler"]
CMD ["--help"]

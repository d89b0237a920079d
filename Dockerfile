# An image for CI with Python, Java for Spark, and the command line. Mount the manifests at /work.
#   docker build -t reconciler .
#   docker run --rm -v "$PWD:/work" -e KAFKA_PASSWORD reconciler plan
FROM python:3.13-slim-trixie AS build
WORKDIR /src
COPY requirements.lock pyproject.toml README.md LICENSE ./
COPY reconciler reconciler
# The lock file also contains the build backend: pip resolves nothing and checks every hash.
RUN python -m venv /opt/reconciler \
 && /opt/reconciler/bin/pip install --no-cache-dir --quiet --require-hashes -r requirements.lock \
 && /opt/reconciler/bin/pip install --no-cache-dir --quiet --no-deps --no-build-isolation .

FROM python:3.13-slim-trixie
RUN apt-get update \
 && apt-get install -y --no-install-recommends openjdk-21-jre-headless git \
 && rm -rf /var/lib/apt/lists/* \
 && useradd --create-home --uid 10001 reconciler
COPY --from=build /opt/reconciler /opt/reconciler
ENV PATH=/opt/reconciler/bin:$PATH RECONCILER_NO_INPUT=1
USER reconciler
WORKDIR /work
ENTRYPOINT ["reconciler"]
CMD ["--help"]

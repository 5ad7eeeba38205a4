# What running needs, in the virtual environment that `make` uses, as a user who is not root:
#   docker build -t compressed-optimization .
#   docker run --rm --user "$(id -u):$(id -g)" -v "$PWD/results:/app/results" compressed-optimization make reproduce-digits
# This torch brings CUDA's libraries with it and computes on GPUs where the container has them (--gpus all, and --ipc=host
# for several ranks), else on the CPU. With the index of CPU wheels that torch's installation page names, as the build
# argument PIP_EXTRA_INDEX_URL, pip takes its CPU build of the same version, and the image is smaller by CUDA.
# The digest is that of the list of images for all processors.
FROM python:3.11-slim@sha256:db3ff2e1800a8581e2c48a27c3995339d47bdf046da21c7627accd3d51053a93

RUN apt-get update \
    && apt-get install --yes --no-install-recommends git make \
    && rm -rf /var/lib/apt/lists/* \
    && git config --system --add safe.directory /app \
    && useradd --create-home runner \
    && install --directory --owner=runner --mode=1777 /app

USER runner
WORKDIR /app
ARG PIP_EXTRA_INDEX_URL
ENV PIP_NO_CACHE_DIR=1 PATH=/app/.venv/bin:$PATH
COPY --chown=runner Makefile ./
COPY --chown=runner requirements/ requirements/
RUN make setup-run

COPY --chown=runner . .
RUN touch .venv/.ready
CMD ["make", "demo"]

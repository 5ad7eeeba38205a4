# Everything installed, in the virtual environment that `make` uses:
#   docker build -t compressed-optimization .
#   docker run --rm -v "$PWD/results:/app/results" compressed-optimization make reproduce-digits
# This torch brings CUDA's libraries with it and computes on GPUs where the container has them (--gpus all, and --ipc=host
# for several ranks), else on the CPU. With the index of CPU wheels that torch's installation page names, as the build
# argument PIP_EXTRA_INDEX_URL, pip takes its CPU build of the same version, and the image is smaller by CUDA.
FROM python:3.11-slim

RUN apt-get update \
    && apt-get install --yes --no-install-recommends git make \
    && rm -rf /var/lib/apt/lists/*

WORKDIR /app
ARG PIP_EXTRA_INDEX_URL
ENV PIP_NO_CACHE_DIR=1 PATH=/app/.venv/bin:$PATH
COPY Makefile requirements.lock ./
RUN make setup

COPY . .
RUN touch .venv/.ready
CMD ["make", "demo"]

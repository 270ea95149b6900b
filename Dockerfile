# One image for the api and the worker. CPU; the lock is the one that `make run` installs, with what it leaves optional.
# `docker build --target cluster .` makes the image of a cluster's nodes, which has Ray too; `--target gpu` one for
# NVIDIA GPUs, which has detectron2 and what Triton compiles its kernels with.
#
# What changes seldom comes first and in layers of its own: another version of Regard on the same locks is built in a
# minute, and shares the gigabytes of its packages with the one before.
FROM python:3.11-slim@sha256:9c900dea9e8fb7e16277c179b555cc72d29a352dbc33cff48ad5a0412fd5bfc7 AS base

# uv itself is taken from the development lock, so that it is pinned and hashed like the rest.
FROM base AS uv
COPY requirements-dev.lock /
RUN sed -n '/^uv==/,/[^\\]$/p' /requirements-dev.lock > /uv.lock

FROM base AS packages
ENV UV_COMPILE_BYTECODE=1 UV_LINK_MODE=copy UV_NO_CACHE=1 UV_HTTP_TIMEOUT=300
WORKDIR /build
COPY --from=uv /uv.lock ./
COPY requirements.lock requirements-image.lock ./
RUN pip install --no-cache-dir --require-hashes --requirement uv.lock \
    && python -m venv /opt/regard \
    && uv pip sync --require-hashes --python /opt/regard/bin/python requirements.lock requirements-image.lock

# The kernels in C are built here for every level of this processor's kind; the compiler stays in this stage.
FROM packages AS build
COPY requirements-compiler.lock ./
RUN uv pip install --require-hashes --target /build/compiler --python /opt/regard/bin/python --requirement requirements-compiler.lock
COPY models models
RUN PYTHONPATH=/build/compiler /opt/regard/bin/python -m models.kernels.build
COPY pyproject.toml README.md LICENSE NOTICE ./
COPY index index
COPY service service
COPY clients clients
# Weights fresh from a training may be readable by their maker alone.
RUN chmod -R a+rX models index service clients \
    && uv pip install --no-deps --no-build-isolation --python /opt/regard/bin/python --prefix /build/regard .

FROM packages AS packages-cluster
COPY requirements-cluster.lock ./
RUN uv pip install --require-hashes --python /opt/regard/bin/python \
    --requirement requirements.lock --requirement requirements-cluster.lock

# The compiler of CUDA, of the version that the locked PyTorch is built for.
FROM nvidia/cuda:13.0.1-devel-ubuntu24.04@sha256:7d2f6a8c2071d911524f95061a0db363e24d27aa51ec831fcccf9e76eb72bc92 AS cuda

# Detectron2 is published as source alone. It is built against the locked PyTorch, and what it brings along may change
# no locked version: its `model_zoo`, which Regard does not use, lacks an older setuptools. Turing and newer.
FROM packages AS packages-gpu
COPY --from=cuda /usr/local/cuda /usr/local/cuda
ARG DETECTRON2=02b5c4e295e990042a714712c21dc79b731e8833
ENV CUDA_HOME=/usr/local/cuda FORCE_CUDA=1 TORCH_CUDA_ARCH_LIST="7.5;8.0;8.6;8.9;9.0;12.0+PTX" MAX_JOBS=4
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends g++ git \
    && rm -rf /var/lib/apt/lists/* \
    && uv pip install --python /opt/regard/bin/python --constraint requirements.lock setuptools wheel ninja \
    && PATH=/opt/regard/bin:/usr/local/cuda/bin:$PATH uv pip install --no-build-isolation --python /opt/regard/bin/python \
      --constraint requirements.lock --constraint requirements-image.lock "detectron2 @ git+https://github.com/facebookresearch/detectron2@$DETECTRON2"

FROM base AS runtime
RUN groupadd --system --gid 999 regard \
    && useradd --system --uid 999 --gid regard --no-create-home --home-dir /data regard \
    && install --directory --owner=regard --group=regard /data
ENV PATH=/opt/regard/bin:$PATH PYTHONUNBUFFERED=1 OMP_WAIT_POLICY=passive REGARD_HOST=0.0.0.0 REGARD_PORT=8000 REGARD_DATA_DIR=/data
USER 999:999
VOLUME /data
EXPOSE 8000

# A node: the head with the command below, the others with `ray start --block --address=HEAD:6379`. Each reads the token
# that lets it in from /data/.ray/auth_token, and a label gives it a name that it keeps (docs/cluster.md).
FROM runtime AS cluster
COPY --from=packages-cluster /opt/regard /opt/regard
COPY --from=build /build/regard /opt/regard
ENV RAY_AUTH_MODE=token RAY_USAGE_STATS_ENABLED=0 RAY_COLOR_PREFIX=0 RAY_DEDUP_LOGS=0 RAY_worker_niceness=0 RAY_task_events_report_interval_ms=0 \
    RAY_SERVE_ENABLE_HA_PROXY=1 RAY_SERVE_DIRECT_INGRESS_MIN_DRAINING_PERIOD_S=2 RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S=60
CMD ["ray", "start", "--head", "--block", "--port=6379", "--disable-usage-stats", "--include-dashboard=false"]

# Triton compiles a small program in C for each kernel when it is first run, and loads what it keeps in its folder.
FROM runtime AS gpu
USER 0:0
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends gcc libc6-dev \
    && rm -rf /var/lib/apt/lists/*
USER 999:999
COPY --from=packages-gpu /opt/regard /opt/regard
COPY --from=build /build/regard /opt/regard
ENV REGARD_DEVICE=cuda TRITON_CACHE_DIR=/tmp/triton
HEALTHCHECK --interval=10s --timeout=6s --start-period=120s --retries=3 \
    CMD ["python", "-c", "import http.client, os; asked = http.client.HTTPConnection('127.0.0.1', int(os.environ['REGARD_PORT']), timeout=5); asked.request('GET', '/readyz'); raise SystemExit(asked.getresponse().status != 200)"]
CMD ["regard", "serve", "--role", "api"]

# The last stage is what is built where no target is named.
FROM runtime
COPY --from=packages /opt/regard /opt/regard
COPY --from=build /build/regard /opt/regard
# Ready means: a forward pass went through, the view is open and a worker was heard from lately.
HEALTHCHECK --interval=10s --timeout=6s --start-period=60s --retries=3 \
    CMD ["python", "-c", "import http.client, os; asked = http.client.HTTPConnection('127.0.0.1', int(os.environ['REGARD_PORT']), timeout=5); asked.request('GET', '/readyz'); raise SystemExit(asked.getresponse().status != 200)"]
CMD ["regard", "serve", "--role", "api"]

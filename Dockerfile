# The bridge as an image. Build:  docker build -t osmosis-bridge .
# Run:  docker run -p 8400:8400 -e OSMOSIS_BRIDGE_TOKEN -e OPENAI_API_KEY osmosis-bridge --model openai/MODEL
# It listens on every address of its container, and so does not start without OSMOSIS_BRIDGE_TOKEN.

FROM python:3.12-slim AS build
RUN pip install --no-cache-dir --root-user-action ignore uv==0.13.9
ENV UV_PYTHON_DOWNLOADS=never \
    UV_LINK_MODE=copy \
    UV_COMPILE_BYTECODE=1 \
    UV_PROJECT_ENVIRONMENT=/opt/osmosis
# Extras of pyproject.toml, each with its option: --build-arg EXTRAS="--extra native"
ARG EXTRAS=""
WORKDIR /src
# Dependencies first: they change less often than the code, and so stay in a layer of their own.
COPY pyproject.toml uv.lock ./
RUN uv sync --locked --no-dev --no-install-project $EXTRAS
COPY README.md LICENSE ./
COPY bridge ./bridge
COPY runner ./runner
COPY cli ./cli
RUN uv sync --locked --no-dev --no-editable $EXTRAS

FROM python:3.12-slim
RUN useradd --system --uid 10001 --home-dir /var/lib/osmosis --create-home --shell /usr/sbin/nologin osmosis
COPY --from=build /opt/osmosis /opt/osmosis
ENV PATH=/opt/osmosis/bin:$PATH \
    PYTHONUNBUFFERED=1
# Where a ledger may be written: mount a volume here and pass --ledger /var/lib/osmosis/calls.jsonl
WORKDIR /var/lib/osmosis
USER osmosis
EXPOSE 8400
HEALTHCHECK --interval=10s --timeout=3s --start-period=10s --retries=3 \
    CMD ["python", "-c", "import http.client as http; c = http.HTTPConnection('127.0.0.1', 8400, timeout=2); c.request('GET', '/health'); raise SystemExit(c.getresponse().status != 200)"]
ENTRYPOINT ["osmosis", "bridge", "serve", "--host", "0.0.0.0", "--port", "8400"]

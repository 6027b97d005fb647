#!/usr/bin/env python3
"""A collector that reads with OpenTelemetry's own definitions takes estop's spans: every field is known to them, none is misspelt, and
names are those of the conventions for generative AI (OB-2).

Usage: tests/spans/run.py [--binaries FOLDER]   (needs `cargo build -p estop -p estop-fake-model`)

The definitions are installed once, in the version of requirements.txt, into ESTOP_TOOLS_CACHE (default ~/.cache/estop-tools). Where
they cannot be got, the test is skipped and says so.
"""

import argparse
import base64
import contextlib
import http.server
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(ROOT / "tests"))
import tools  # noqa: E402
PATIENCE_S = 60
TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
CONFIG = """
listen: {{data: 127.0.0.1:0, admin: 127.0.0.1:0}}
data_dir: data
providers: {{openai: {{base_url: "{model}"}}}}
opentelemetry: {{endpoint: "http://127.0.0.1:{collector}"}}
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binaries", type=pathlib.Path, default=ROOT / "target" / "debug")
    binaries = parser.parse_args().binaries.resolve()
    try:
        import google.protobuf  # noqa: F401
        import opentelemetry.proto  # noqa: F401
    except ImportError:
        installed = tools.python("spans", HERE / "requirements.txt", "OpenTelemetry's definitions")
        if installed is None or os.environ.get("ESTOP_SPANS_INSIDE"):
            print("skipped: OpenTelemetry's definitions cannot be installed here (no network?)")
            return
        os.execve(installed / "python", [installed / "python", *sys.argv], dict(os.environ, ESTOP_SPANS_INSIDE="1"))
    with tempfile.TemporaryDirectory(prefix="estop-spans-") as folder, contextlib.ExitStack() as at_end:
        play(binaries, pathlib.Path(folder), at_end)
    print("spans: fine")


def play(binaries, folder, at_end):
    posts = []
    collector = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler(posts))
    threading.Thread(target=collector.serve_forever, daemon=True).start()
    at_end.callback(collector.shutdown)
    model = start([binaries / "estop-fake-model", "--listen", "127.0.0.1:0"], folder, "model.log", at_end)
    model_url = said(folder / "model.log", r"(http://\S+)", model)
    (folder / "estop.yaml").write_text(CONFIG.format(model=model_url, collector=collector.server_port))
    estop = start([binaries / "estop", "serve", "--config", "estop.yaml"], folder, "estop.log", at_end)
    data = said(folder / "estop.log", r'"listening","data":"([^"]+)"', estop)
    ask(data, "openai/v1/chat/completions", {"messages": [{"role": "user", "content": "A secret prompt."}]}, traceparent=f"00-{TRACE}-{PARENT}-01")
    ask(data, "openai/v1/embeddings", {"input": "A secret text."})
    ask(data, "openai/v1/responses", {"input": "A secret prompt.", "model": "gpt-4o-mini"})
    ask(data, "nobody/v1/chat/completions", {"messages": []})
    # What waits is sent at the end.
    os.killpg(estop.pid, signal.SIGTERM)
    estop.wait(PATIENCE_S)

    requests = [decoded(body) for body in posts]
    expect(requests, "spans came")
    (resource,) = {str(found.resource) for request in requests for found in request.resource_spans}
    expect("service.name" in resource and '"estop"' in resource, f"the resource is named: {resource}")
    spans = [span for request in requests for found in request.resource_spans for scope in found.scope_spans for span in scope.spans]
    expect(len(spans) == 3, f"a span for each request that reached its provider: {spans}")
    chat, embeddings, responses = (attributes(span) for span in spans)
    first = spans[0]
    expect(first.trace_id.hex() == TRACE and first.parent_span_id.hex() == PARENT, "it is in its client's trace")
    expect(first.SpanKind.Name(first.kind) == "SPAN_KIND_CLIENT", "a model is called")
    expect(0 < first.start_time_unix_nano <= first.end_time_unix_nano < time.time_ns() + 1e9, "its times")
    expect(abs(first.end_time_unix_nano - time.time_ns()) < PATIENCE_S * 1e9, "it ended just now")
    for span in spans:
        expect(len(span.trace_id) == 16 and len(span.span_id) == 8, "ids have their lengths")
    expect(len({span.span_id for span in spans}) == 3, "each has an id of its own")
    for found, operation in ((chat, "chat"), (embeddings, "embeddings"), (responses, "chat")):
        expect(found["gen_ai.operation.name"] == operation and found["gen_ai.provider.name"] == "openai", f"{found}")
        expect(found["gen_ai.agent.name"] == "coder" and found["gen_ai.request.model"] == "gpt-4o-mini", f"{found}")
        expect(isinstance(found["gen_ai.usage.input_tokens"], int) and isinstance(found["estop.cost_usd"], float), f"{found}")
    expect(chat["gen_ai.usage.output_tokens"] > 0, f"tokens are counted: {chat}")
    expect(b"secret" not in b"".join(posts), "no prompt is in a span")


def decoded(body):
    """Read strictly: an unknown field is a mistake. OTLP writes ids in hex where protobuf's JSON has base64."""
    from google.protobuf import json_format
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    message = json.loads(body)
    for found in message["resourceSpans"]:
        for span in (span for scope in found["scopeSpans"] for span in scope["spans"]):
            for key in {"traceId", "spanId", "parentSpanId"} & span.keys():
                span[key] = base64.b64encode(bytes.fromhex(span[key])).decode()
    return json_format.ParseDict(message, ExportTraceServiceRequest())


def attributes(span):
    return {found.key: getattr(found.value, found.value.WhichOneof("value")) for found in span.attributes}


def handler(posts):
    class Collector(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["content-length"]))
            is_otlp = self.path == "/v1/traces" and self.headers["content-type"] == "application/json"
            posts.append(body)
            self.send_response(200 if is_otlp else 400)
            self.send_header("content-length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *_):
            pass

    return Collector


def start(line, folder, log, at_end):
    with (folder / log).open("wb") as out:
        program = subprocess.Popen([str(part) for part in line], cwd=folder, stdout=out, stderr=out, start_new_session=True)

    def end():
        with contextlib.suppress(ProcessLookupError):
            os.killpg(program.pid, signal.SIGKILL)
        program.wait()

    at_end.callback(end)
    return program


def said(log, pattern, program):
    deadline = time.monotonic() + PATIENCE_S
    while not (found := re.search(pattern, log.read_text())):
        expect(program.poll() is None and time.monotonic() < deadline, f"{log.name} does not say {pattern}:\n{log.read_text()[-2000:]}")
        time.sleep(0.1)
    return found.group(1)


def ask(data, path, body, **headers):
    url = f"http://{data}/agents/coder/{path}"
    body = json.dumps({"model": "gpt-4o-mini", **body}).encode()
    with contextlib.suppress(urllib.error.HTTPError):
        urllib.request.urlopen(urllib.request.Request(url, body, {"content-type": "application/json", **headers}), timeout=10).read()


def expect(is_so, what):
    if not is_so:
        sys.exit(f"spans: {what}")


if __name__ == "__main__":
    main()

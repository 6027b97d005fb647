#!/usr/bin/env python3
"""A real Prometheus scrapes estop: what happened is counted, the rules fire, and the dashboard's queries have data (OB-2).

Usage: tests/metrics/run.py [--binaries FOLDER]   (needs Debian's prometheus, and `cargo build -p estop -p estop-fake-model`)
"""

import argparse
import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
RULES = ROOT / "packaging" / "prometheus" / "estop.rules.yml"
DASHBOARD = ROOT / "packaging" / "grafana" / "estop.json"
PATIENCE_S = 60
# `for` of the rules, and ranges of the dashboard, shortened so that one test sees them end.
SHORTENED = [(r"\bfor: \w+", "for: 0s"), (r"\[\d+[mhd]\]", "[30s]"), (r"offset \d+[mhd]", "offset 30s")]

ESTOP = """
listen: {{data: 127.0.0.1:0, admin: "127.0.0.1:{admin}"}}
data_dir: data
policy: {{kill_switch_enabled: true}}
providers:
  openai: {{base_url: "{model}"}}
"""
PROMETHEUS = """
global: {{scrape_interval: 1s, evaluation_interval: 1s}}
rule_files: [rules.yml]
scrape_configs:
  - job_name: estop
    authorization: {{credentials_file: data/admin-token}}
    static_configs: [{{targets: ["127.0.0.1:{admin}"]}}]
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binaries", type=pathlib.Path, default=ROOT / "target" / "debug")
    binaries = parser.parse_args().binaries.resolve()
    for tool in ("prometheus", "promtool"):
        if not shutil.which(tool):
            sys.exit(f"{tool} is missing: apt-get install --yes --no-install-recommends prometheus")
    folder = pathlib.Path(tempfile.mkdtemp(prefix="estop-metrics-"))
    try:
        with contextlib.ExitStack() as at_end:
            play(binaries, folder, at_end)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print("metrics: fine")


def play(binaries, folder, at_end):
    subprocess.run(["promtool", "check", "rules", str(RULES)], check=True, stdout=subprocess.DEVNULL)
    admin, scraper = free_port(), free_port()
    model = start([binaries / "estop-fake-model", "--listen", "127.0.0.1:0"], folder, "model.log", at_end)
    model_url = said(folder / "model.log", r"(http://\S+)", model)
    (folder / "estop.yaml").write_text(ESTOP.format(admin=admin, model=model_url))
    estop = start([binaries / "estop", "serve", "--config", "estop.yaml"], folder, "estop.log", at_end)
    data = said(folder / "estop.log", r'"listening","data":"([^"]+)"', estop)
    for name in ("healthy", "looping"):
        ask(data, name, "Say hello.")
    for _ in range(14):
        ask(data, "looping", "Say hello.")
    token = (folder / "data" / "admin-token").read_text().strip()
    checked_by_promtool(admin, token)

    (folder / "rules.yml").write_text(shorten(RULES.read_text()))
    (folder / "prometheus.yml").write_text(PROMETHEUS.format(admin=admin))
    line = ["prometheus", "--config.file=prometheus.yml", "--storage.tsdb.path=series", f"--web.listen-address=127.0.0.1:{scraper}"]
    start(line, folder, "prometheus.log", at_end)
    query = lambda text: look(scraper, "query", query=text)["result"]

    wait("Prometheus scrapes estop", lambda: query('up{job="estop"} == 1'))
    answered = query('estop_requests_total{agent="healthy",outcome="answered"}')
    expect(answered and answered[0]["value"][1] == "1", f"one answered request: {answered}")
    stops = query("estop_agent_stops_total")
    labels = [(row["metric"]["agent"], row["metric"]["guard"]) for row in stops]
    expect(labels == [("looping", "loop")], f"the loop guard stopped one agent: {labels}")

    # Increases are seen between two scrapes: more of the same, then one more agent that loops.
    for number in range(14):
        ask(data, "another", "Say hello.")
        ask(data, "healthy", f"Say {number} again, {'please ' * number}")
    firing = lambda: {row["metric"]["alertname"] for row in query('ALERTS{alertstate="firing"}')}
    stopped = lambda: {row["metric"].get("agent") for row in query('ALERTS{alertstate="firing",alertname="EstopAgentStopped"}')}
    wait("the rule of a stopped agent fires at its first stop", lambda: "another" in stopped())
    press(admin, token)
    wait("the rule of the emergency stop fires", lambda: "EstopPressed" in firing())
    expect(not {"EstopDown", "EstopJournalFailed", "EstopPartStuck"} & firing(), f"nothing else is wrong: {firing()}")

    dashboard = json.loads(DASHBOARD.read_text())
    for panel in dashboard["panels"]:
        for target in panel["targets"]:
            text = shorten(target["expr"])
            # Nothing is watched only here; an empty answer is right.
            if "watched" in text:
                query(text)
                continue
            wait(f"data for the panel {panel['title']!r}", lambda text=text: query(text))

    os.killpg(estop.pid, signal.SIGTERM)
    wait("the rule of an estop that is gone fires", lambda: "EstopDown" in firing())


def checked_by_promtool(admin, token):
    """promtool reads the older text format: without the end mark of OpenMetrics."""
    request = urllib.request.Request(f"http://127.0.0.1:{admin}/metrics", headers={"authorization": f"Bearer {token}"})
    with urllib.request.urlopen(request, timeout=10) as answer:
        kind, text = answer.headers["content-type"], answer.read().decode()
    expect(kind.startswith("application/openmetrics-text"), f"its type is {kind}")
    expect(text.endswith("# EOF\n"), "it is whole")
    with contextlib.suppress(urllib.error.HTTPError):
        urllib.request.urlopen(f"http://127.0.0.1:{admin}/metrics", timeout=10)
        sys.exit("metrics: it answers without a token")


def shorten(text):
    for pattern, instead in SHORTENED:
        text = re.sub(pattern, instead, text)
    return text


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
    def look_once():
        expect(program.poll() is None, f"it ended:\n{log.read_text()[-2000:]}")
        return re.search(pattern, log.read_text())

    return wait(f"{log.name} says {pattern}", look_once).group(1)


def ask(data, agent, text):
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": text}]}).encode()
    url = f"http://{data}/agents/{agent}/openai/v1/chat/completions"
    with contextlib.suppress(urllib.error.HTTPError):
        urllib.request.urlopen(urllib.request.Request(url, body, {"content-type": "application/json"}), timeout=10).read()


def press(admin, token):
    headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}
    request = urllib.request.Request(f"http://127.0.0.1:{admin}/api/emergency/kill", b"{}", headers)
    urllib.request.urlopen(request, timeout=10).read()


def look(scraper, what, **asked):
    url = f"http://127.0.0.1:{scraper}/api/v1/{what}?{urllib.parse.urlencode(asked)}"
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return json.load(answer)["data"]
    except urllib.error.HTTPError as error:
        sys.exit(f"metrics: Prometheus refuses {asked}: {error.read().decode()}")
    except OSError:
        return {"result": []}


def wait(what, is_so):
    deadline = time.monotonic() + PATIENCE_S
    while not (found := is_so()):
        expect(time.monotonic() < deadline, f"in {PATIENCE_S} s not: {what}")
        time.sleep(0.2)
    return found


def expect(is_so, what):
    if not is_so:
        sys.exit(f"metrics: {what}")


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


if __name__ == "__main__":
    main()

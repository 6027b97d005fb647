#!/usr/bin/env python3
"""What an editor makes of the configuration's schema (OB-3): the YAML language server completes, explains and marks mistakes.

Usage: tests/editor/run.py [--binaries FOLDER]   (needs `cargo build -p estop`; installs yaml-language-server from npm)
What cannot be installed (no network?) is skipped and said.
"""

import argparse
import json
import os
import pathlib
import queue
import re
import subprocess
import sys
import tempfile
import threading

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests" / "clients"))
import install  # noqa: E402

PATIENCE_S = 60
MODELINE = "# yaml-language-server: $schema=estop.schema.json"


class Editor:
    """A client of the language server, over its standard streams."""

    def __init__(self, node, server, folder):
        self.folder = folder
        self.process = subprocess.Popen(
            [node, server, "--stdio"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        self.messages = queue.Queue()
        self.number = 0
        self.marked = {}
        threading.Thread(target=self.read, daemon=True).start()
        self.ask("initialize", {"processId": os.getpid(), "rootUri": folder.as_uri(), "capabilities": {}})
        self.send({"method": "initialized", "params": {}})

    def send(self, message):
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        self.process.stdin.flush()

    def read(self):
        while head := self.process.stdout.readline():
            length = 0
            while head.strip():
                if head.lower().startswith(b"content-length:"):
                    length = int(head.split(b":")[1])
                head = self.process.stdout.readline()
            self.messages.put(json.loads(self.process.stdout.read(length)))
        self.messages.put(None)

    def next(self):
        """The next message; questions of the server are answered with nothing."""
        message = self.messages.get(timeout=PATIENCE_S)
        if message is None:
            sys.exit("the language server ended")
        if "id" in message and "method" in message:
            items = message.get("params", {}).get("items")
            self.send({"id": message["id"], "result": [{} for _ in items] if items else None})
        if message.get("method") == "textDocument/publishDiagnostics":
            self.marked[message["params"]["uri"]] = message["params"]["diagnostics"]
        return message

    def ask(self, method, params):
        self.number += 1
        self.send({"id": self.number, "method": method, "params": params})
        while True:
            message = self.next()
            if message.get("id") == self.number and "method" not in message:
                if "error" in message:
                    sys.exit(f"{method}: {message['error']}")
                return message["result"]

    def open(self, name, text):
        """What is marked in a file, as messages."""
        uri = (self.folder / name).as_uri()
        document = {"uri": uri, "languageId": "yaml", "version": 1, "text": text}
        self.send({"method": "textDocument/didOpen", "params": {"textDocument": document}})
        while uri not in self.marked:
            self.next()
        return uri, [found["message"] for found in self.marked[uri]]

    def at(self, method, uri, line, character):
        return self.ask(method, {"textDocument": {"uri": uri}, "position": {"line": line, "character": character}})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binaries", type=pathlib.Path, default=ROOT / "target" / "debug")
    estop = parser.parse_args().binaries.resolve() / "estop"
    base = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
    cache = pathlib.Path(os.environ.get("ESTOP_CLIENTS_CACHE") or base / "estop-clients")
    try:
        installed = install.install(["yaml"], cache)
    except SystemExit as error:
        print(error)
        print("editor: skipped, yaml-language-server cannot be installed here (no network?)")
        return
    server = installed.folder("yaml") / "node_modules" / "yaml-language-server" / "bin" / "yaml-language-server"
    with tempfile.TemporaryDirectory(prefix="estop-editor-") as folder:
        folder = pathlib.Path(folder).resolve()
        schema = subprocess.run([estop, "config", "schema"], capture_output=True, check=True).stdout
        (folder / "estop.schema.json").write_bytes(schema)
        editor = Editor(installed.node, server, folder)
        try:
            samples_are_clean(editor)
            mistakes_are_marked(editor)
            keys_are_completed(editor)
            keys_are_explained(editor)
        finally:
            editor.process.kill()
    print("editor: fine")


def samples_are_clean(editor):
    sample = (ROOT / "samples" / "estop.yaml").read_text()
    if MODELINE not in sample:
        sys.exit(f"samples/estop.yaml does not name its schema: {MODELINE}")
    # Its examples too: a line that begins with `#:` is one.
    files = {"sample.yaml": sample, "examples.yaml": re.sub(r"(?m)^#: ?", "", sample)}
    for path in sorted((ROOT / "samples" / "policies").glob("*.yaml")):
        files[path.name] = f"{MODELINE}\n{path.read_text()}"
    for name, text in files.items():
        _, marked = editor.open(name, text)
        if marked:
            sys.exit(f"{name}: the editor marks what estop takes: {marked}")
    print(f"{len(files)} files without a mark")


def mistakes_are_marked(editor):
    for number, (line, expected) in enumerate([
        ("polcy: {}", "polcy"),
        ("policy: {kill_switch_enabled: maybe}", "boolean"),
        ("policy: {kill_switch_threshold: 51}", "50"),
        ("limits: {body_bytes: 16MB}", "KiB|MiB|GiB"),
        ("agents: {coder: {policy: {budget: {usd_per_day: many}}}}", "number"),
        ("alerts: {channels: {ops: {url: https://example.com}}}", "type"),
        ("providers: {x: {auth: basic}}", "bearer"),
        ("retention: {journal_days: never}", "off"),
    ]):
        _, marked = editor.open(f"mistake{number}.yaml", f"{MODELINE}\n{line}\n")
        if not any(expected in message for message in marked):
            sys.exit(f"{line}: {marked}, where `{expected}` was expected")
    print("8 mistakes marked")


def keys_are_completed(editor):
    for name, text, line, expected in [
        ("top.yaml", f"{MODELINE}\n\n", 1, {"policy", "providers", "agents", "alerts", "limits"}),
        ("policy.yaml", f"{MODELINE}\npolicy:\n  \n", 2, {"kill_switch_enabled", "budget", "evidence"}),
        ("agent.yaml", f"{MODELINE}\nagents:\n  coder:\n    policy:\n      budget:\n        \n", 5, {"usd_per_day", "unpriced"}),
    ]:
        uri, _ = editor.open(name, text)
        found = editor.at("textDocument/completion", uri, line, len(text.split("\n")[line]))
        labels = {item["label"] for item in found["items"]}
        if not expected <= labels:
            sys.exit(f"{name}: {sorted(expected - labels)} are not offered, but {sorted(labels)}")
    print("keys are completed in 3 places")


def keys_are_explained(editor):
    uri, _ = editor.open("hover.yaml", f"{MODELINE}\npolicy:\n  exempt_tools: [poll]\n")
    shown = json.dumps(editor.at("textDocument/hover", uri, 2, 5))
    if "repeat on purpose" not in shown:
        sys.exit(f"exempt_tools is not explained: {shown}")
    print("keys are explained")


main()

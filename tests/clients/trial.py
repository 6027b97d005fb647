"""One client's trial: a plain, a streamed and a tool-calling exchange, then the stop. Answers a Result."""

import dataclasses
import json
import os
import pathlib
import re
import shutil
import sys

from clients import Sdk
from process import run_bounded

DRIVERS = pathlib.Path(__file__).parent / "drivers"
PLAIN = "Say hello."
TOOL = "Use a tool, please."
HELLO = "Hello from the fake model"
# The fake model ends by quoting what its tool printed.
TOOL_OUTPUT = "tool said:.*estop-tool-ok"
# A client that ends its loop itself is started this often, at most, until it is stopped.
STARTS_MAX = 12
SENTENCE = re.compile(r'"(?:message|error)"\s*:\s*("(?:[^"\\]|\\.)*")')


@dataclasses.dataclass
class Result:
    """What a client did. An exchange is "ok", "-" (the client cannot) or what went wrong."""

    client: object
    plain: str = ""
    stream: str = ""
    tool: str = ""
    # The stop, as "400 kill_switch", or what went wrong.
    status: str = ""
    # How often the client was started until it was stopped.
    starts: int = 0
    # Requests that estop let through before it stopped the client.
    requests_before: int = 0
    # Requests sent after the first refusal was answered.
    requests_after: int = 0
    # The refusal of a streamed request; SDKs only.
    refused_stream: str = ""
    sentence: str = ""
    # What a library raised.
    raised: str = ""
    exit: int | None = None
    seconds: float = 0.0
    # Paths of its requests, without what names agent and provider.
    paths: list = dataclasses.field(default_factory=list)
    faults: list = dataclasses.field(default_factory=list)


class Trial:
    """Runs one client through the relay. Without estop, the relay stands before the fake model itself."""

    def __init__(self, client, installed, counter, model, estop, logs):
        self.client = client
        self.installed = installed
        self.counter = counter
        self.model = model
        self.estop = estop
        self.logs = logs
        self.is_sdk = isinstance(client, Sdk)
        self.result = Result(client)

    def run(self, with_stop):
        if self.is_sdk:
            self.exchange("plain", HELLO)
            self.exchange("stream", HELLO)
            self.exchange("tool", TOOL_OUTPUT)
        else:
            answers = self.exchange("plain", HELLO)
            streamed = any(e.content_type.startswith("text/event-stream") for e in answers)
            self.result.stream = "ok" if streamed else "-"
            if self.client.loops:
                self.exchange("tool", TOOL_OUTPUT)
            else:
                self.result.tool = "-"
        if with_stop:
            self.stop()
        return self.result

    def exchange(self, mode, expected):
        """One exchange in a mode; it is fine if the client ends well and shows the expected text."""
        ended = self.start(mode, agent=f"{self.client.name}-{mode}")
        exchanges = self.take(mode)
        if ended.exit is None:
            verdict = f"no end after {ended.seconds:.0f} s"
        elif not ended.ok or not re.search(expected, ended.text, re.DOTALL):
            verdict = f"exit {ended.exit}: {shorten(ended.error or ended.text)}"
        else:
            verdict = "ok"
        setattr(self.result, mode, verdict)
        if verdict != "ok":
            self.fault(f"{mode}: {verdict}")
        return exchanges

    def stop(self):
        """Lets the client loop until estop stops it, then looks at what the client did about it."""
        agent = f"{self.client.name}-stopped"
        self.model.reset()
        ended = self.start_until_stopped(agent)
        exchanges = [e for e in self.take("stopped") if e.method == "POST"]
        self.result.exit = ended.exit
        self.result.seconds = ended.seconds
        refusals = [e for e in exchanges if e.refused]
        if not refusals:
            self.result.status = "never"
            self.fault(f"not stopped in {len(exchanges)} requests: {shorten(ended.error or ended.text)}")
            return
        first = min(refusals, key=lambda e: e.answered_at)
        after = [e for e in exchanges if e.asked_at > first.answered_at]
        self.result.status = f"{first.status} {first.reason}"
        self.result.requests_before = len(exchanges) - len(refusals)
        self.result.requests_after = len(after)
        self.result.sentence = self.shown(first, ended)
        if self.is_sdk:
            self.result.raised = (ended.error or "").partition(":")[0]
        if self.result.requests_before > self.client.let_through_max:
            self.fault(f"{self.result.requests_before} requests of a loop were let through")
        if ended.exit is None:
            self.fault(f"did not end by itself in {ended.seconds:.0f} s after the stop")
        if len(after) > self.client.extra_requests:
            self.fault(f"{len(after)} requests after the first refusal")
        if self.result.sentence != "yes" and not self.client.hides_sentence:
            self.fault(f"the sentence was not shown: {shorten(ended.error or ended.text)}")
        self.check_estop(agent)
        if self.is_sdk:
            self.refuse_stream(agent)

    def refuse_stream(self, agent):
        """A streamed request of a stopped agent is refused once, too, in a form the client understands."""
        ended = self.start("refused", agent)
        exchanges = [e for e in self.take("refused") if e.method == "POST"]
        good = len(exchanges) == 1 and exchanges[0].refused and not ended.ok
        if good and self.shown(exchanges[0], ended) == "yes":
            self.result.refused_stream = "ok"
            return
        self.result.refused_stream = f"{exchanges}: {shorten(ended.error or ended.text)}"
        self.fault(f"streamed request of a stopped agent: {self.result.refused_stream}")

    def check_estop(self, agent):
        """estop must have noted that it stopped this agent, and why; what it refused never reached the model."""
        causes = self.estop.deactivations(agent)
        if causes != ["loop"]:
            self.fault(f"the journal's deactivations of its agent: {causes}")
        arrived = sum(request["method"] == "POST" for request in self.model.seen()["requests"])
        if arrived != self.result.requests_before:
            self.fault(f"{self.result.requests_before} requests were let through, but {arrived} reached the model")

    def start_until_stopped(self, agent):
        """Clients that have no loop, or end one of their own accord, are started again, as a person would."""
        for start in range(1, STARTS_MAX + 1):
            ended = self.start("stopped", agent)
            self.result.starts = start
            if ended.exit is None or any(e.refused for e in self.counter.exchanges):
                break
        return ended

    def start(self, mode, agent):
        """Starts the client once. Answers how it ended, with ok, text and error filled in."""
        base = self.base(agent)
        home, cwd = self.empty_folder("home"), self.empty_folder("work")
        env = self.environment(base, home)
        if self.is_sdk:
            ended = run_bounded(self.sdk_line(mode), env, cwd, self.client.timeout_s)
            read_driver(ended)
        else:
            for line in self.client.prepare(self.installed, base, home):
                run_bounded(line, env, cwd, self.client.timeout_s)
            prompt = {"tool": TOOL, "stopped": self.client.loop_prompt}.get(mode, PLAIN)
            line = self.client.launch(self.installed, base, prompt)
            ended = run_bounded(line, env, cwd, self.client.timeout_s)
            ended.ok, ended.text = ended.exit == 0, ended.output
        (self.logs / f"{self.client.name}-{mode}.log").write_text(
            f"exit {ended.exit}, {ended.seconds:.1f} s\n--- stdout\n{ended.stdout}\n--- stderr\n{ended.stderr}\n"
        )
        return ended

    def empty_folder(self, name):
        """The same path at every start, because coding agents tell the model where they are."""
        folder = self.logs / self.client.name / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        return folder

    def base(self, agent):
        root = f"http://127.0.0.1:{self.counter.port}"
        return f"{root}/agents/{agent}/{self.client.provider}" if self.estop else root

    def environment(self, base, home):
        """Nothing of the caller's environment reaches a client, its keys least of all."""
        node = [str(pathlib.Path(self.installed.node).parent)] if self.installed.node else []
        return {
            "PATH": ":".join([*node, os.environ["PATH"]]),
            "HOME": str(home),
            "LANG": "C.UTF-8",
            "TERM": "dumb",
            "NO_COLOR": "1",
            "DO_NOT_TRACK": "1",
            "PYTHONPYCACHEPREFIX": str(self.installed.cache / "pycache"),
            **self.client.variables(base),
        }

    def sdk_line(self, mode):
        script = DRIVERS / self.client.script
        if script.suffix == ".py":
            return [self.installed.python(self.client.env), script, mode]
        # Node looks for packages beside the program, so the drivers go to where the packages are.
        folder = self.installed.folder(self.client.env) / "drivers"
        folder.mkdir(exist_ok=True)
        for driver in DRIVERS.glob("*.mjs"):
            shutil.copy(driver, folder)
        return [self.installed.node, folder / self.client.script, mode]

    def take(self, mode):
        """The exchanges since the last call, after a look at whether they are what they should be."""
        exchanges = self.counter.take()
        stray = [e for e in exchanges if self.estop and not e.path.startswith(f"/agents/{self.client.name}-")]
        if stray:
            self.fault(f"requests that lost the path of the base URL: {stray}")
        failed = [e for e in exchanges if e.method == "POST" and not e.refused and e.status != 200]
        if failed:
            self.fault(f"{mode}: requests that failed: {failed}")
        for e in exchanges:
            path = re.sub(r"^/agents/[^/]+/[^/]+", "", e.path.partition("?")[0])
            if e.method == "POST" and path not in self.result.paths:
                self.result.paths.append(path)
        with (self.logs / f"{self.client.name}-{mode}.http").open("w") as log:
            for e in exchanges:
                log.write(f"{e}\n")
                if e.refused or e in failed:
                    log.write(f"{e.request_head}\n\n{e.answer_head}\n\n{e.answer_text}\n\n")
        return exchanges

    def shown(self, refusal, ended):
        """Whether the person at the client sees the refusal's sentence: yes, partly or no."""
        found = SENTENCE.search(refusal.answer_text)
        if not found:
            return "no sentence"
        wanted = squeeze(json.loads(found.group(1)))
        said = squeeze(ended.error or ended.text)
        if wanted in said:
            return "yes"
        return "partly" if wanted[:30] in said else "no"

    def fault(self, text):
        self.result.faults.append(text)
        print(f"    {self.client.name}: {text}", file=sys.stderr, flush=True)


def read_driver(ended):
    """A driver's verdict is its last line."""
    lines = ended.stdout.strip().splitlines()
    try:
        said = json.loads(lines[-1])
    except (IndexError, ValueError):
        said = {"ok": False, "text": None, "error": ended.output}
    ended.ok, ended.text, ended.error = said["ok"], said["text"] or "", said["error"]
    ended.exit = said.get("exit", ended.exit) if ended.exit is not None else None


def squeeze(text):
    """Without white space, colours and escapes of JSON, which clients add."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", text).replace("\\n", "").replace('\\"', '"')
    return re.sub(r"\s+", "", text)


def shorten(text):
    text = " ".join(text.split())
    return text if len(text) <= 300 else f"{text[:140]} … {text[-140:]}"

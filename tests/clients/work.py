"""Has coding agents do the work of tasks.py, records them as a user would (`estop record`) and writes labelled traces for `estop eval`.

The model says and runs what the task lists. Whether the work was done is checked at its end: a healthy task whose check fails, or a stuck one
whose check passes, is no trace of what its label says and is left out, with a message.
"""

import contextlib
import json
import signal
import subprocess
import time

from process import kill_group, run_bounded
from tasks import TASKS
from trial import Trial

# A model takes a moment to answer.
ANSWER_MS = 300
# Requests for a name of the session declare no tools.
WITH_TOOLS = '"tools":[{'
PATIENCE_S = 20
# Whose instructions a client sends is its vendor's business; where it ran is nobody's.
INSTRUCTIONS = "(the client's instructions)"
FOLDER = "/home/dev/shop"


def record_all(chosen, installed, counter, model, estop, folder, out, names):
    """Runs each task with each client. Answers the names of those that were left out."""
    left_out = []
    with out.open("w") as file:
        for client in chosen:
            for task in TASKS:
                if names and task.name not in names:
                    continue
                name = f"{client.name}: {task.name}"
                started = time.monotonic()
                traces, problem = Work(client, installed, counter, model, estop, folder, task).run()
                print(f"{name}: {problem or 'recorded'}, {time.monotonic() - started:.0f} s", flush=True)
                if problem:
                    left_out.append(name)
                else:
                    file.writelines(json.dumps(trace, ensure_ascii=False) + "\n" for trace in traces)
    return left_out


class Work(Trial):
    """One task, done by one client."""

    def __init__(self, client, installed, counter, model, estop, logs, task):
        super().__init__(client, installed, counter, model, estop, logs)
        self.task = task
        self.agent = f"{client.name}-{task.name.replace(' ', '-')}"

    def run(self):
        home, cwd = self.empty_folder("home"), self.empty_folder("work")
        subprocess.run(["bash", "-c", self.task.setup], cwd=cwd, check=True, capture_output=True)
        self.teach()
        env = self.environment(self.base(self.agent), home)
        env["PYTHONDONTWRITEBYTECODE"] = "1"
        for line in self.client.prepare(self.installed, self.base(self.agent), home):
            run_bounded(line, env, cwd, self.client.timeout_s)
        out = self.logs / f"{self.agent}.jsonl"
        out.unlink(missing_ok=True)
        with self.recorder(out):
            line = self.client.launch(self.installed, self.base(self.agent), self.task.prompt)
            ended = run_bounded(line, env, cwd, self.client.timeout_s)
            self.counter.take()
            # The recording has what was answered once the daemon has settled it.
            time.sleep(1)
        (self.logs / f"{self.agent}.log").write_text(f"exit {ended.exit}\n{ended.stdout}\n{ended.stderr}\n")
        checked = subprocess.run(["bash", "-c", self.task.check], cwd=cwd, capture_output=True).returncode == 0
        if ended.exit is None:
            return [], "it did not end"
        if checked != (self.task.label == "healthy"):
            return [], f"the check at its end says that the work was {'' if checked else 'not '}done"
        return self.labelled(out)

    def teach(self):
        """The model says and runs the steps in turn, and after them only the end."""
        delay = {"headers_ms": ANSWER_MS}
        rules = [
            {"match": {"contains": WITH_TOOLS}, "times": 1, "reply": {"text": say or "", "shell": command, "delay": delay}}
            for say, command in self.task.steps
        ]
        rules.append({"reply": {"text": self.task.end, "delay": delay}})
        self.model.reset()
        self.model.teach(rules)

    @contextlib.contextmanager
    def recorder(self, out):
        line = [str(self.estop.binary), "record", "--agent", self.agent, "--out", str(out), "--data-dir", str(self.estop.data)]
        program = subprocess.Popen(line, stderr=subprocess.PIPE, start_new_session=True)
        try:
            # It names the file once it records.
            program.stderr.readline()
            yield
            program.send_signal(signal.SIGINT)
            program.wait(PATIENCE_S)
        finally:
            kill_group(program)
            program.stderr.close()

    def labelled(self, out):
        traces = [json.loads(line) for line in out.read_text().splitlines()]
        steps = [sum(message["role"] == "assistant" for message in trace["messages"]) for trace in traces]
        if not traces or max(steps) < len(self.task.steps):
            return [], f"recorded are {steps} steps of {len(self.task.steps)}"
        # Others are conversations about a name for it.
        trace = traces[steps.index(max(steps))]
        trace["id"] = f"agent:{self.client.name}:{self.task.name}".replace(" ", "-")
        trace["label"] = self.task.label
        trace["meta"] |= {"pattern": self.task.name, "family": "agents"}
        if self.task.label == "loop":
            trace["meta"]["repetition"] = {"kind": "agent", "start": self.task.start}
        for message in trace["messages"]:
            if message["role"] in ("system", "developer"):
                message["content"] = INSTRUCTIONS
        return [json.loads(json.dumps(trace).replace(str(self.logs / self.client.name / "work"), FOLDER))], None

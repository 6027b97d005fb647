"""The client against a real estop, which tests/packages/run.py starts. It denies the fifth tool call of a run."""

import contextlib
import hashlib
import json
import os
import socket
import threading
import unittest
import uuid
from unittest import mock

from estop_client import Estop, Refused, RunEnded, ToolDenied

SOCKET = os.environ.get("ESTOP_TEST_SOCKET")
URL = os.environ.get("ESTOP_TEST_URL")
KEY = os.environ.get("ESTOP_TEST_KEY")
LIMIT = 5


@contextlib.contextmanager
def supervised(agent, run, ticket):
    """What `estop run` does: watches over a run, and tells its program where estop is."""
    digest = hashlib.sha256(ticket.encode()).hexdigest()
    body = {"agent": agent, "run": run, "kind": "program", "ticket_sha256": digest, "begin": True}
    with socket.socket(socket.AF_UNIX) as line:
        line.settimeout(60)
        line.connect(SOCKET)
        data = json.dumps(body).encode()
        head = "POST /api/runs/watch HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        line.sendall(f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data)
        answer = b""
        while b'"watching"' not in answer:
            part = line.recv(4096)
            assert part, answer
            answer += part
        yield {"ESTOP_SOCKET": SOCKET, "ESTOP_TICKET": ticket, "ESTOP_AGENT": agent, "ESTOP_RUN": run}


@unittest.skipUnless(SOCKET and URL and KEY, "no estop runs: see tests/packages/run.py")
class Daemon(unittest.TestCase):
    def setUp(self):
        self.estop = Estop(socket=SOCKET, agent="python")
        self.name = f"t-{uuid.uuid4().hex[:12]}"

    def test_cb_2_calls_are_counted_and_the_one_at_the_limit_does_not_run(self):
        ran = []
        with self.estop.run(self.name) as run:
            tool = run.guard(ran.append, name="note")
            with self.assertRaisesRegex(ToolDenied, rf"max tool calls.*{LIMIT}/{LIMIT}"):
                for n in range(100):
                    tool(n)
            self.assertEqual(ran, list(range(LIMIT - 1)))
            self.assertFalse(run.pre_tool_use("note", {}).allowed, "and it stays so")
            self.assertTrue(run.pre_tool_use("report_complete", {}).allowed, "wrapping up is allowed (CB-6)")

    def test_cb_2_a_warning_reaches_the_model(self):
        with self.estop.run(self.name) as run:
            said = [run.guard(lambda: "ok", name="note")() for _ in range(LIMIT - 1)]
        self.assertEqual(said[0], "ok")
        self.assertIn(f"max tool calls at {LIMIT - 1}/{LIMIT}", said[-1])

    def test_cb_4_failed_test_runs_are_iterations(self):
        run = Estop(socket=SOCKET, agent="python", run=self.name)
        run.start()
        for n in range(2):
            self.assertTrue(run.pre_tool_use("bash", {"command": "pytest"}, call=f"c{n}"))
            run.post_tool_use("bash", {"command": "pytest"}, "1 failed", exit_code=1, call=f"c{n}")
        shown = run.complete()
        self.assertEqual((shown["iterations"], shown["tool_calls"]), (2, 2))

    def test_cb_7_a_run_goes_through_its_states(self):
        run = Estop(socket=SOCKET, agent="python", run=self.name)
        self.assertEqual(run.start(issue="acme/app#7", labels={"team": "x"})["state"], "ACTIVE")
        with self.assertRaises(Refused) as caught:
            run.start()
        self.assertEqual(caught.exception.status, 409)
        self.assertEqual(run.sleep()["state"], "SLEEPING")
        self.assertEqual(run.wake()["state"], "ACTIVE")
        self.assertTrue(run.turn("hello"))
        self.assertTrue(run.turn_end("done"))
        self.assertEqual(run.wake()["state"], "ACTIVE", "the end of a turn had put it to sleep")
        shown = run.complete()
        self.assertEqual((shown["state"], shown["turns"], shown["issue"]), ("COMPLETED", 1, "acme/app#7"))
        with self.assertRaises(RunEnded):
            run.pre_tool_use("bash", {}).raise_if_denied()
        self.assertEqual(run.activate()["state"], "ACTIVE")
        run.complete()

    def test_an_agent_that_is_new_can_begin(self):
        with Estop(socket=SOCKET, agent=f"new-{self.name}").run("first") as run:
            self.assertTrue(run.pre_tool_use("bash", {}))

    def test_cb_1_limits_of_one_run_alone_also_of_a_new_agent(self):
        about = {"issue": "acme/app#9", "limits": {"max_tool_calls": 2}}
        with Estop(socket=SOCKET, agent=f"new-{self.name}").run("first", **about) as run:
            self.assertTrue(run.pre_tool_use("t", {}))
            self.assertIn("2/2", run.pre_tool_use("t", {}).reason)

    def test_id_2_a_key_acts_only_as_its_agent(self):
        with Estop(url=URL, key=KEY, agent="keyed").run(self.name, issue="acme/app#8") as run:
            self.assertTrue(run.pre_tool_use("bash", {}))
            run.sleep()
            run.wake()
        self.assertFalse(Estop(url=URL, key=KEY, agent="python", on_unreachable="allow").pre_tool_use("bash", {}))
        wrong = Estop(url=URL, key="estop-key-wrong", agent="keyed", on_unreachable="allow").pre_tool_use("bash", {})
        self.assertFalse(wrong)
        self.assertNotIn("estop-key-wrong", wrong.reason)

    def test_id_7_a_ticket_is_its_run_and_nothing_else(self):
        ticket = uuid.uuid4().hex * 2
        with supervised("python", self.name, ticket) as environment, mock.patch.dict(os.environ, environment):
            with Estop().run("another") as run:
                self.assertTrue(run.pre_tool_use("t", {}))
            self.assertTrue(Estop(agent="node", run="r").pre_tool_use("t", {}), "the ticket's run goes on")
            with self.assertRaises(Refused) as caught:
                Estop().complete()
            self.assertEqual(caught.exception.status, 403, "that is the supervisor's to say")
            with mock.patch.dict(os.environ):
                del os.environ["ESTOP_TICKET"]
                shown = Estop().complete()
            self.assertEqual((shown["id"], shown["tool_calls"]), (f"python:{self.name}", 2))
            with mock.patch.dict(os.environ, ESTOP_TICKET="0" * 64):
                verdict = Estop(on_unreachable="allow").pre_tool_use("t", {})
                self.assertFalse(verdict)
                self.assertNotIn("0" * 64, verdict.reason)

    def test_threads_at_once_are_all_counted(self):
        run = Estop(socket=SOCKET, agent="python", run=self.name)
        verdicts = []
        work = [threading.Thread(target=lambda: verdicts.append(run.pre_tool_use("t", {}))) for _ in range(24)]
        for thread in work:
            thread.start()
        for thread in work:
            thread.join()
        self.assertTrue(all(verdict.reached for verdict in verdicts), verdicts)
        self.assertEqual(sum(verdict.allowed for verdict in verdicts), LIMIT - 1)

    def test_names_that_are_none_are_denied_and_the_field_is_named(self):
        verdict = Estop(socket=SOCKET, agent="python", run="no/name", on_unreachable="allow").pre_tool_use("t", {})
        self.assertFalse(verdict)
        self.assertIn("run", verdict.reason)


if __name__ == "__main__":
    unittest.main()

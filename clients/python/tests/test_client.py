"""The client against an estop that says what it is told to."""

import asyncio
import contextlib
import json
import os
import socket
import tempfile
import threading
import time
import unittest
from unittest import mock

from estop_client import AsyncEstop, Estop, EstopError, Refused, RunEnded, ToolDenied, Unreachable

from fake_estop import ALLOW, FakeEstop, deny, on_port, on_socket

NOWHERE = "/nonexistent/estop.sock"
KEY = "estop-key-0123456789abcdef"
PROBLEM = {"type": "/api/docs#conflict", "status": 409, "code": "conflict", "detail": "It is escalated."}


def clean(**variables):
    """Only these variables, whatever the machine has."""
    return mock.patch.dict(os.environ, {"HOME": "/nonexistent", **variables}, clear=True)


class Asking(unittest.TestCase):
    def setUp(self):
        stack = contextlib.ExitStack()
        self.addCleanup(stack.close)
        stack.enter_context(clean())
        self.fake = FakeEstop()
        self.socket = stack.enter_context(on_socket(self.fake))
        self.estop = Estop(socket=self.socket, agent="a", run="r")

    def says(self, answer, status=200):
        self.fake.answer = lambda path, body: (status, answer)

    def test_tl_1_a_call_is_asked_in_the_generic_form(self):
        verdict = self.estop.pre_tool_use("bash", {"command": "ls"}, call="c1")
        self.assertTrue(verdict)
        self.assertTrue(verdict.reached)
        asked = {"tool": "bash", "args": {"command": "ls"}, "call": "c1", "agent": "a", "run": "r"}
        self.assertEqual(self.fake.bodies("/api/hooks/pre-tool-use"), [asked])

    def test_tl_1_a_result_is_told_with_its_exit_code(self):
        self.estop.post_tool_use("bash", {}, "3 failed", exit_code=1, call="c1")
        told = self.fake.bodies("/api/hooks/post-tool-use")[0]
        self.assertEqual((told["result"], told["exit_code"], told["call"]), ("3 failed", 1, "c1"))
        self.assertNotIn("failed", told)

    def test_cb_3_a_turn_and_its_end_are_told(self):
        self.says({**ALLOW, "context": "max turns at 40/50"})
        self.assertEqual(self.estop.turn("hello").context, "max turns at 40/50")
        self.estop.turn_end("done")
        self.assertEqual(self.fake.bodies("/api/hooks/prompt-submit")[0]["prompt"], "hello")
        self.assertEqual(self.fake.bodies("/api/hooks/turn-end")[0]["last_words"], "done")

    def test_a_denial_has_its_reason_and_can_be_raised(self):
        self.says(deny("max tool calls reached (5/5)"))
        verdict = self.estop.pre_tool_use("bash")
        self.assertFalse(verdict)
        with self.assertRaisesRegex(ToolDenied, r"5/5") as caught:
            verdict.raise_if_denied("bash")
        self.assertEqual(caught.exception.tool, "bash")
        self.says(deny("stopped", end=True))
        with self.assertRaises(RunEnded):
            self.estop.turn("hello").raise_if_denied()

    def test_only_a_clear_yes_is_a_yes(self):
        rubbish = [b"", b"[]", b"null", b"ok", {}, {"permission": "allow"}, {**ALLOW, "permission": "Allow"}]
        for said in rubbish:
            self.says(said)
            estop = Estop(socket=self.socket, on_unreachable="allow")
            self.assertFalse(estop.pre_tool_use("bash").allowed, said)

    def test_an_error_answer_denies_even_where_unreachable_allows(self):
        for status in (400, 401, 403, 404, 413, 429, 500, 503):
            self.says({"code": "forbidden", "detail": "Not with this token."}, status)
            verdict = Estop(socket=self.socket, on_unreachable="allow").pre_tool_use("bash")
            self.assertFalse(verdict.allowed)
            self.assertIn("Not with this token.", verdict.reason)

    def test_values_that_are_no_json_are_told_all_the_same(self):
        class Odd:
            pass

        odd = {"nan": float("nan"), "set": {2, 1}, "bytes": b"\xff", "odd": Odd(), 1: "\udc80", "big": "x" * 300_000}
        self.estop.pre_tool_use("t", odd)
        self.estop.pre_tool_use("t", {**odd, "odd": Odd()})
        first, second = self.fake.bodies("/api/hooks/pre-tool-use")
        self.assertEqual(first, second, "the same call looks the same")
        self.assertEqual(first["args"]["set"], [1, 2])
        self.assertLess(len(first["args"]["big"]), 70_000)
        self.assertIn("sha256", first["args"]["big"])

    def test_cb_7_steps_of_a_run(self):
        self.says({"id": "a:r", "state": "ACTIVE"}, 201)
        self.assertEqual(self.estop.start(role="pm", labels={"team": "x"})["state"], "ACTIVE")
        self.says({"id": "a:r", "state": "COMPLETED"})
        for step in ("activate", "sleep", "wake", "complete"):
            self.assertEqual(getattr(self.estop, step)()["id"], "a:r")
        self.assertEqual(self.fake.paths(), ["/api/runs"] + [
            f"/api/runs/a:r/{step}" for step in ("activate", "sleep", "wake", "complete")
        ])
        self.assertEqual(
            self.fake.seen[0][2], {"agent": "a", "run": "r", "role": "pm", "attended": False, "labels": {"team": "x"}}
        )
        with self.assertRaisesRegex(ValueError, "which run"):
            Estop(socket=self.socket).complete()

    def test_cb_7_a_refused_step_raises(self):
        self.says(PROBLEM, 409)
        with self.assertRaisesRegex(Refused, "It is escalated") as caught:
            self.estop.complete()
        self.assertEqual((caught.exception.status, caught.exception.code), (409, "conflict"))

    def test_a_run_begins_and_ends_with_its_block(self):
        estop = Estop(socket=self.socket, agent="a")
        with self.assertRaises(KeyError):
            with estop.run("r2") as run:
                self.assertEqual((run.run_name, estop.run_name), ("r2", None))
                run.pre_tool_use("bash")
                raise KeyError
        hooks = ["session-start", "pre-tool-use", "session-end"]
        self.assertEqual(self.fake.paths(), [f"/api/hooks/{event}" for event in hooks])
        self.assertTrue(all(body["run"] == "r2" for _, _, body in self.fake.seen))

    def test_a_run_that_may_not_begin_runs_nothing(self):
        self.says(deny("a is inactive"))
        with self.assertRaisesRegex(ToolDenied, "inactive"):
            with Estop(socket=self.socket, agent="a").run("r2"):
                self.fail("ran")
        with self.assertRaises(Unreachable):
            with Estop(socket=NOWHERE).run("r2"):
                self.fail("ran")
        with Estop(socket=NOWHERE, on_unreachable="allow").run("r2") as run:
            self.assertTrue(run.pre_tool_use("bash"))

    def test_what_a_run_is_for_is_told_and_an_open_one_goes_on(self):
        self.fake.answer = lambda path, body: (409, PROBLEM) if path == "/api/runs" else (200, ALLOW)
        with Estop(socket=self.socket, agent="a").run("r2", issue="acme/app#7"):
            pass
        self.assertEqual(self.fake.bodies("/api/runs")[0]["issue"], "acme/app#7")
        self.fake.answer = lambda path, body: (403, {"code": "forbidden", "detail": "Not with this token."})
        with self.assertRaises(Refused):
            with Estop(socket=self.socket, agent="a").run("r2", issue="acme/app#7"):
                self.fail("ran")

    def test_threads_may_share_it(self):
        threads = [threading.Thread(target=self.estop.pre_tool_use, args=("t", {"n": n})) for n in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        asked = sorted(body["args"]["n"] for body in self.fake.bodies("/api/hooks/pre-tool-use"))
        self.assertEqual(asked, list(range(16)))

    def test_asyncio_has_the_same(self):
        async def work():
            estop = AsyncEstop(socket=self.socket, agent="a")
            async with estop.run("r3") as run:
                verdicts = await asyncio.gather(*(run.pre_tool_use("t", {"n": n}) for n in range(8)))
                await run.turn("hello")
                await run.post_tool_use("t", {}, "x", failed=True)
                return all(verdicts)

        self.assertTrue(asyncio.run(work()))
        self.assertEqual(len(self.fake.bodies("/api/hooks/pre-tool-use")), 8)
        self.assertEqual(self.fake.paths()[-1], "/api/hooks/session-end")


class Finding(unittest.TestCase):
    """Where estop is, and who asks."""

    def test_tl_2_inside_estop_run_everything_comes_from_the_environment(self):
        fake = FakeEstop()
        with on_socket(fake) as path, clean(
            ESTOP_SOCKET=path, ESTOP_TICKET="t" * 64, ESTOP_AGENT="a", ESTOP_RUN="r", ESTOP_ADMIN_URL="http://wrong:1"
        ):
            with Estop(agent="b").run("other") as run:
                self.assertEqual((run.agent, run.run_name), ("a", "r"), "the ticket's")
                self.assertEqual(run.headers, {"x-estop-agent": "a", "x-estop-run": "r"})
                run.pre_tool_use("bash")
        _, headers, body = fake.seen[1]
        self.assertEqual(headers["x-estop-ticket"], "t" * 64)
        self.assertNotIn("run", body)

    def test_an_address_and_a_key(self):
        fake = FakeEstop()
        with on_port(fake) as url, clean(ESTOP_ADMIN_URL=url, ESTOP_KEY=KEY):
            self.assertTrue(Estop().pre_tool_use("bash"))
        self.assertEqual(fake.seen[0][1]["authorization"], f"Bearer {KEY}")

    def test_defaults(self):
        with clean(XDG_STATE_HOME="/state"):
            self.assertIn("/state/estop/estop.sock", repr(Estop()))
            self.assertIn("http://127.0.0.1:4101", repr(Estop(key=KEY)))

    def test_wrong_settings_are_refused(self):
        with clean():
            wrong = [
                {"url": "ftp://x"}, {"url": "127.0.0.1:4101"}, {"url": "http://x:port"}, {"url": "http://x/\r\nevil: 1"},
                {"url": "http://x", "socket": "y"}, {"timeout": 0},
                {"on_unreachable": "maybe"}, {"url": "http://me:secret@host"}, {"key": "a b"}, {"key": "a\nb"},
            ]
            for arguments in wrong:
                with self.assertRaises(ValueError, msg=str(arguments)) as caught:
                    Estop(**arguments)
                self.assertNotIn("secret", str(caught.exception))

    def test_no_secret_is_shown(self):
        with clean(ESTOP_TICKET="ticket-canary"):
            estop = Estop(url="http://127.0.0.1:9", key=KEY, on_unreachable="deny")
            with self.assertLogs("estop_client", "DEBUG") as logs:
                verdict = estop.pre_tool_use("bash")
            shown = repr(estop) + repr(vars(estop)) + repr(verdict) + "".join(logs.output)
            self.assertNotIn(KEY, shown)
            self.assertNotIn("ticket-canary", shown)


class Unreached(unittest.TestCase):
    def test_tl_2_inside_a_run_it_denies_outside_it_allows(self):
        cases = [
            ({}, {}, True), ({"run": "r"}, {}, False), ({}, {"ESTOP_RUN": "r"}, False), ({}, {"ESTOP_TICKET": "t"}, False),
            ({"on_unreachable": "deny"}, {}, False), ({"run": "r", "on_unreachable": "allow"}, {}, True),
            ({}, {"ESTOP_ON_UNREACHABLE": "deny"}, False),
        ]
        for arguments, variables, allowed in cases:
            with clean(**variables), self.assertLogs("estop_client"):
                verdict = Estop(socket=NOWHERE, **arguments).pre_tool_use("bash")
            self.assertEqual((verdict.allowed, verdict.reached), (allowed, False), (arguments, variables))
            self.assertIn("cannot be reached", verdict.reason)

    def test_it_is_said_once_and_again_when_it_is_over(self):
        fake = FakeEstop()
        with clean(), on_port(fake) as url, self.assertLogs("estop_client") as logs:
            estop = Estop(url=url)
            fake.answer = lambda path, body: (502, b"bad gateway")
            for _ in range(5):
                self.assertTrue(estop.pre_tool_use("bash"))
            fake.answer = lambda path, body: (200, ALLOW)
            estop.pre_tool_use("bash")
            estop.pre_tool_use("bash")
        self.assertEqual(len(logs.output), 2, logs.output)
        self.assertIn("WITHOUT its guard", logs.output[0])
        self.assertIn("answers again", logs.output[1])

    def test_steps_follow_it_too(self):
        with clean(), self.assertLogs("estop_client"):
            self.assertIsNone(Estop(socket=NOWHERE, run="r", on_unreachable="allow").complete())
            with self.assertRaises(EstopError):
                Estop(socket=NOWHERE, run="r").complete()

    def test_a_full_queue_is_waited_for(self):
        """With a time-out, a connect to a socket whose queue is full fails at once instead of waiting."""
        answer = json.dumps(ALLOW).encode()
        with tempfile.TemporaryDirectory() as folder, clean(), socket.socket(socket.AF_UNIX) as server:
            path = os.path.join(folder, "s")
            server.bind(path)
            server.listen(0)
            waiting = []
            with contextlib.suppress(BlockingIOError):
                while True:
                    waiting.append(socket.socket(socket.AF_UNIX))
                    waiting[-1].setblocking(False)
                    waiting[-1].connect(path)
            verdicts = []
            ask = threading.Thread(target=lambda: verdicts.append(Estop(socket=path).pre_tool_use("bash")))
            ask.start()
            ask.join(0.2)
            for client in waiting:
                client.close()
            while ask.is_alive():
                connection, _ = server.accept()
                with connection, contextlib.suppress(OSError):
                    if connection.recv(65536):
                        connection.sendall(b"HTTP/1.1 200 X\r\ncontent-length: %d\r\n\r\n%s" % (len(answer), answer))
                        ask.join(10)
        self.assertTrue(verdicts[0].reached, verdicts)

    def test_id_2_a_refusal_before_the_question_was_heard_is_no_silence(self):
        """estop refuses a wrong key at once, without reading the rest, and closes."""
        problem = b'{"code": "unauthenticated", "detail": "Who is there?"}'
        refusal = b"HTTP/1.1 401 X\r\ncontent-length: %d\r\n\r\n%s" % (len(problem), problem)
        with tempfile.TemporaryDirectory() as folder, clean(), socket.socket(socket.AF_UNIX) as server:
            path = os.path.join(folder, "s")
            server.bind(path)
            server.listen()

            def refuse():
                connection, _ = server.accept()
                connection.recv(64)
                connection.sendall(refusal)
                connection.close()

            for size in (10, 60_000, 3_000_000):
                thread = threading.Thread(target=refuse)
                thread.start()
                args = {"texts": ["x" * 60_000] * (size // 60_000 + 1)}
                verdict = Estop(socket=path, key=KEY, on_unreachable="allow").pre_tool_use("bash", args)
                thread.join(10)
                self.assertFalse(verdict, size)
                self.assertIn("Who is there?", verdict.reason)

    def test_an_estop_that_does_not_answer_is_given_up(self):
        """One byte now and then is no answer either."""
        def drip(connection):
            with contextlib.suppress(OSError):
                for byte in b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n" + b"x" * 1000:
                    connection.send(bytes([byte]))
                    time.sleep(0.02)

        for behave in (lambda connection: None, drip):
            with socket.create_server(("127.0.0.1", 0)) as server, clean(), self.assertLogs("estop_client"):
                kept = []

                def serve(server=server, kept=kept, behave=behave):
                    kept.append(server.accept()[0])
                    behave(kept[0])

                thread = threading.Thread(target=serve, daemon=True)
                thread.start()
                url = f"http://127.0.0.1:{server.getsockname()[1]}"
                verdict = Estop(url=url, on_unreachable="deny", timeout=0.3).pre_tool_use("bash")
                self.assertFalse(verdict)
                self.assertIn("no answer within 0.3 s", verdict.reason)
                thread.join(10)
                kept[0].close()


if __name__ == "__main__":
    unittest.main()

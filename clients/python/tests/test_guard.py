"""Guarded tools: asked before, told after, and not run when denied."""

import asyncio
import contextlib
import inspect
import subprocess
import sys
import threading
import unittest

from estop_client import AsyncEstop, Estop, RunEnded, ToolDenied

from fake_estop import ALLOW, FakeEstop, deny, on_socket
from test_client import clean


class Guarding(unittest.TestCase):
    def setUp(self):
        stack = contextlib.ExitStack()
        self.addCleanup(stack.close)
        stack.enter_context(clean())
        self.fake = FakeEstop()
        self.socket = stack.enter_context(on_socket(self.fake))
        self.estop = Estop(socket=self.socket, agent="a", run="r")
        self.ran = []

    def denies(self, said):
        self.fake.answer = lambda path, body: (200, said if path.endswith("pre-tool-use") else ALLOW)

    def tool(self, city: str, days: int = 1) -> str:
        """Says how the weather is."""
        self.ran.append((city, days))
        return f"sun in {city}"

    def test_tl_1_a_call_is_asked_run_and_told(self):
        guarded = self.estop.guard(self.tool)
        self.assertEqual(guarded("Rome", days=2), "sun in Rome")
        (_, _, asked), (_, _, told) = self.fake.seen
        self.assertEqual((asked["tool"], asked["args"]), ("tool", {"city": "Rome", "days": 2}))
        self.assertEqual((told["result"], told["call"]), ("sun in Rome", asked["call"]))

    def test_frameworks_read_the_same_signature(self):
        guarded = self.estop.guard(self.tool)
        self.assertEqual(inspect.signature(guarded), inspect.signature(self.tool))
        self.assertEqual((guarded.__name__, guarded.__doc__), ("tool", "Says how the weather is."))

    def test_a_denied_tool_does_not_run(self):
        self.denies(deny("max tool calls reached (5/5)"))
        with self.assertRaisesRegex(ToolDenied, "5/5"):
            self.estop.guard(self.tool)("Rome")
        returned = self.estop.guard(on_denied="return", name="weather")(self.tool)("Rome")
        self.assertEqual(returned, "max tool calls reached (5/5)")
        self.assertEqual(self.ran, [])
        self.assertEqual(self.fake.paths(), ["/api/hooks/pre-tool-use"] * 2, "what did not run has no result")
        self.assertEqual(self.fake.seen[1][2]["tool"], "weather")

    def test_a_run_that_must_end_is_never_only_told_so(self):
        self.denies(deny("stopped", end=True))
        with self.assertRaises(RunEnded):
            self.estop.guard(self.tool, on_denied="return")("Rome")

    def test_a_failing_tool_is_told_as_failed_and_still_raises(self):
        @self.estop.guard
        def broken():
            raise KeyError("x")

        with self.assertRaises(KeyError):
            broken()
        told = self.fake.seen[1][2]
        self.assertEqual((told["failed"], told["result"]), (True, "KeyError: 'x'"))

    def test_cb_4_a_process_tells_its_exit_code(self):
        @self.estop.guard
        def bash(command):
            return subprocess.run([sys.executable, "-c", command], capture_output=True)

        self.assertEqual(bash("print('no'); raise SystemExit(3)").returncode, 3)
        told = self.fake.seen[1][2]
        self.assertEqual((told["exit_code"], told["result"].strip()), (3, "no"))
        coded = self.estop.guard(lambda: {"code": 4}, name="bash", exit_code=lambda result: result["code"])
        coded()
        self.assertEqual(self.fake.seen[3][2]["exit_code"], 4)

    def test_cb_2_a_warning_reaches_the_model_once(self):
        near = {**ALLOW, "context": "Approaching limit: max tool calls at 4/5 (80%)."}
        self.fake.answer = lambda path, body: (200, near)
        self.assertEqual(self.estop.guard(self.tool)("Rome"), f"sun in Rome\n\n{near['context']}")
        heard = []
        guarded = self.estop.guard(lambda: {"sun": 1}, name="t", on_context=heard.append)
        self.assertEqual((guarded(), heard), ({"sun": 1}, [near["context"]]))
        with self.assertLogs("estop_client") as logs:
            self.estop.guard(lambda: {"sun": 1}, name="t")()
        self.assertIn("4/5", logs.output[0])

    def test_who_was_stopped_while_a_tool_ran_is_told_with_its_result(self):
        self.fake.answer = lambda path, body: (200, ALLOW if path.endswith("pre-tool-use") else deny("a is inactive"))
        self.assertEqual(self.estop.guard(self.tool)("Rome"), "sun in Rome\n\na is inactive")

    def test_async_tools_do_not_block_the_loop(self):
        asked = threading.Event()

        def answer(path, body):
            # Only answered while the loop goes on.
            return (200, ALLOW) if not path.endswith("pre-tool-use") or asked.wait(10) else (200, deny("blocked"))

        self.fake.answer = answer

        async def work():
            @AsyncEstop(socket=self.socket, agent="a").guard
            async def tool(n):
                await asyncio.sleep(0)
                return f"done {n}"

            tasks = [asyncio.ensure_future(tool(n)) for n in range(4)]
            while len(self.fake.paths()) < 4:
                await asyncio.sleep(0.01)
            asked.set()
            return await asyncio.gather(*tasks)

        self.assertEqual(asyncio.run(work()), [f"done {n}" for n in range(4)])
        self.assertEqual(self.fake.paths().count("/api/hooks/post-tool-use"), 4)

    def test_async_tools_are_denied_fail_and_are_cancelled(self):
        async def tool(how):
            self.ran.append(how)
            if how == "fail":
                raise KeyError(how)
            await asyncio.sleep(60)

        guarded = self.estop.guard(tool)

        async def cancelled():
            task = asyncio.ensure_future(guarded("wait"))
            while not self.ran:
                await asyncio.sleep(0.01)
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task
            while len(self.fake.seen) < 2:
                await asyncio.sleep(0.01)

        asyncio.run(asyncio.wait_for(cancelled(), 20))
        self.assertTrue(self.fake.seen[1][2]["failed"])
        with self.assertRaises(KeyError):
            asyncio.run(guarded("fail"))
        self.denies(deny("no"))
        with self.assertRaises(ToolDenied):
            asyncio.run(guarded("never"))
        self.assertEqual(self.ran, ["wait", "fail"])

    def test_a_plain_function_that_gives_a_coroutine_is_told_when_it_is_done(self):
        async def work():
            await asyncio.sleep(0)
            return "late"

        self.assertEqual(asyncio.run(self.estop.guard(lambda: work(), name="t")()), "late")
        self.assertEqual(self.fake.seen[1][2]["result"], "late")

    def test_fp_4_what_is_not_the_models_is_not_told(self):
        class RunContextWrapper:
            pass

        tool = self.estop.guard(lambda ctx, state, city: "sun", name="t", ignore=["state"])
        tool(RunContextWrapper(), {"step": 1}, "Rome")
        self.assertEqual(self.fake.seen[0][2]["args"], {"city": "Rome"})

    def test_what_cannot_be_guarded_is_said(self):
        def pieces():
            yield 1

        with self.assertRaises(TypeError):
            self.estop.guard(pieces)
        with self.assertRaises(ValueError):
            self.estop.guard(self.tool, on_denied="ignore")


if __name__ == "__main__":
    unittest.main()

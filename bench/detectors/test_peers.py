"""Each rule steps in at the step it should, and not before: python3 -m unittest discover bench/detectors"""

import contextlib
import io
import json
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

import peers
import recorded

SENTENCE = "I will now look at the file once more to be quite sure of it. "


def call(name, result="ok", arguments=None, thought=""):
    """A step with one call; `name` is also its argument."""
    return thought, [("tool", json.dumps(arguments or {"x": name}), result)]


def calls(names):
    return [call(name) for name in names]


def messages(steps):
    """Steps are (text, [(tool, arguments, result)]); a plain text is a person's."""
    said = [{"role": "user", "content": "Go."}]
    for number, step in enumerate(steps):
        if isinstance(step, str):
            said.append({"role": "user", "content": step})
            continue
        text, made = step
        ids = [f"call_{number}_{place}" for place in range(len(made))]
        functions = [{"id": id, "function": {"name": tool, "arguments": arguments}} for id, (tool, arguments, _) in zip(ids, made)]
        said.append({"role": "assistant", "content": text, "tool_calls": functions})
        said += [{"role": "tool", "tool_call_id": id, "content": result} for id, (_, _, result) in zip(ids, made)]
    return said


def trace(said, **meta):
    line = {"id": "t", "label": meta.pop("label", "loop"), "meta": meta, "messages": said}
    return recorded.Trace.parse(json.dumps(line))


class Rules(unittest.TestCase):
    def stops(self, name, steps, at):
        # One more answer: what looks before a request needs one.
        found = peers.stopped_at(peers.RULES[name](), trace(messages([*steps, ("Done.", [])])))
        self.assertEqual(found, at, name)

    def test_openhands_four_equal_steps(self):
        self.stops("OpenHands", calls("baaaaa"), 5)
        self.stops("OpenHands", calls("aaabaaab"), None)
        self.stops("OpenHands", [call("a", str(number)) for number in range(9)], None)
        self.stops("OpenHands", [*calls("aaa"), "And?", *calls("aaa")], None)

    def test_openhands_thoughts(self):
        steps = [call("a", thought=f"Try {number}.") for number in range(9)]
        self.stops("OpenHands", steps, None)
        self.stops("OpenHands without thoughts", steps, 4)
        self.stops("OpenHands without thoughts", calls("aaab"), None)

    def test_openhands_one_action_that_fails(self):
        self.stops("OpenHands", [call("a", f"Error: {number}") for number in range(9)], 4)
        self.stops("OpenHands", [call("a", f"Error: {number}" if number % 4 else "fine") for number in range(9)], None)

    def test_openhands_messages_in_a_row(self):
        self.stops("OpenHands", [("One.", []), ("Two.", []), ("Three.", []), ("Four.", [])], 3)
        self.stops("OpenHands", [("One.", []), "Well?", ("Two.", []), "Well?", ("Three.", []), "Well?"], None)

    def test_openhands_two_steps_in_turn(self):
        self.stops("OpenHands", calls("cababab"), 7)
        self.stops("OpenHands", calls("abcabcabcabc"), None)

    def test_openhands_looks_at_twenty_events(self):
        at_once = lambda count: [("", [("tool", "1", "ok")] * count)]
        self.stops("OpenHands", at_once(4), 1)
        self.stops("OpenHands", at_once(16), 1)
        self.stops("OpenHands", at_once(17), None)

    def test_forgecode(self):
        self.stops("forgecode", calls("baaa"), 4)
        self.stops("forgecode", calls("ababab"), 5)
        self.stops("forgecode", calls("xabababa"), 7)
        self.stops("forgecode", calls("abcdabcda"), 9)
        self.stops("forgecode", calls("abacadaeaf"), None)
        self.stops("forgecode", [call("a", str(number)) for number in range(9)], 3)

    def test_gemini_cycles(self):
        self.stops("Gemini CLI", calls("baaaaaa"), 6)
        self.stops("Gemini CLI", calls("ab" * 6), 10)
        self.stops("Gemini CLI", calls("abcde" * 5), 25)
        self.stops("Gemini CLI", calls("abcdef" * 6), None)
        self.stops("Gemini CLI", [*calls("aaaa"), "And?", *calls("aaaa")], None)
        order = [call("a", arguments={"x": 1, "y": 2} if number % 3 else {"y": 2, "x": 1}) for number in range(9)]
        self.stops("Gemini CLI", order, None)

    def test_gemini_goes_on_after_the_first_finding(self):
        self.stops("Gemini CLI, second", calls("aaaaaa"), 6)
        self.stops("Gemini CLI, second", calls("aaaaab"), None)

    def test_gemini_chanting(self):
        tenth = 9 * len(SENTENCE) + 50
        self.stops("Gemini CLI", [call("a"), ((SENTENCE * 10)[:tenth], [])], 2)
        self.stops("Gemini CLI", [((SENTENCE * 10)[: tenth - 1], [])], None)
        self.stops("Gemini CLI", [("".join(f"- {SENTENCE}\n" if place % 5 == 0 else "* new\n" for place in range(99)), [])], None)
        self.stops("Gemini CLI", [("```\n" + f"{SENTENCE}\n" * 30 + "```", [])], None)
        self.stops("Gemini CLI", [("".join(f"{SENTENCE}{number} " for number in range(30)), [])], None)
        self.stops("Gemini CLI", [(SENTENCE * 6, [("tool", "1", "ok")]), (SENTENCE * 6, [])], None)

    def test_consecutive(self):
        self.stops("Roo Code, goose", calls("baaaa"), 5)
        self.stops("Roo Code, goose", calls("aaabaaab"), None)
        self.stops("Roo Code, goose", [*calls("aa"), "And?", *calls("aa")], 4)
        self.stops("Cline, hard", calls("baaaaa"), 6)
        self.stops("Cline, hard", calls("aaaabaaaab"), None)
        order = [call("a", arguments={"x": 1, "y": 2} if number % 2 else {"y": 2, "x": 1}) for number in range(9)]
        self.stops("Cline, hard", order, 5)

    def test_opencode(self):
        same = ("tool", "1", "ok")
        self.stops("opencode", [call("a"), ("", [same, same, same])], 2)
        self.stops("opencode", [*calls("aaaaaa"), ("", [same, same]), ("", [same, same])], None)

    def test_qwen_always(self):
        self.stops("Qwen Code", calls("baaaaa"), 6)
        self.stops("Qwen Code", [*calls("aaaa"), "And?", *calls("aaaab"), *calls("ab" * 9)], None)
        many = [call("again" if number % 15 == 0 else str(number)) for number in range(150)]
        self.stops("Qwen Code", many, 101)
        self.stops("Qwen Code", [call(str(number)) for number in range(1000)], None)
        self.stops("Qwen Code", [call(str(number)) for number in range(1002)], 1001)

    def test_qwen_overviews_by_git(self):
        def shell(*commands):
            return [("", [("run_shell_command", json.dumps({"command": command}), "ok")]) for command in commands]

        overviews = ["git status", "git diff", "git diff HEAD~1 --stat", "git -C web status && git ls-files"]
        self.stops("Qwen Code", shell("make", *overviews * 3), 9)
        self.stops("Qwen Code", shell(*overviews, "git diff -- a.py", *overviews, "git status; make", *overviews), None)

    def test_qwen_opt_in(self):
        name = "Qwen Code, opt-in"
        tools = lambda names: [("", [(tool, json.dumps(number), "ok")]) for number, tool in enumerate(names)]
        same = [("", [(tool, "{}", "ok")]) for tool in "abcabdaebacabda"]
        self.stops(name, same, 15)
        self.stops(name, same[:14], None)
        self.stops(name, [("", [(tool, "{}", "ok")]) for tool in "cababab"], 7)
        self.stops(name, tools("g" + "f" * 9), 9)
        self.stops(name, tools(["f", *["read_file", "list_x"] * 5]), 9)
        self.stops(name, tools(["read_file", "f"] * 9), 15)
        self.stops(name, tools(["read_file", "f", *["f", "read_file"] * 7]), None)
        self.stops(name, tools(["read_file", "list_x"] * 9), None)
        self.stops(name, tools("fg" * 20), None)
        self.stops(name, [(SENTENCE * 11, [])], 1)

    def test_openclaw_the_same_result_twenty_times(self):
        self.stops("openclaw", calls("b" + "a" * 25), 22)
        self.stops("openclaw", calls("a" * 20), None)
        self.stops("openclaw", [call("a", str(number // 19)) for number in range(60)], None)
        self.stops("openclaw", [*calls("a" * 15), "And?", *calls("a" * 15)], None)
        self.stops("openclaw", calls("aab" * 30), 31)
        self.stops("openclaw", calls("abcdefghijkl" + "a" * 20), None)

    def test_openclaw_two_calls_in_turn(self):
        self.stops("openclaw", calls("ab" * 15), 20)
        self.stops("openclaw", [call("ab"[number % 2], str(number)) for number in range(60)], None)

    def test_openclaw_a_tool_that_does_not_exist(self):
        self.stops("openclaw", [call(str(number), "Error: Unknown tool: x") for number in range(20)], 11)
        self.stops("openclaw", [call(str(number), "read: Unknown tool: x") for number in range(20)], None)

    def test_openclaw_plans(self):
        plan = lambda number, status: json.dumps({"plan": [{"step": f"Step {number}", "status": status}]})
        self.stops("openclaw", [("", [("update_plan", plan(number, "pending"), str(number))]) for number in range(30)], 21)
        self.stops("openclaw", [("", [("update_plan", plan(1, str(number)), "ok")]) for number in range(30)], None)


class Counting(unittest.TestCase):
    def test_in_text_the_last_code_block_is_the_call_and_the_reply_its_result(self):
        said = [{"role": "user", "content": "Go."}]
        for number in range(5):
            said.append({"role": "assistant", "content": f"Try {number}.\n```sh\nls x\n```\nThere."})
            said.append({"role": "user", "content": "No such file."})
        said.append({"role": "assistant", "content": "No block."})
        read = trace(said, action_style="text")
        self.assertEqual([exchange.spoken for exchange in read.exchanges], [True] + [False] * 5)
        self.assertEqual(read.exchanges[1].results[0][1], "No such file.")
        self.assertEqual(read.exchanges[-1].calls[0].arguments, "No block.")
        self.assertEqual(peers.stopped_at(peers.RULES["OpenHands without thoughts"](), read), 4)
        self.assertEqual(peers.stopped_at(peers.RULES["OpenHands"](), read), None)

    def test_what_follows_the_last_answer_is_not_judged(self):
        said = messages(calls("aaaa"))
        self.assertIsNone(peers.stopped_at(peers.RULES["OpenHands"](), trace(said)))

    def test_found_and_in_time(self):
        count = peers.Count()
        for start, by, stop in [(3, 5, 2), (3, 5, 3), (3, 5, 5), (3, 5, 6), (3, None, 9), (3, 5, None)]:
            count.add(trace([], repetition={"kind": "strict", "start": start, "by": by}), stop)
        count.add(trace([], label="healthy"), 1)
        count.add(trace([], label="healthy"), None)
        self.assertEqual(count.row(), ["1 of 2", "4 of 6", "2 of 5"])

    def test_the_table(self):
        line = {"id": "t", "label": "loop", "meta": {"pattern": "p"}, "messages": messages(calls("aaaaaa"))}
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "t.jsonl")
            file.write_text(json.dumps(line) + "\n\n")
            out = io.StringIO()
            with mock.patch.object(sys, "argv", ["peers.py", str(file), "--by", "pattern"]), contextlib.redirect_stdout(out):
                peers.main()
        rows = [[cell.strip() for cell in row.split("|")] for row in out.getvalue().splitlines()]
        self.assertIn(["", "Cline, hard", "–", "1 of 1", "–", ""], rows)
        self.assertIn(["", "loop: p", "1", *"1111111011", "0", ""], rows)


if __name__ == "__main__":
    unittest.main()

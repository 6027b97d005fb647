"""The loop rules of other agents, written anew from what their code does, for measurement only.

A rule is fed one trace: `heard` takes the results of the calls made last, `spoken` says that a person wrote, `asks` is called before a
request is made and `answers` with what came back. The last two say whether the rule steps in. peers.py says where each rule was read.
"""

import re


class Rule:
    """Never steps in."""

    def heard(self, results):
        pass

    def spoken(self):
        pass

    def asks(self):
        return False

    def answers(self, exchange):
        return False


class Consecutive(Rule):
    """The same call, by value, so many times in a row, whatever came out and whoever spoke in between."""

    def __init__(self, limit):
        self.limit = limit
        self.last, self.count = None, 0

    def answers(self, exchange):
        return any(self.again(call) for call in exchange.calls)

    def again(self, call):
        self.count = self.count + 1 if call.by_value == self.last else 1
        self.last = call.by_value
        return self.count >= self.limit


class OpenHands(Rule):
    """Looks at the last 20 events since a person spoke, before each request.

    1. The last 4 actions are equal, and so are the last 4 observations. 2. One action failed 4 times in a row (at 3 the model is told).
    3. Three messages without a call in a row. 4. Actions and observations alternate over 6 of each. 5. Condensations that do not
    help: the code for it is empty. An action is tool, arguments and, unless `thoughts` is off, the text before it; the text belongs to
    the first of several calls. A failure is what OpenHands raises itself; here it is a result that begins like its words.
    """

    WINDOW, SAME, FAILURES, MESSAGES, ALTERNATING = 20, 4, 3, 3, 6
    FAILED = re.compile(r"\s*(error\b|tool '[^']*' not found)", re.I)

    def __init__(self, thoughts=True):
        self.thoughts = thoughts
        self.events = []

    def heard(self, results):
        self.events += [("failure" if self.FAILED.match(text) else "observation", call.tool, text) for call, text in results]

    def spoken(self):
        self.events = []

    def answers(self, exchange):
        for place, call in enumerate(exchange.calls):
            self.events.append(("action", exchange.thought if self.thoughts and place == 0 else "", call.by_value))
        if not exchange.calls:
            self.events.append(("message",))
        return False

    def asks(self):
        newest = self.events[: -self.WINDOW - 1 : -1]
        actions = [event for event in newest if event[0] == "action"]
        observations = [event for event in newest if event[0] in ("observation", "failure")]
        return (
            self.same(actions) and self.same(observations)
            or self.failures(actions, observations) > self.FAILURES
            or len(newest) >= self.MESSAGES and all(event == ("message",) for event in newest[: self.MESSAGES])
            or self.alternate(actions) and self.alternate(observations)
        )

    def same(self, events):
        return len(events) >= self.SAME and len(set(events[: self.SAME])) == 1

    def failures(self, actions, observations):
        streak = 0
        for action, observation in zip(actions, observations):
            if action != actions[0] or observation[0] != "failure":
                break
            streak += 1
        return streak

    def alternate(self, events):
        count = self.ALTERNATING
        return len(events) >= count and all(events[i] == events[i + 2] for i in range(count - 2))


class ForgeCode(Rule):
    """Before each request: a block of any length makes up the end of all calls of the conversation three times.

    Blocks are counted from the first call on. What is left over at the end counts as a repetition if the block begins like it: A B A B A
    is enough.
    """

    TIMES = 3

    def __init__(self):
        self.calls, self.new = [], False

    def answers(self, exchange):
        self.calls += [call.raw for call in exchange.calls]
        self.new = bool(exchange.calls)
        return False

    def asks(self):
        return self.new and any(self.times(length) >= self.TIMES for length in range(1, len(self.calls)))

    def times(self, length):
        end = len(self.calls) - len(self.calls) % length
        left_over = self.calls[end:]
        block = self.calls[end - length : end]
        if block[: len(left_over)] != left_over:
            return 0
        times = bool(left_over)
        while end >= length and self.calls[end - length : end] == block:
            times, end = times + 1, end - length
        return times


class Chant:
    """The same 50 characters ten times within one answer, a short way from each other.

    Text comes in pieces; here a piece is a line. A list, a table, a heading, a quote or a fence begins anew, and code is not looked at.
    """

    CHUNK, TIMES = 50, 10
    ELEMENTS = r"```|(^|\n)\s*(\|.*\||[|+-]{3,})|(^|\n)\s*\d+\.\s|(^|\n)#+\s|(^|\n)>\s|(^|\n)\s*"

    def __init__(self, kept, distance, periods, bullet, divider):
        self.kept, self.distance, self.periods = kept, distance, periods
        self.element, self.divider = re.compile(self.ELEMENTS + bullet + r"\s"), re.compile(divider)
        self.in_code = False
        self.begin()

    def begin(self):
        self.text, self.at, self.seen = "", 0, {}

    def hears(self, text):
        return any(self.piece(line) for line in text.splitlines(keepends=True))

    def piece(self, text):
        is_divider = self.divider.fullmatch(text)
        if is_divider or self.element.search(text):
            self.begin()
        was_in_code = self.in_code
        self.in_code ^= text.count("```") % 2 == 1
        if was_in_code or self.in_code or is_divider:
            return False
        self.text += text
        self.at = max(self.at, len(self.text) - self.kept)
        while self.at + self.CHUNK <= len(self.text):
            if self.chunk(self.text[self.at : self.at + self.CHUNK]):
                return True
            self.at += 1
        return False

    def chunk(self, chunk):
        places = self.seen.setdefault(chunk, [])
        places.append(self.at)
        newest = [place for place in places[-self.TIMES :] if place >= len(self.text) - self.kept]
        if len(newest) < self.TIMES or newest[-1] - newest[0] > self.distance * (self.TIMES - 1):
            return False
        between = {self.text[a:b] for a, b in zip(newest, newest[1:])}
        return self.periods is None or len(between) <= self.periods


class Gemini(Rule):
    """A cycle of 1 to 5 calls, arguments in their order, five times at the end of one prompt's calls; or chanting.

    The first finding aborts the answer and tells the model, the second ends the prompt: `findings` says which one counts.
    """

    TIMES, LONGEST = 5, 5

    def __init__(self, findings=1):
        self.findings = findings
        # The classes of bullets and dividers are the original's, with ranges that were hardly meant.
        self.chant = Chant(5000, 250, 5, r"[*-+]", "[+-_=*\u2500-\u257f]+")
        self.spoken()

    def spoken(self):
        self.calls, self.found = [], 0
        self.chant.begin()

    def answers(self, exchange):
        if self.finds(exchange):
            self.found += 1
        return self.found >= self.findings

    def finds(self, exchange):
        if self.chant.hears(exchange.said):
            return True
        for call in exchange.calls:
            self.chant.begin()
            self.calls = [*self.calls, call.in_order][-self.TIMES * self.LONGEST :]
            if any(self.cycle(length) for length in range(1, self.LONGEST + 1)):
                return True
        return False

    def cycle(self, length):
        end = self.calls[-length * self.TIMES :]
        return len(end) == length * self.TIMES and end == end[-length:] * self.TIMES


class Qwen(Rule):
    """Of one prompt: 5 equal calls in a row, 8 times nothing but an overview by git, or above 100 calls with one made 6 times.

    With `opt_in` also: one call 6 times, A B three times, one tool 8 times in a row, 8 reads within 15 calls (once it did anything else),
    chanting. Thoughts are not in the traces.
    """

    ROW, OVERVIEWS, CAP, CAP_HARD, DUPLICATES, CYCLES, NAMES, READS, READS_WITHIN = 5, 8, 100, 1000, 6, 3, 8, 8, 15
    GIT = re.compile(r"git(?:\s+(?:-C\s+\S+|--no-pager))*\s+(status|diff|ls-files)\b", re.I)
    REVISION = re.compile(r"-.*|(HEAD|@)([~^]\d*)*|(?i:[0-9a-f]{7,40})|\S+\.{2,3}\S+")

    def __init__(self, opt_in=False):
        self.opt_in = opt_in
        self.chant = Chant(1000, 75, None, r"[-*+]", "[-+_=*\u2500-\u257f]+")
        self.spoken()

    def spoken(self):
        self.calls, self.counts, self.overviews = [], {}, 0
        self.chant.begin()

    def answers(self, exchange):
        if self.opt_in and self.chant.hears(exchange.said):
            return True
        for call in exchange.calls:
            self.chant.begin()
            self.calls.append(call)
            self.counts[call.by_value] = self.counts.get(call.by_value, 0) + 1
            self.overviews = self.overviews + 1 if self.is_overview(call) else 0
            if self.always() or self.opt_in and self.by_guess():
                return True
        return False

    def always(self):
        total, most = len(self.calls), max(self.counts.values())
        return (
            self.row(self.ROW, lambda call: call.by_value)
            or self.overviews >= self.OVERVIEWS
            or total > self.CAP and (most >= self.DUPLICATES or total > self.CAP_HARD)
        )

    def by_guess(self):
        newest = [call.by_value for call in self.calls[-2 * self.CYCLES :]]
        alternates = len(newest) == 2 * self.CYCLES and newest[0] != newest[1] and newest == newest[:2] * self.CYCLES
        reads = sum(map(self.is_read, self.calls[-self.READS_WITHIN :]))
        return (
            self.counts[self.calls[-1].by_value] >= self.DUPLICATES
            or alternates
            or self.row(self.NAMES, lambda call: call.tool)
            or reads >= self.READS and not all(map(self.is_read, self.calls))
        )

    def row(self, count, key):
        return len(self.calls) >= count and len({key(call) for call in self.calls[-count:]}) == 1

    @staticmethod
    def is_read(call):
        return call.tool == "zoom_image" or call.tool.startswith(("read_", "list_"))

    def is_overview(self, call):
        command = call.arguments.get("command") if isinstance(call.arguments, dict) else None
        if call.tool != "run_shell_command" or not isinstance(command, str):
            return False
        parts = [part.strip() for part in re.split(r"&&|\|\||[;&|\n]", command) if part.strip()]
        return bool(parts) and all(map(self.overview_part, parts))

    def overview_part(self, part):
        git = self.GIT.match(part)
        if not git or git[1].lower() != "diff":
            return bool(git)
        words = part[git.end() :].split()
        return "--" not in words[:-1] and all(map(self.REVISION.fullmatch, words))


class OpenCode(Rule):
    """The last three parts of one assistant message are the same call; nothing is compared across messages."""

    TIMES = 3

    def answers(self, exchange):
        calls = [call.in_order for call in exchange.calls]
        return any(len(set(calls[i : i + self.TIMES])) == 1 for i in range(len(calls) - self.TIMES + 1))


class OpenClaw(Rule):
    """Before a call, among the last 30 of one run: it brought the same result 20 times, other calls in between or not.

    Also 20 calls that alternate between two, each with one result; and 10 calls in a row of a tool that does not exist. Of `update_plan`
    the states of its steps count, not their words, and no result. Blocks are counted; what it only warns of, from 10 on, is not.
    """

    HISTORY, SAME, UNKNOWN = 30, 20, 10
    # It looks for these words anywhere in an error of its own; in a trace they must stand at the beginning of a result.
    NO_TOOL = re.compile(r"\W*(?:error\W+)*(?:unknown tool[:\s]+[\"']?([\w.-]+)|tool\s+[\"']?([\w.-]+)[\"']?\s+(?:not found|is not available))", re.I)

    def __init__(self):
        self.spoken()

    def spoken(self):
        self.history = []

    def answers(self, exchange):
        for call in exchange.calls:
            mark = self.mark_of(call)
            if self.unknown(call.tool) or self.no_news(mark) >= self.SAME or self.ping_pong(mark) >= self.SAME:
                return True
            self.history = [*self.history, {"call": call, "mark": mark, "result": None}][-self.HISTORY :]
        return False

    def heard(self, results):
        for call, text in results:
            made = next((one for one in self.history if one["call"] is call), None)
            if made:
                made["result"] = "" if call.tool == "update_plan" else text.strip()

    @staticmethod
    def mark_of(call):
        if call.tool != "update_plan" or not isinstance(call.arguments, dict):
            return call.by_value
        plan = [step if isinstance(step, dict) else {} for step in call.arguments.get("plan") or []]
        is_text = lambda value: isinstance(value, str) and bool(value.strip())
        states = tuple((str(step.get("status")), is_text(step.get("step"))) for step in plan)
        return call.tool, states, is_text(call.arguments.get("explanation"))

    def unknown(self, tool):
        newest = self.history[-self.UNKNOWN :]
        missing = [self.NO_TOOL.match(one["result"] or "") for one in newest]
        names = {(name[1] or name[2]).lower() if name else None for name in missing}
        return len(newest) == self.UNKNOWN and {one["call"].tool for one in newest} == {tool} and len(names) == 1 and None not in names

    def no_news(self, mark):
        results = [one["result"] for one in reversed(self.history) if one["mark"] == mark and one["result"] is not None]
        return next((place for place, result in enumerate(results) if result != results[0]), len(results))

    def ping_pong(self, mark):
        """How many calls alternate, this one with them, if each of the two had one result."""
        newest = self.history[::-1]
        other = next((one["mark"] for one in newest if one["mark"] != newest[0]["mark"]), None)
        if other != mark:
            return 0
        pair = (newest[0]["mark"], other)
        tail = next((place for place, one in enumerate(newest) if one["mark"] != pair[place % 2]), len(newest))
        results = [{one["result"] for one in newest[side:tail:2]} for side in (0, 1)]
        return tail + 1 if tail >= 2 and all(len(kind) == 1 and None not in kind for kind in results) else 0

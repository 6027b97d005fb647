"""Recorded traces as loop rules see them: what the agent said and called, what came of it, and when a person spoke.

One JSON object a line, messages in OpenAI chat format (docs/traces.md). What `estop eval` takes for a call, its result and a
step is the same here: an assistant message is a step, a result belongs to the call with its id, else to the call at its place. A
trace of an agent that acts in text (`meta.action_style: text`) has one call a message, its last code block, else all it says, and
the next user message is the result and not a person's.
"""

import dataclasses
import json


@dataclasses.dataclass(frozen=True)
class Call:
    """One call of a tool, and three ways to compare it: each project has its own."""

    tool: str
    arguments: object
    raw: tuple  # As the model wrote it.
    in_order: tuple  # Without white space, keys in the order in which they were written.
    by_value: tuple  # Keys sorted, too.

    @classmethod
    def of(cls, tool, arguments):
        raw = arguments if isinstance(arguments, str) else json.dumps(arguments)
        try:
            arguments = json.loads(raw)
        except ValueError:
            arguments = raw
        text = lambda by_value: json.dumps(arguments, ensure_ascii=False, sort_keys=by_value)
        return cls(tool, arguments, (tool, raw), (tool, text(False)), (tool, text(True)))

    @classmethod
    def in_text(cls, action):
        return cls("", action, *[("", action)] * 3)


@dataclasses.dataclass(frozen=True)
class Exchange:
    """A request and its answer."""

    results: list  # What came of the calls of the answer before: (call, text) for each that has a result.
    spoken: bool  # A person said something since then.
    said: str  # The answer's text, with the code block that is a call.
    thought: str  # The same without it.
    calls: list


@dataclasses.dataclass(frozen=True)
class Trace:
    id: str
    label: str
    pattern: str
    kind: str
    start: int
    by: int
    exchanges: list

    @classmethod
    def parse(cls, line):
        raw = json.loads(line)
        meta = raw.get("meta") or {}
        known = meta.get("repetition") or {}
        made = list(exchanges(raw["messages"], meta.get("action_style") == "text"))
        return cls(
            id=raw["id"],
            label=raw.get("label"),
            pattern=meta.get("pattern"),
            kind=known.get("kind", "other"),
            start=known.get("start", 0),
            by=known.get("by"),
            exchanges=made,
        )


def exchanges(messages, acts_in_text):
    """Request k is all messages before the k-th assistant message. What follows the last one was never sent."""
    calls, ids, since = [], [], []
    for message in messages:
        if message["role"] != "assistant":
            since.append(message)
            continue
        heard = results(calls, ids, since, acts_in_text)
        answered = acts_in_text and bool(heard)
        spoken = not answered and any(m["role"] == "user" for m in since)
        said = thought = text_of(message)
        given = message.get("tool_calls") or []
        calls = [Call.of(call["function"]["name"], call["function"].get("arguments") or "") for call in given]
        ids, since = [call.get("id") for call in given], []
        if acts_in_text and not calls and said.strip():
            thought, action = last_code_block(said)
            calls, ids = [Call.in_text(action.strip())], [None]
        yield Exchange(heard, spoken, said, thought, calls)


def results(calls, ids, since, acts_in_text):
    role = "user" if acts_in_text and ids == [None] else "tool"
    told = [message for message in since if message["role"] == role]
    by_id = {}
    for message in told:
        by_id.setdefault(message.get("tool_call_id"), message)
    found = []
    for place, (call, id) in enumerate(zip(calls, ids)):
        message = (by_id.get(id) if id else None) or (told[place] if place < len(told) else None)
        if message is not None:
            found.append((call, text_of(message)))
    return found


def text_of(message):
    content = message.get("content")
    if isinstance(content, list):
        return next((part["text"] for part in content if part.get("text") is not None), "")
    return content or ""


def last_code_block(said):
    """What stands before the last code block, and the block; without one, nothing and everything."""
    parts = said.rsplit("```", 2)
    if len(parts) == 3:
        body = parts[1].split("\n", 1)[-1]
        if body.strip():
            return parts[0], body
    return "", said


def read(path):
    with open(path, encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            if line.strip():
                try:
                    yield Trace.parse(line)
                except (ValueError, KeyError, TypeError, AttributeError) as error:
                    raise SystemExit(f"{path}:{number}: not a trace: {error!r}") from error

#!/usr/bin/env python3
"""The loop rules of other agents on recorded traces, counted as `estop eval` counts.

Usage: bench/detectors/peers.py FILE... [--by pattern|kind] [--json]

One table a file: how many healthy traces a rule stops, how many loops it finds, and how many of those in time. `--by` adds one
by pattern, or by kind of loop: healthy traces stopped, or loops found/in time. A step is an assistant message, from 1. A rule that looks at
an answer stops at its step; one that looks before the next request, at the last step made. A stop before a loop begins (`start`)
found something else; one after `by` is late. Traces without a label are left out. Results after the last answer were never sent and are
not judged. A trace goes on as it was recorded: whether an agent would have come to its senses after a warning nobody knows. What counts
as a stop is in the table below.

Each rule was read in its project's code and written anew (rules.py), with the defaults found there:

| rule | file | commit | what counts as a stop |
|---|---|---|---|
| OpenHands | OpenHands/software-agent-sdk openhands-sdk/openhands/sdk/conversation/stuck_detector.py | 611629e | the run ends as stuck |
| forgecode | tailcallhq/forgecode crates/forge_app/src/hooks/doom_loop.rs | 6ed5d37 | a reminder to the model, all it does |
| Gemini CLI | google-gemini/gemini-cli packages/core/src/services/loopDetectionService.ts | 5411f11 | the answer is aborted, the model told |
| – second | the same, client.ts | 5411f11 | the prompt ends; the model as a judge is left out of both |
| Roo Code | RooCodeInc/Roo-Code src/core/tools/ToolRepetitionDetector.ts | cb83656 | the person is asked, limit 3 |
| goose | block/goose crates/goose/src/tool_monitor.rs | e94f304 | the same rule at `max_repetitions` 3; as shipped it is off and keeps no count |
| Cline | cline/cline sdk/packages/core/src/runtime/safety/loop-detection.ts | 21cb8d2 | the hard limit of 5; the soft one of 3 only tells the model |
| opencode | anomalyco/opencode packages/opencode/src/session/processor.ts | d545d8f | the person is asked |
| Qwen Code | QwenLM/qwen-code packages/core/src/services/loopDetectionService.ts | db05195 | the turn ends |
| – opt-in | the same with `skipLoopDetection: false` | db05195 | the turn ends |
| openclaw | openclaw/openclaw src/agents/tool-loop-detection.ts | 0065530 | the call is blocked; as shipped it is off |

What traces do not say: which results were errors of the agent program itself (OpenHands, openclaw: taken from their words; OpenHands
moreover takes all calls that it finds invalid for equal), and in which pieces text was streamed (Gemini CLI, Qwen Code: taken as lines).
Rules that go by a tool's name go by the name in the trace.
"""

import argparse
import json

import recorded
import rules

RULES = {
    "OpenHands": rules.OpenHands,
    "OpenHands without thoughts": lambda: rules.OpenHands(thoughts=False),
    "forgecode": rules.ForgeCode,
    "Gemini CLI": rules.Gemini,
    "Gemini CLI, second": lambda: rules.Gemini(findings=2),
    "Roo Code, goose": lambda: rules.Consecutive(4),
    "Cline, hard": lambda: rules.Consecutive(5),
    "opencode": rules.OpenCode,
    "Qwen Code": rules.Qwen,
    "Qwen Code, opt-in": lambda: rules.Qwen(opt_in=True),
    "openclaw": rules.OpenClaw,
}


def stopped_at(rule, trace):
    """How many steps are made until the rule steps in; none if it never does."""
    for made, exchange in enumerate(trace.exchanges):
        rule.heard(exchange.results)
        if exchange.spoken:
            rule.spoken()
        if rule.asks():
            return made
        if rule.answers(exchange):
            return made + 1
    return None


class Count:
    """What a rule did to some traces."""

    def __init__(self):
        self.healthy, self.stopped, self.loops, self.found, self.with_time, self.in_time = 0, 0, 0, 0, 0, 0
        self.stopped_ids, self.found_ids = [], []

    def add(self, trace, stop):
        if trace.label == "healthy":
            self.healthy += 1
            if stop is not None:
                self.stopped += 1
                self.stopped_ids.append(trace.id)
        else:
            found = stop is not None and stop >= trace.start
            self.loops += 1
            self.with_time += trace.by is not None
            if found:
                self.found += 1
                self.found_ids.append(trace.id)
                self.in_time += trace.by is not None and stop <= trace.by

    def row(self):
        of = lambda count, total: f"{count} of {total}" if total else "–"
        return [of(self.stopped, self.healthy), of(self.found, self.loops), of(self.in_time, self.with_time)]

    def short(self):
        healthy = [str(self.stopped)] if self.healthy else []
        loops = [f"{self.found}/{self.in_time}" if self.with_time else str(self.found)] if self.loops else []
        return " ".join(healthy + loops)


def judge(path, by):
    """For each rule what it did to all traces of a file, and to each group of them."""
    counts = {name: (Count(), {}) for name in RULES}
    for trace in recorded.read(path):
        if trace.label not in ("healthy", "loop"):
            continue
        group = {"pattern": trace.pattern or "–", "kind": trace.kind if trace.label == "loop" else "–"}.get(by)
        group = f"{trace.label}: {group}" if group else None
        for name, (whole, groups) in counts.items():
            stop = stopped_at(RULES[name](), trace)
            whole.add(trace, stop)
            if group:
                groups.setdefault(group, Count()).add(trace, stop)
    return counts


def table(rows):
    widths = [max(map(len, column)) for column in zip(*rows)]
    lines = ["| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths)) + " |" for row in rows]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(lines)


def text(path, counts):
    rows = [["detector", "healthy stopped", "loops found", "in time"]]
    rows += [[name, *whole.row()] for name, (whole, _) in counts.items()]
    parts = [path, table(rows)]
    groups = next(iter(counts.values()))[1]
    if groups:
        rows = [["traces", "total", *counts]]
        for group in sorted(groups):
            total = str(groups[group].healthy + groups[group].loops)
            rows.append([group, total, *(by_group[group].short() for _, by_group in counts.values())])
        parts.append(table(rows))
    return "\n\n".join(parts)


def as_json(counts):
    groups = lambda by_group: {group: vars(count) for group, count in sorted(by_group.items())}
    return {name: {**vars(whole), **({"groups": groups(by_group)} if by_group else {})} for name, (whole, by_group) in counts.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", metavar="FILE")
    parser.add_argument("--by", choices=["pattern", "kind"])
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    found = {path: judge(path, arguments.by) for path in arguments.files}
    if arguments.json:
        print(json.dumps({path: as_json(counts) for path, counts in found.items()}, indent=2, ensure_ascii=False))
    else:
        print("\n\n".join(text(path, counts) for path, counts in found.items()))


if __name__ == "__main__":
    main()

"""Reads the answer of `estop eval --json` and fails if the detector got worse than promised."""

import json
import sys

REPEATS_MAX = 5
FOUND_SHARE_MIN = 0.85
AGENTS_FOUND_SHARE_MIN = 0.7

report = json.load(sys.stdin)
of_agents = sys.argv[1:] == ["--agents"]
found_share_min = AGENTS_FOUND_SHARE_MIN if of_agents else FOUND_SHARE_MIN
healthy, loops = report["healthy"], report["loops"]
strict = loops["by_class"].get("strict", {"total": 0, "found": 0, "max_repeats": None})

problems = []
if healthy["total"] == 0 or loops["total"] == 0 or strict["total"] == 0 and not of_agents:
    problems.append("there must be healthy traces, loops and back-to-back loops to judge")
if healthy["false_kills"] != 0:
    problems.append(f"{healthy['false_kills']} healthy agents stopped: {', '.join(healthy['ids'])}")
if strict["found"] != strict["total"]:
    problems.append(f"only {strict['found']} of {strict['total']} back-to-back loops found")
if (strict["max_repeats"] or 0) > REPEATS_MAX:
    problems.append(f"a back-to-back loop ran for {strict['max_repeats']} repeats, more than {REPEATS_MAX}")
if loops["found"] < found_share_min * loops["total"]:
    problems.append(f"only {loops['found']} of {loops['total']} loops found, less than {found_share_min:.0%}")

for problem in problems:
    print(f"eval: {problem}", file=sys.stderr)
sys.exit(1 if problems else 0)

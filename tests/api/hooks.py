"""What schemathesis cannot know of estop; loaded by schemathesis.toml."""

import datetime

import schemathesis
from schemathesis.specs.openapi import checks

# Whoever tries wrong tokens is told to wait after ten of them: as good a refusal as 401.
checks.AUTH_REJECTION_STATUSES = frozenset({401, 403, 429})

# Names that estop keeps for itself: no agent has them.
KEPT_NAMES = {"system", "estop-canary"}


@schemathesis.hook
def before_call(context, case, kwargs):
    """Fixes what no schema can say. What is wrong by the schema stays wrong."""
    if str((case.headers or {}).get("x-estop-agent", "")).lower() in KEPT_NAMES:
        case.headers = {**case.headers, "x-estop-agent": "good"}
    if not isinstance(case.body, dict):
        return
    if isinstance(case.body.get("allowed_hours"), dict) and case.body["allowed_hours"]:
        hours = case.body["allowed_hours"]
        if case.method.upper() == "PATCH":
            # A change may take away what was set, but one end alone is none.
            hours = {key: value for key, value in hours.items() if value is not None or key not in ("from", "to")}
        case.body = {**case.body, "allowed_hours": with_ends(hours)}
    if str(case.body.get("agent")).lower() in KEPT_NAMES:
        case.body = {**case.body, "agent": "good"}
    if case.operation.path.endswith("/snooze"):
        case.body = with_one_end(case.body)


def with_ends(hours):
    """Hours need both ends, unless the layer below has the other, and allow nothing if both are the same."""
    hours = {"from": "08:00", "to": "18:00", **hours}
    if hours["from"] == hours["to"]:
        hours["to"] = "12:00" if hours["from"] == "00:00" else "00:00"
    return hours


def with_one_end(snooze):
    """A snooze ends after some minutes or at a moment to come, not both."""
    minutes, until = snooze.get("minutes"), snooze.get("until")
    if minutes is None and until is None:
        return {**snooze, "minutes": 5}
    if not is_moment(until):
        return snooze
    if minutes is not None:
        return {**snooze, "until": None}
    later = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=1)
    return {**snooze, "until": later.isoformat(timespec="seconds").replace("+00:00", "Z")}


def is_moment(value):
    try:
        datetime.datetime.fromisoformat(value.replace("Z", "+00:00"))
    except (AttributeError, ValueError):
        return False
    return True

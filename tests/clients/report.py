"""Writes docs/clients.md from the results of a whole run."""

import datetime

from clients import Sdk, version

HEAD = """# Clients

Written by `scripts/clients --all`, which writes it anew each time: change tests/clients/ instead of this page.

Real, unmodified clients, installed from their registries, each run through estop in front of a model that is not
real. Each makes a plain, a streamed and a tool-calling exchange. Then it loops, until estop's loop guard stops its
agent. What counts is what the client does next: a client that reads a refusal as a passing trouble asks again.

{facts}

Columns: *plain*, *stream*, *tool*: the exchange came through (for coding agents, *stream* says that they stream of
their own accord; – means the client has no such thing). *Starts*: how often it was started until it was stopped; a
client that has no loop, or ends one itself, is started again. *Let through*: model requests before the stop.
*Stopped by*: status and reason of the first refusal. *After*: requests the client sent after that refusal; 0 is the
goal. *Sentence*: the client showed estop's sentence to its user; for libraries, it is in the exception, also when a
stopped agent asks for a stream. *End*: the exception a library raises, the exit code of a coding agent.

Every client is given `http://HOST:PORT/agents/NAME/PROVIDER…` as its base URL, and has to keep that path: it is what
names the agent.
"""


COLUMNS = [
    *("client", "version", "protocol", "path", "base URL in", "plain", "stream", "tool", "starts", "let through"),
    *("stopped by", "after", "sentence", "end"),
]


def write(results, path, estop_version, offline, seconds):
    behaved = sum(not result.faults for result in results)
    facts = "\n".join(
        [
            f"- Date: {datetime.date.today().isoformat()}",
            f"- estop: {estop_version}",
            f"- Network of the clients: {'loopback only' if offline else 'not cut (no user namespaces here)'}",
            f"- Clients: {len(results)}, of which {behaved} behaved; {seconds / 60:.0f} minutes",
            "- Again: `scripts/clients --all`; one client: `scripts/clients --only NAME`",
        ]
    )
    text = HEAD.format(facts=facts)
    text += section("Libraries and frameworks", [r for r in results if isinstance(r.client, Sdk)])
    text += section("Coding agents", [r for r in results if not isinstance(r.client, Sdk)])
    text += remarks(results)
    path.write_text(text)


def section(title, results):
    lines = [f"\n## {title}\n", f"| {' | '.join(COLUMNS)} |", f"|{'---|' * len(COLUMNS)}"]
    return "\n".join(lines + [row(result) for result in results]) + "\n"


def row(result):
    client = result.client
    cells = [
        client.name,
        version(client),
        client.protocol,
        "<br>".join(f"`{path}`" for path in result.paths),
        "code" if client.address == "CLIENT_BASE_URL" else f"`{client.address}`",
        mark(result.plain),
        mark(result.stream),
        mark(result.tool),
        result.starts,
        result.requests_before,
        result.status,
        result.requests_after,
        result.sentence,
        end(result),
    ]
    return f"| {' | '.join(str(cell) for cell in cells)} |"


def mark(verdict):
    return {"ok": "yes", "-": "–"}.get(verdict, "**no**")


def end(result):
    if isinstance(result.client, Sdk):
        return result.raised
    return "killed" if result.exit is None else result.exit


def remarks(results):
    """What is known about a client, and what went wrong."""
    lines = []
    for result in results:
        if result.client.note:
            lines.append(f"- {result.client.name}: {result.client.note}.")
        lines += [f"- **{result.client.name}**: {fault}" for fault in result.faults]
    return "\n## Remarks\n\n" + "\n".join(lines) + "\n" if lines else ""

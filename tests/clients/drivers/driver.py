"""What every Python driver shares: it reads the mode, makes the exchange and prints one JSON line.

    python py_openai_chat.py plain|stream|tool|stopped|refused

The base URL and keys are in the variables the client itself reads, set by run.py: no driver names an address.
A driver hands over up to four functions, each from a prompt to the text that came back:
plain, stream, tool (declares a shell tool, runs it as asked, answers with the final text) and, for frameworks with
an agent loop of their own, loop.
"""

import json
import subprocess
import sys

PLAIN = "Say hello."
TOOL = "Use a tool, please."
LOOP = "loop forever with your shell tool"
REPEATS_MAX = 30
TOOL_NAME = "shell"
TOOL_HELP = "Runs a shell command and returns what it printed."
TOOL_SCHEMA = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}


def shell(command: str) -> str:
    """Runs a shell command and returns what it printed."""
    return subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=20).stdout


def main(plain, stream, tool, loop=None):
    mode = sys.argv[1]
    result = {"ok": True, "text": None, "error": None, "exit": 0}
    try:
        if mode == "plain":
            result["text"] = plain(PLAIN)
        elif mode == "stream":
            result["text"] = stream(PLAIN)
        elif mode == "tool":
            result["text"] = tool(TOOL)
        elif mode == "stopped" and loop:
            result["text"] = loop(LOOP)
        elif mode == "stopped":
            for _ in range(REPEATS_MAX):
                result["text"] = plain(PLAIN)
        elif mode == "refused":
            result["text"] = stream(PLAIN)
        else:
            sys.exit(f"unknown mode {mode}")
    except Exception as error:  # Whatever the client raises is the finding.
        result.update(ok=False, error=f"{type(error).__name__}: {error}", exit=1)
    print(json.dumps(result))

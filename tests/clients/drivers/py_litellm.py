"""litellm. The model's name says whose protocol it speaks: CLIENT_MODEL."""

import json
import os

import litellm

from driver import TOOL_HELP, TOOL_NAME, TOOL_SCHEMA, main, shell

MODEL = os.environ["CLIENT_MODEL"]
TOOLS = [{"type": "function", "function": {"name": TOOL_NAME, "description": TOOL_HELP, "parameters": TOOL_SCHEMA}}]
litellm.telemetry = False


def plain(prompt):
    return litellm.completion(MODEL, messages=[{"role": "user", "content": prompt}]).choices[0].message.content


def stream(prompt):
    chunks = litellm.completion(MODEL, messages=[{"role": "user", "content": prompt}], stream=True)
    return "".join(chunk.choices[0].delta.content or "" for chunk in chunks)


def tool(prompt):
    messages = [{"role": "user", "content": prompt}]
    asked = litellm.completion(MODEL, messages=messages, tools=TOOLS).choices[0].message
    messages.append(asked)
    for call in asked.tool_calls:
        output = shell(**json.loads(call.function.arguments))
        messages.append({"role": "tool", "tool_call_id": call.id, "content": output})
    return litellm.completion(MODEL, messages=messages, tools=TOOLS).choices[0].message.content


main(plain, stream, tool)

"""openai for Python, Chat Completions."""

import json

import openai

from driver import TOOL_HELP, TOOL_NAME, TOOL_SCHEMA, main, shell

MODEL = "gpt-4o"
TOOLS = [{"type": "function", "function": {"name": TOOL_NAME, "description": TOOL_HELP, "parameters": TOOL_SCHEMA}}]
client = openai.OpenAI()


def plain(prompt):
    answer = client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": prompt}])
    return answer.choices[0].message.content


def stream(prompt):
    chunks = client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": prompt}], stream=True)
    return "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)


def tool(prompt):
    messages = [{"role": "user", "content": prompt}]
    asked = client.chat.completions.create(model=MODEL, messages=messages, tools=TOOLS).choices[0].message
    messages.append(asked)
    for call in asked.tool_calls:
        output = shell(**json.loads(call.function.arguments))
        messages.append({"role": "tool", "tool_call_id": call.id, "content": output})
    return client.chat.completions.create(model=MODEL, messages=messages, tools=TOOLS).choices[0].message.content


main(plain, stream, tool)

"""openai for Python, Responses."""

import json

import openai

from driver import TOOL_HELP, TOOL_NAME, TOOL_SCHEMA, main, shell

MODEL = "gpt-5.4"
TOOLS = [{"type": "function", "name": TOOL_NAME, "description": TOOL_HELP, "parameters": TOOL_SCHEMA}]
client = openai.OpenAI()


def plain(prompt):
    return client.responses.create(model=MODEL, input=prompt).output_text


def stream(prompt):
    with client.responses.stream(model=MODEL, input=prompt) as events:
        return events.get_final_response().output_text


def tool(prompt):
    items = [{"role": "user", "content": prompt}]
    asked = client.responses.create(model=MODEL, input=items, tools=TOOLS)
    items += asked.output
    for item in asked.output:
        if item.type == "function_call":
            output = shell(**json.loads(item.arguments))
            items.append({"type": "function_call_output", "call_id": item.call_id, "output": output})
    return client.responses.create(model=MODEL, input=items, tools=TOOLS).output_text


main(plain, stream, tool)

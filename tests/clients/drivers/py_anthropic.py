"""anthropic for Python, Messages."""

import anthropic

from driver import TOOL_HELP, TOOL_NAME, TOOL_SCHEMA, main, shell

COMMON = {"model": "claude-sonnet-4-5", "max_tokens": 1000}
TOOLS = [{"name": TOOL_NAME, "description": TOOL_HELP, "input_schema": TOOL_SCHEMA}]
client = anthropic.Anthropic()


def text_of(message):
    return "".join(block.text for block in message.content if block.type == "text")


def plain(prompt):
    return text_of(client.messages.create(**COMMON, messages=[{"role": "user", "content": prompt}]))


def stream(prompt):
    with client.messages.stream(**COMMON, messages=[{"role": "user", "content": prompt}]) as events:
        return text_of(events.get_final_message())


def tool(prompt):
    messages = [{"role": "user", "content": prompt}]
    asked = client.messages.create(**COMMON, messages=messages, tools=TOOLS)
    results = [
        {"type": "tool_result", "tool_use_id": block.id, "content": shell(**block.input)}
        for block in asked.content
        if block.type == "tool_use"
    ]
    messages += [{"role": "assistant", "content": asked.content}, {"role": "user", "content": results}]
    return text_of(client.messages.create(**COMMON, messages=messages, tools=TOOLS))


main(plain, stream, tool)

"""ollama for Python, chat."""

import ollama

from driver import main, shell

MODEL = "llama3.2"


def plain(prompt):
    return ollama.chat(MODEL, messages=[{"role": "user", "content": prompt}]).message.content


def stream(prompt):
    chunks = ollama.chat(MODEL, messages=[{"role": "user", "content": prompt}], stream=True)
    return "".join(chunk.message.content or "" for chunk in chunks)


def tool(prompt):
    messages = [{"role": "user", "content": prompt}]
    asked = ollama.chat(MODEL, messages=messages, tools=[shell]).message
    messages.append(asked)
    for call in asked.tool_calls:
        output = shell(**call.function.arguments)
        messages.append({"role": "tool", "tool_name": call.function.name, "content": output})
    return ollama.chat(MODEL, messages=messages, tools=[shell]).message.content


main(plain, stream, tool)

"""LangChain chat models, with init_chat_model. CLIENT_MODEL names the vendor and the model."""

import os

from langchain.chat_models import init_chat_model
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool as as_tool

from driver import main, shell

model = init_chat_model(os.environ["CLIENT_MODEL"])
TOOLS = [as_tool(shell)]


def plain(prompt):
    return model.invoke(prompt).text


def stream(prompt):
    return "".join(chunk.text for chunk in model.stream(prompt))


def tool(prompt):
    bound = model.bind_tools(TOOLS)
    messages = [HumanMessage(prompt)]
    asked = bound.invoke(messages)
    messages.append(asked)
    messages += [ToolMessage(shell(**call["args"]), tool_call_id=call["id"]) for call in asked.tool_calls]
    return bound.invoke(messages).text


main(plain, stream, tool)

"""LangChain's agent, which runs on LangGraph, with its own loop around a shell tool."""

import os

from langchain.agents import create_agent

from driver import main, shell

# The default of LangGraph would end a runaway before anybody else has to.
STEPS_MAX = 120
agent = create_agent(os.environ["CLIENT_MODEL"], tools=[shell])


def question(prompt):
    return {"messages": [{"role": "user", "content": prompt}]}


def run(prompt):
    return agent.invoke(question(prompt), {"recursion_limit": STEPS_MAX})["messages"][-1].text


def stream(prompt):
    pieces = agent.stream(question(prompt), stream_mode="messages")
    return "".join(chunk.text for chunk, _ in pieces)


main(run, stream, run, loop=run)

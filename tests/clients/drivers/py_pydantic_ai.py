"""Pydantic AI, with its own loop around a shell tool. CLIENT_MODEL names the vendor and the model."""

import os

from pydantic_ai import Agent

from driver import main, shell

agent = Agent(os.environ["CLIENT_MODEL"], tools=[shell])


def run(prompt):
    return agent.run_sync(prompt).output


def stream(prompt):
    result = agent.run_stream_sync(prompt)
    return "".join(result.stream_text(delta=True))


main(run, stream, run, loop=run)

"""OpenAI's Agents SDK with its tools behind estop.

    pip install estop-client openai-agents
    estop serve &
    OPENAI_BASE_URL=http://127.0.0.1:4100/openai/v1 python openai_agents_tools.py "What is the weather in Rome?"
"""

import asyncio
import sys

from agents import Agent, OpenAIResponsesModel, Runner, UserError, function_tool, set_tracing_disabled
from estop_client import AsyncEstop, ToolDenied
from openai import AsyncOpenAI

# Traces go to OpenAI, not through estop.
set_tracing_disabled(True)


async def weather(city: str) -> str:
    """Says how the weather in a city is."""
    print("weather ran", flush=True)
    return f"sun in {city}"


def build(run):
    # Without failure_error_function=None the SDK tells the model of the denial, and goes on.
    guarded = function_tool(run.guard(weather), failure_error_function=None)
    # The same agent and run for the model's requests: then one stop is a stop of both.
    client = AsyncOpenAI(default_headers=run.headers)
    model = OpenAIResponsesModel(model="gpt-5.4", openai_client=client)
    return Agent(name="helper", instructions="You help.", model=model, tools=[guarded])


async def main(prompt):
    async with AsyncEstop(agent="openai-agents").run("example-agents") as run:
        (await run.turn(prompt)).raise_if_denied()
        try:
            end = await Runner.run(build(run), prompt, max_turns=30)
            print("answer:", end.final_output)
        except UserError as error:
            # How the SDK wraps what a tool raises.
            if not isinstance(error.__cause__, ToolDenied):
                raise
            print("stopped:", error.__cause__.reason)


asyncio.run(main(" ".join(sys.argv[1:]) or "Use a tool, please."))

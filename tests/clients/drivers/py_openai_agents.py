"""OpenAI's Agents SDK, with its own loop around a shell tool."""

import asyncio

from agents import Agent, Runner, function_tool

from driver import main, shell

# The default of 10 would end a runaway before anybody else has to.
TURNS_MAX = 60
agent = Agent(name="tester", instructions="You help.", model="gpt-5.4", tools=[function_tool(shell)])


def run(prompt):
    return Runner.run_sync(agent, prompt, max_turns=TURNS_MAX).final_output


def stream(prompt):
    async def streamed():
        result = Runner.run_streamed(agent, prompt)
        async for _ in result.stream_events():
            pass
        return result.final_output

    return asyncio.run(streamed())


main(run, stream, run, loop=run)

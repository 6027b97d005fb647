"""LangGraph with its tools behind estop.

    pip install estop-client langgraph langchain-openai
    estop serve &
    OPENAI_BASE_URL=http://127.0.0.1:4100/openai/v1 python langgraph_tools.py "What is the weather in Rome?"
"""

import sys

from estop_client import Estop, ToolDenied
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition


def weather(city: str) -> str:
    """Says how the weather in a city is."""
    print("weather ran", flush=True)
    return f"sun in {city}"


def build(run):
    tools = [tool(run.guard(weather))]
    # The same agent and run for the model's requests: then one stop is a stop of both.
    model = ChatOpenAI(model="gpt-5.4", default_headers=run.headers).bind_tools(tools)

    def ask(state: MessagesState):
        return {"messages": [model.invoke(state["messages"])]}

    graph = StateGraph(MessagesState)
    graph.add_node("ask", ask)
    graph.add_node("tools", ToolNode(tools))
    graph.add_edge(START, "ask")
    graph.add_conditional_edges("ask", tools_condition)
    graph.add_edge("tools", "ask")
    return graph.compile()


def main(prompt):
    with Estop(agent="langgraph").run("example-langgraph") as run:
        run.turn(prompt).raise_if_denied()
        try:
            end = build(run).invoke({"messages": [("user", prompt)]})
            print("answer:", end["messages"][-1].text)
        except ToolDenied as denied:
            print("stopped:", denied.reason)


main(" ".join(sys.argv[1:]) or "Use a tool, please.")

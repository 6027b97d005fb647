"""An MCP server of the official SDK, which writes down every call it gets. Usage: server.py LOG stdio | server.py LOG http PORT"""

import sys

import anyio
import mcp_types as types
from mcp.server.mcpserver import Context, MCPServer

LOG = sys.argv[1]
server = MCPServer("probe")


def log(text):
    with open(LOG, "a") as file:
        file.write(text + "\n")


@server.tool()
async def add(a: int, b: int) -> int:
    """Adds."""
    log(f"add {a} {b}")
    return a + b


@server.tool()
async def never() -> str:
    """Must not be reached."""
    log("never")
    return "reached"


@server.tool()
async def count(ctx: Context) -> str:
    """Says how far it is."""
    for step in range(3):
        await ctx.report_progress(step + 1, 3, f"step {step + 1}")
    return "counted"


@server.tool()
async def slow(ctx: Context) -> str:
    """Takes longer than anybody waits."""
    log("slow begins")
    await ctx.report_progress(1, 2, "begun")
    try:
        await anyio.sleep(60)
    except anyio.get_cancelled_exc_class():
        log("slow cancelled")
        raise
    return "done"


@server.tool()
async def ask(ctx: Context) -> str:
    """Asks the client's model."""
    text = types.SamplingMessage(role="user", content=types.TextContent(type="text", text="äöü?"))
    answer = await ctx.session.create_message(messages=[text], max_tokens=10)
    return answer.content.text


@server.tool()
async def grow(ctx: Context) -> str:
    """Gets one more tool, and says so."""
    server.add_tool(lambda: "new", name="new", description="new")
    await ctx.session.send_tool_list_changed()
    return "grown"


@server.resource("note://one")
def note() -> str:
    """A note."""
    return "a note: ü"


log("up")
if sys.argv[2] == "stdio":
    server.run("stdio")
else:
    server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[3]), streamable_http_path="/mcp")

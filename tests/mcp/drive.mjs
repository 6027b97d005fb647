// The official SDK for JavaScript and its test server through both gates. Run by run.py.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { execFileSync } from "node:child_process";

const at = JSON.parse(process.argv[2]);
let failed = false;
function check(what, held, seen) {
  console.log(`  ${held ? "fine" : "WRONG"}: ${what}${held ? "" : ` (${JSON.stringify(seen)})`}`);
  failed ||= !held;
}
const estop = (...words) => execFileSync(at.estop, [...words, "--data-dir", at.data_dir]);

async function connected(transport) {
  const client = new Client({ name: "probe", version: "1" }, { capabilities: {} });
  await client.connect(transport);
  return client;
}
const gate = (agent) => new StdioClientTransport({
  command: at.estop,
  args: ["mcp", "--server", "everything", "--agent", agent, "--data-dir", at.data_dir, "--", "node", at.everything, "stdio"],
  stderr: "ignore",
});

const stdio = await connected(gate("js"));
const tools = (await stdio.listTools()).tools.map((tool) => tool.name);
check("js stdio: server-everything lists its tools", tools.includes("echo"), tools);
const echo = await stdio.callTool({ name: "echo", arguments: { message: "ü" } });
check("js stdio: a call passes", echo.content[0].text.includes("ü"), echo);
const steps = [];
const long = tools.find((name) => /long/i.test(name));
await stdio.callTool({ name: long, arguments: { duration: 1, steps: 2 } }, undefined, { onprogress: (p) => steps.push(p.progress) });
check("js stdio: progress passes", steps.length >= 1, steps);
check("js stdio: resources pass", (await stdio.listResources()).resources.length > 0);
const running = stdio.callTool({ name: long, arguments: { duration: 60, steps: 60 } });
await new Promise((resolve) => setTimeout(resolve, 700));
const begun = Date.now();
estop("agents", "deactivate", "js");
const stopped = await running;
check(`js stdio: a stopped call is a tool error after ${Date.now() - begun} ms`, stopped.isError === true && /estop/.test(stopped.content[0].text), stopped);
const denied = await stdio.callTool({ name: "echo", arguments: { message: "x" } });
check("js stdio: what comes after is denied", denied.isError === true, denied);
await stdio.close();

const http = await connected(new StreamableHTTPClientTransport(new URL(`${at.url}/agents/js-http/mcp/probe`)));
const sum = await http.callTool({ name: "add", arguments: { a: 2, b: 3 } });
check("js http: a call passes", sum.content[0].text === "5", sum);
const slow = http.callTool({ name: "slow", arguments: {} });
await new Promise((resolve) => setTimeout(resolve, 700));
estop("agents", "deactivate", "js-http");
const cut = await slow;
check("js http: a stopped call is a tool error", cut.isError === true && /estop/.test(cut.content[0].text), cut);
const after = await http.callTool({ name: "never", arguments: {} });
check("js http: what comes after is denied", after.isError === true, after);
await http.close();
process.exit(failed ? 1 : 0);

// Guarded tools: asked before, told after, and not run when denied.
import assert from "node:assert/strict";
import { execFile, spawnSync } from "node:child_process";
import test from "node:test";
import { promisify } from "node:util";
import { Estop, RunEnded, ToolDenied } from "estop-client";
import { ALLOW, deny, environment, FakeEstop, told, warnings } from "./fake.js";

async function begun(test) {
  environment(test);
  const fake = await FakeEstop.start(test);
  const ran = [];
  const tool = ({ city }) => {
    ran.push(city);
    return `sun in ${city}`;
  };
  return { fake, ran, tool, estop: new Estop({ socket: fake.socket, agent: "a", run: "r" }) };
}

test("TL-1 a call is asked, run and told", async (t) => {
  const { fake, estop, tool } = await begun(t);
  assert.equal(await estop.guard("weather", tool)({ city: "Rome" }), "sun in Rome");
  const [asked, after] = fake.seen.map(({ body }) => body);
  assert.deepEqual([asked.tool, asked.args], ["weather", { city: "Rome" }]);
  assert.deepEqual([after.result, after.call], ["sun in Rome", asked.call]);
  await estop.guard("add", (a, b) => a + b)(1, 2);
  assert.deepEqual(fake.seen[2].body.args, { args: [1, 2] });
});

test("a denied tool does not run", async (t) => {
  const { fake, estop, tool, ran } = await begun(t);
  fake.denies(deny("max tool calls reached (5/5)"));
  await assert.rejects(estop.guard("weather", tool)({ city: "Rome" }), ToolDenied);
  const returned = await estop.guard("weather", tool, { onDenied: "return" })({ city: "Rome" });
  assert.equal(returned, "max tool calls reached (5/5)");
  assert.deepEqual(ran, []);
  assert.deepEqual(fake.paths(), Array(2).fill("/api/hooks/pre-tool-use"), "what did not run has no result");
  fake.denies(deny("stopped", true));
  await assert.rejects(estop.guard("weather", tool, { onDenied: "return" })({}), RunEnded);
});

test("a failing tool is told as failed and still throws", async (t) => {
  const { fake, estop } = await begun(t);
  const broken = estop.guard("broken", () => {
    throw new RangeError("x");
  });
  await assert.rejects(broken(), RangeError);
  assert.deepEqual([fake.seen[1].body.failed, fake.seen[1].body.result], [true, "RangeError: x"]);
});

test("CB-4 a process tells its exit code, returned or thrown", async (t) => {
  const { fake, estop } = await begun(t);
  const script = ["-e", "console.log('no'); process.exit(3)"];
  await estop.guard("bash", () => spawnSync(process.execPath, script))();
  await assert.rejects(estop.guard("bash", () => promisify(execFile)(process.execPath, script))());
  await estop.guard("bash", () => ({ mine: 4 }), { exitCode: (result) => result.mine })();
  const [returned, thrown, own] = [1, 3, 5].map((at) => fake.seen[at].body);
  assert.deepEqual([returned.exit_code, returned.result.trim()], [3, "no"]);
  assert.deepEqual([thrown.exit_code, thrown.failed, own.exit_code], [3, true, 4]);
  assert.match(thrown.result, /no/);
});

test("CB-2 a warning reaches the model once", async (t) => {
  const { fake, estop, tool } = await begun(t);
  const context = "Approaching limit: max tool calls at 4/5 (80%).";
  fake.says({ ...ALLOW, context });
  assert.equal(await estop.guard("weather", tool)({ city: "Rome" }), `sun in Rome\n\n${context}`);
  const heard = [];
  await estop.guard("t", () => ({ sun: 1 }), { onContext: (text) => heard.push(text) })();
  assert.deepEqual(heard, [context]);
  const warned = warnings(t);
  assert.deepEqual(await estop.guard("t", () => ({ sun: 1 }))(), { sun: 1 });
  await told();
  assert.match(warned[0], /4\/5/);
  fake.answer = (path) => [200, path.endsWith("pre-tool-use") ? ALLOW : deny("a is inactive")];
  assert.equal(await estop.guard("weather", tool)({ city: "Rome" }), "sun in Rome\n\na is inactive");
});

test("tools of the AI SDK keep everything but their execute", async (t) => {
  const { fake, estop, tool, ran } = await begun(t);
  const tools = { weather: { description: "d", inputSchema: {}, execute: tool }, asked: { description: "no execute" } };
  const guarded = estop.guardTools(tools, { onDenied: "return" });
  assert.equal(guarded.asked, tools.asked);
  assert.equal(guarded.weather.description, "d");
  assert.equal(tools.weather.execute, tool, "what was given stays as it is");
  assert.equal(await guarded.weather.execute({ city: "Rome" }, { toolCallId: "x" }), "sun in Rome");
  fake.denies(deny("no"));
  assert.equal(await guarded.weather.execute({ city: "Oslo" }), "no");
  assert.deepEqual(ran, ["Rome"]);
});

test("a tool that gives its result in pieces is told the last", async (t) => {
  const { fake, estop, ran } = await begun(t);
  async function* pieces() {
    ran.push(1);
    yield "half";
    yield "whole";
  }
  const all = async (tool) => {
    const got = [];
    for await (const piece of tool()) got.push(piece);
    return got;
  };
  assert.deepEqual(await all(estop.guard("t", pieces)), ["half", "whole"]);
  assert.equal(fake.seen[1].body.result, "whole");
  fake.denies(deny("no"));
  assert.deepEqual(await all(estop.guard("t", pieces, { onDenied: "return" })), ["no"]);
  await assert.rejects(all(estop.guard("t", pieces)), ToolDenied);
  assert.equal(ran.length, 1);
});

test("what cannot be guarded is said", async (t) => {
  const { estop, tool } = await begun(t);
  assert.throws(() => estop.guard("t", function* () {}), /generator/);
  assert.throws(() => estop.guard("t", tool, { onDenied: "ignore" }), TypeError);
  assert.throws(() => estop.guard(tool), TypeError);
});

// The client against a real estop, which tests/packages/run.py starts. It denies the fifth tool call of a run.
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import test from "node:test";
import { Estop, Refused, RunEnded, ToolDenied } from "estop-client";

const { ESTOP_TEST_SOCKET: socket, ESTOP_TEST_URL: url, ESTOP_TEST_KEY: key } = process.env;
const LIMIT = 5;
const skip = socket && url && key ? false : "no estop runs: see tests/packages/run.py";
const name = () => `t-${randomUUID().slice(0, 8)}`;

test("CB-2 calls are counted, and the one at the limit does not run", { skip }, async () => {
  const ran = [];
  const said = [];
  await new Estop({ socket, agent: "node" }).run(name(), async (run) => {
    const tool = run.guard("note", ({ n }) => (ran.push(n), "ok"));
    const all = async () => {
      for (let n = 0; n < 100; n++) said.push(await tool({ n }));
    };
    await assert.rejects(all(), (error) => error instanceof ToolDenied && /max tool calls.*5\/5/.test(error.message));
    assert.equal((await run.preToolUse("note", {})).allowed, false, "and it stays so");
    assert.equal((await run.preToolUse("report_complete", {})).allowed, true, "wrapping up is allowed (CB-6)");
  });
  assert.deepEqual(ran, [0, 1, 2, 3]);
  assert.equal(said[0], "ok");
  assert.match(said[3], /max tool calls at 4\/5/);
});

test("CB-7 a run goes through its states", { skip }, async () => {
  const run = new Estop({ socket, agent: "node", run: name() });
  assert.equal((await run.start({ issue: "acme/app#7" })).state, "ACTIVE");
  await assert.rejects(run.start(), (error) => error instanceof Refused && error.status === 409);
  assert.equal((await run.sleep()).state, "SLEEPING");
  assert.equal((await run.wake()).state, "ACTIVE");
  assert.ok((await run.turn("hello")).allowed);
  await run.turnEnd("done");
  assert.equal((await run.wake()).state, "ACTIVE", "the end of a turn had put it to sleep");
  assert.ok((await run.preToolUse("bash", { command: "npm test" }, "c")).allowed);
  await run.postToolUse("bash", { command: "npm test" }, "1 failed", { exitCode: 1, call: "c" });
  const shown = await run.complete();
  assert.deepEqual([shown.state, shown.turns, shown.iterations, shown.tool_calls], ["COMPLETED", 1, 1, 1]);
  const over = await run.preToolUse("bash", {});
  assert.throws(() => over.orThrow(), RunEnded);
  assert.equal((await run.activate()).state, "ACTIVE");
  await run.complete();
});

test("ID-2 a key acts only as its agent", { skip }, async () => {
  await new Estop({ url, key, agent: "keyed" }).run(name(), async (run) => {
    assert.ok((await run.preToolUse("bash", {})).allowed);
    await run.sleep();
    await run.wake();
  }, { issue: "acme/app#8" });
  const other = new Estop({ url, key, agent: "node", onUnreachable: "allow" });
  assert.equal((await other.preToolUse("bash", {})).allowed, false);
  const wrong = new Estop({ url, key: "estop-key-wrong", agent: "keyed", onUnreachable: "allow" });
  const verdict = await wrong.preToolUse("bash", {});
  assert.ok(!verdict.allowed && !verdict.reason.includes("estop-key-wrong"));
});

test("many at once are all counted", { skip }, async () => {
  const run = new Estop({ socket, agent: "node", run: name() });
  const verdicts = await Promise.all(Array.from({ length: 24 }, () => run.preToolUse("t", {})));
  assert.ok(verdicts.every((verdict) => verdict.reached));
  assert.equal(verdicts.filter((verdict) => verdict.allowed).length, LIMIT - 1);
});

test("CB-1 a new agent may begin, with limits of its run alone", { skip }, async () => {
  const agent = `new-${name()}`;
  await new Estop({ socket, agent }).run("first", async (run) => {
    assert.ok((await run.preToolUse("t", {})).allowed);
    assert.match((await run.preToolUse("t", {})).reason, /2\/2/);
  }, { issue: "acme/app#9", limits: { max_tool_calls: 2 } });
});

// The client against an estop that says what it is told to.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import net from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test from "node:test";
import { inspect } from "node:util";
import { Estop, EstopError, Refused, RunEnded, ToolDenied, Unreachable } from "estop-client";
import { ALLOW, deny, environment, FakeEstop, told, warnings } from "./fake.js";

const NOWHERE = "/nonexistent/estop.sock";
const KEY = "estop-key-0123456789abcdef";
const PROBLEM = { status: 409, code: "conflict", detail: "It is escalated." };

async function begun(test) {
  environment(test);
  const fake = await FakeEstop.start(test);
  return { fake, estop: new Estop({ socket: fake.socket, agent: "a", run: "r" }) };
}

test("TL-1 a call is asked in the generic form", async (t) => {
  const { fake, estop } = await begun(t);
  const verdict = await estop.preToolUse("bash", { command: "ls" }, "c1");
  assert.ok(verdict.allowed && verdict.reached);
  const asked = { tool: "bash", args: { command: "ls" }, call: "c1", agent: "a", run: "r" };
  assert.deepEqual(fake.seen.map(({ path, body }) => [path, body]), [["/api/hooks/pre-tool-use", asked]]);
});

test("TL-1 a result is told with its exit code, CB-3 so are turns", async (t) => {
  const { fake, estop } = await begun(t);
  await estop.postToolUse("bash", {}, "3 failed", { exitCode: 1, call: "c1" });
  const { result, exit_code, call } = fake.seen[0].body;
  assert.deepEqual([result, exit_code, call, "failed" in fake.seen[0].body], ["3 failed", 1, "c1", false]);
  fake.says({ ...ALLOW, context: "max turns at 40/50" });
  assert.equal((await estop.turn("hello")).context, "max turns at 40/50");
  await estop.turnEnd("done");
  assert.equal(fake.seen[1].body.prompt, "hello");
  assert.equal(fake.seen[2].body.last_words, "done");
});

test("a denial has its reason and can be thrown", async (t) => {
  const { fake, estop } = await begun(t);
  fake.says(deny("max tool calls reached (5/5)"));
  const verdict = await estop.preToolUse("bash");
  assert.throws(() => verdict.orThrow("bash"), { name: "ToolDenied", tool: "bash", message: /5\/5/ });
  fake.says(deny("stopped", true));
  const end = await estop.turn("hello");
  assert.throws(() => end.orThrow(), (error) => error instanceof RunEnded && error instanceof ToolDenied);
});

test("only a clear yes is a yes", async (t) => {
  const { fake } = await begun(t);
  const estop = new Estop({ socket: fake.socket, onUnreachable: "allow" });
  const rubbish = ["", "[]", "null", "ok", {}, { permission: "allow" }, { ...ALLOW, permission: "Allow" }];
  for (const said of rubbish) {
    fake.says(said);
    assert.equal((await estop.preToolUse("bash")).allowed, false, inspect(said));
  }
  for (const status of [400, 401, 403, 404, 413, 429, 500, 503]) {
    fake.says({ code: "forbidden", detail: "Not with this token." }, status);
    const verdict = await estop.preToolUse("bash");
    assert.equal(verdict.allowed, false);
    assert.match(verdict.reason, /Not with this token/);
  }
});

test("values that are no JSON are told all the same", async (t) => {
  const { fake, estop } = await begun(t);
  const loop = {};
  loop.loop = loop;
  const odd = () => ({
    nan: NaN, big: 10n, set: new Set([1]), loop, half: "\ud800", date: new Date(0), run() {}, long: "x".repeat(300_000),
  });
  await estop.preToolUse("t", odd());
  await estop.preToolUse("t", odd());
  const [first, second] = fake.seen.map(({ body }) => body.args);
  assert.deepEqual(first, second);
  assert.deepEqual([first.nan, first.big, first.set, first.date], ["NaN", "10", [1], "1970-01-01T00:00:00.000Z"]);
  assert.equal(first.half, "\ufffd");
  assert.ok(first.long.length < 70_000 && first.long.includes("sha256"));
});

test("CB-7 steps of a run; a refused one throws", async (t) => {
  const { fake, estop } = await begun(t);
  fake.says({ id: "a:r", state: "ACTIVE" }, 201);
  assert.equal((await estop.start({ role: "pm" })).state, "ACTIVE");
  assert.deepEqual(fake.seen[0].body, { agent: "a", run: "r", role: "pm" });
  fake.says({ id: "a:r", state: "COMPLETED" });
  for (const step of ["activate", "sleep", "wake", "complete"]) await estop[step]();
  const steps = ["activate", "sleep", "wake", "complete"].map((step) => `/api/runs/a:r/${step}`);
  assert.deepEqual(fake.paths(), ["/api/runs", ...steps]);
  fake.says(PROBLEM, 409);
  await assert.rejects(estop.complete(), { name: "Refused", status: 409, code: "conflict", message: /It is escalated/ });
  await assert.rejects(new Estop({ socket: fake.socket }).complete(), /which run/);
});

test("a run begins and ends with its work", async (t) => {
  const { fake } = await begun(t);
  const estop = new Estop({ socket: fake.socket, agent: "a" });
  const work = async (run) => {
    assert.deepEqual([run.runName, estop.runName], ["r2", undefined]);
    await run.preToolUse("bash");
    throw new RangeError("own");
  };
  await assert.rejects(estop.run("r2", work), RangeError);
  const hooks = ["session-start", "pre-tool-use", "session-end"].map((event) => `/api/hooks/${event}`);
  assert.deepEqual(fake.paths(), hooks);
  assert.ok(fake.seen.every(({ body }) => body.run === "r2" && body.agent === "a"));
});

test("a run that may not begin runs nothing, and an open one goes on", async (t) => {
  const { fake } = await begun(t);
  warnings(t);
  const never = () => assert.fail("ran");
  const estop = new Estop({ socket: fake.socket, agent: "a" });
  fake.says(deny("a is inactive"));
  await assert.rejects(estop.run("r2", never), ToolDenied);
  await assert.rejects(new Estop({ socket: NOWHERE }).run("r2", never), Unreachable);
  const open = new Estop({ socket: NOWHERE, onUnreachable: "allow" });
  assert.ok(await open.run("r2", async (run) => (await run.preToolUse("bash")).allowed));
  fake.answer = (path) => (path === "/api/runs" ? [409, PROBLEM] : [200, ALLOW]);
  assert.equal(await estop.run("r2", () => 7, { issue: "acme/app#7" }), 7);
  fake.says({ code: "forbidden", detail: "Not with this token." }, 403);
  await assert.rejects(estop.run("r2", never, { issue: "acme/app#7" }), Refused);
});

test("many may ask at once", async (t) => {
  const { fake, estop } = await begun(t);
  const all = await Promise.all(Array.from({ length: 64 }, (_, n) => estop.preToolUse("t", { n })));
  assert.ok(all.every((verdict) => verdict.allowed && verdict.reached));
  assert.equal(new Set(fake.seen.map(({ body }) => body.args.n)).size, 64);
});

test("TL-2 inside estop run everything comes from the environment", async (t) => {
  const fake = await FakeEstop.start(t);
  const ticket = "t".repeat(64);
  environment(t, {
    ESTOP_SOCKET: fake.socket, ESTOP_TICKET: ticket, ESTOP_AGENT: "a", ESTOP_RUN: "r", ESTOP_ADMIN_URL: "http://wrong:1",
  });
  await new Estop({ agent: "b" }).run("other", async (run) => {
    assert.deepEqual([run.agent, run.runName], ["a", "r"], "the ticket's");
    assert.deepEqual(run.headers, { "x-estop-agent": "a", "x-estop-run": "r" });
    await run.preToolUse("bash");
  });
  assert.equal(fake.seen[1].headers["x-estop-ticket"], ticket);
  assert.ok(!("run" in fake.seen[1].body));
});

test("an address and a key", async (t) => {
  const fake = await FakeEstop.start(t);
  environment(t, { ESTOP_ADMIN_URL: fake.url, ESTOP_KEY: KEY });
  assert.ok((await new Estop().preToolUse("bash")).allowed);
  assert.equal(fake.seen[0].headers.authorization, `Bearer ${KEY}`);
});

test("wrong settings are refused", (t) => {
  environment(t);
  const wrong = [
    { url: "ftp://x" }, { url: "127.0.0.1:4101" }, { url: "http://x", socket: "y" }, { timeoutMs: 0 },
    { onUnreachable: "maybe" }, { url: "http://me:secret@host" }, { key: "a b" }, { key: "a\nb" },
  ];
  for (const options of wrong) {
    assert.throws(() => new Estop(options), (error) => error instanceof TypeError && !/secret/.test(error.message));
  }
});

test("no secret is shown", async (t) => {
  environment(t, { ESTOP_TICKET: "ticket-canary" });
  const heard = warnings(t);
  const estop = new Estop({ url: "http://127.0.0.1:9", key: KEY });
  const verdict = await estop.preToolUse("bash");
  await told();
  const shown = inspect(estop, { showHidden: true, depth: 9 }) + JSON.stringify(estop) + inspect(verdict) + heard;
  assert.equal(heard.length, 1);
  assert.ok(!shown.includes(KEY) && !shown.includes("ticket-canary"), shown);
});

const unreached = [
  [{}, {}, true], [{ run: "r" }, {}, false], [{}, { ESTOP_RUN: "r" }, false], [{}, { ESTOP_TICKET: "t" }, false],
  [{ onUnreachable: "deny" }, {}, false], [{ run: "r", onUnreachable: "allow" }, {}, true],
  [{}, { ESTOP_ON_UNREACHABLE: "deny" }, false],
];
for (const [options, variables, allowed] of unreached) {
  test(`TL-2 unreached: ${inspect({ ...options, ...variables })}`, async (t) => {
    environment(t, variables);
    warnings(t);
    const verdict = await new Estop({ socket: NOWHERE, ...options }).preToolUse("bash");
    assert.deepEqual([verdict.allowed, verdict.reached], [allowed, false]);
    assert.match(verdict.reason, /cannot be reached/);
  });
}

test("it is said once and again when it is over", async (t) => {
  const { fake } = await begun(t);
  const heard = warnings(t);
  const estop = new Estop({ url: fake.url });
  fake.says("bad gateway", 502);
  for (let n = 0; n < 5; n++) assert.ok((await estop.preToolUse("bash")).allowed);
  fake.says(ALLOW);
  for (let n = 0; n < 2; n++) await estop.preToolUse("bash");
  await told();
  assert.equal(heard.length, 2, inspect(heard));
  assert.match(heard[0], /WITHOUT its guard/);
  assert.match(heard[1], /answers again/);
});

test("steps follow it too", async (t) => {
  environment(t);
  warnings(t);
  assert.equal(await new Estop({ socket: NOWHERE, run: "r", onUnreachable: "allow" }).complete(), undefined);
  await assert.rejects(new Estop({ socket: NOWHERE, run: "r" }).complete(), EstopError);
});

for (const how of ["silent", "one byte now and then"]) {
  test(`an estop that does not answer is given up: ${how}`, async (t) => {
    environment(t);
    warnings(t);
    const sockets = [];
    const server = net.createServer((socket) => {
      sockets.push(socket.on("error", () => {}));
      if (how === "silent") return;
      socket.write("HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n");
      const timer = setInterval(() => socket.write("x"), 20);
      socket.on("close", () => clearInterval(timer));
    });
    await new Promise((done) => server.listen(0, "127.0.0.1", done));
    const url = `http://127.0.0.1:${server.address().port}`;
    const verdict = await new Estop({ url, onUnreachable: "deny", timeoutMs: 300 }).preToolUse("bash");
    assert.equal(verdict.allowed, false);
    assert.match(verdict.reason, /no answer within 0.3 s/);
    for (const socket of sockets) socket.destroy();
    server.close();
  });
}

/** The socket of a script that serves, in another process, as estop is: it answers while this one writes. */
async function served(test, script) {
  environment(test);
  const folder = mkdtempSync(join(tmpdir(), "estop-client-"));
  const path = join(folder, "s");
  const server = spawn(process.execPath, ["-e", script, path], { stdio: ["ignore", "pipe", "inherit"] });
  test.after(() => {
    server.kill();
    rmSync(folder, { recursive: true });
  });
  await once(server.stdout, "data");
  return path;
}

// Refuses at once, without reading the rest.
const REFUSES = `
  const problem = JSON.stringify({ code: "unauthenticated", detail: "Who is there?" });
  require("node:net").createServer((socket) => {
    socket.on("error", () => {});
    socket.once("data", () => {
      socket.pause();
      socket.end("HTTP/1.1 401 X\\r\\ncontent-length: " + problem.length + "\\r\\n\\r\\n" + problem, () => socket.destroy());
    });
  }).listen(process.argv[1], () => console.log("up"));`;

test("ID-2 a refusal before the question was heard is no silence", async (t) => {
  const estop = new Estop({ socket: await served(t, REFUSES), key: KEY, onUnreachable: "allow" });
  for (const texts of [1, 5, 50].flatMap((count) => Array(10).fill(Array(count).fill("x".repeat(60_000))))) {
    const verdict = await estop.preToolUse("bash", { texts });
    assert.equal(verdict.allowed, false, `${texts.length}: ${verdict.reason}`);
    assert.match(verdict.reason, /Who is there/);
  }
});

// Answers nobody for a while, with a queue of one.
const BUSY = `
  const answer = JSON.stringify(${JSON.stringify(ALLOW)});
  const server = require("node:http").createServer((_, response) => response.end(answer));
  server.listen({ path: process.argv[1], backlog: 1 }, () => {
    require("node:fs").writeSync(1, "up");
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 300);
  });`;

test("a full queue is waited for", async (t) => {
  const estop = new Estop({ socket: await served(t, BUSY), onUnreachable: "allow" });
  const all = await Promise.all(Array.from({ length: 32 }, () => estop.preToolUse("t")));
  assert.deepEqual(all.filter((verdict) => !verdict.reached), []);
});

test("a long question is sent although nobody asks for it", async (t) => {
  environment(t);
  const answer = JSON.stringify(ALLOW);
  // Knows nothing of `Expect`.
  const server = net.createServer((socket) => {
    let size = 0;
    socket.on("data", (part) => {
      size += part.length;
      if (size > 60_000) socket.end(`HTTP/1.1 200 X\r\ncontent-length: ${answer.length}\r\n\r\n${answer}`);
    });
  });
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  t.after(() => server.close());
  const estop = new Estop({ url: `http://127.0.0.1:${server.address().port}`, onUnreachable: "deny" });
  assert.ok((await estop.preToolUse("t", { text: "x".repeat(60_000) })).allowed);
});

// An estop that says what it is told to, over TCP and a Unix socket, and remembers what it was asked.
import { mkdtempSync, rmSync } from "node:fs";
import http from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";

export const ALLOW = { permission: "allow", reason: null, context: null, end: false };
export const deny = (reason, end = false) => ({ permission: "deny", reason, context: null, end });

export class FakeEstop {
  seen = [];
  answer = () => [200, ALLOW];

  /** For a test: it ends with it. */
  static async start(test) {
    const fake = new FakeEstop();
    const folder = mkdtempSync(join(tmpdir(), "estop-client-"));
    fake.socket = join(folder, "estop.sock");
    const [unix, tcp] = [fake.server(), fake.server()];
    await new Promise((done) => unix.listen(fake.socket, done));
    await new Promise((done) => tcp.listen(0, "127.0.0.1", done));
    fake.url = `http://127.0.0.1:${tcp.address().port}`;
    test.after(() => {
      unix.close();
      tcp.close();
      rmSync(folder, { recursive: true });
    });
    return fake;
  }

  server() {
    return http.createServer((request, response) => {
      const parts = [];
      request.on("data", (part) => parts.push(part));
      request.on("end", () => {
        const text = Buffer.concat(parts).toString();
        const body = text ? JSON.parse(text) : undefined;
        this.seen.push({ path: request.url, headers: request.headers, body });
        const [status, said] = this.answer(request.url, body);
        response.writeHead(status).end(typeof said === "string" ? said : JSON.stringify(said));
      });
    });
  }

  says(answer, status = 200) {
    this.answer = () => [status, answer];
  }

  denies(answer) {
    this.answer = (path) => [200, path.endsWith("pre-tool-use") ? answer : ALLOW];
  }

  paths() {
    return this.seen.map(({ path }) => path);
  }
}

/** Only these variables, whatever the machine has, for a test. */
export function environment(test, variables = {}) {
  const before = { ...process.env };
  for (const name of Object.keys(process.env)) if (/^(ESTOP|XDG)_/.test(name)) delete process.env[name];
  Object.assign(process.env, variables);
  test.after(() => {
    for (const name of Object.keys(variables)) delete process.env[name];
    Object.assign(process.env, before);
  });
}

/** What is warned of during a test. */
export function warnings(test) {
  const heard = [];
  const listen = (warning) => warning.name === "EstopWarning" && heard.push(warning.message);
  process.on("warning", listen);
  test.after(() => process.off("warning", listen));
  return heard;
}

/** Warnings are told in the next turn of the loop. */
export const told = () => new Promise((done) => setImmediate(done));

// What users write, read by tsc: the types say what the code does. Never run.
import { Estop, Refused, RunEnded, ToolDenied, Unreachable, Verdict, type RunInfo } from "estop-client";
import * as code from "../src/index.js";

const estop: Estop = new Estop({ agent: "a", run: "r", onUnreachable: "deny", timeoutMs: 1000 });
const verdict: Verdict = await estop.preToolUse("bash", { command: "ls" }, "c1");
if (!verdict.allowed) throw new ToolDenied("bash", verdict);
const text: string | null = verdict.orThrow("bash").context;
await estop.postToolUse("bash", {}, "x", { exitCode: 1, call: "c1" });

const weather = estop.guard("weather", ({ city }: { city: string }) => `sun in ${city}`);
const said: string = await weather({ city: "Rome" });
// @ts-expect-error: a guarded tool takes what the tool takes.
await weather({ town: "Rome" });
const number = estop.guard("n", async (n: number) => n, { onDenied: "return" });
const either: number | string = await number(1);
// @ts-expect-error: a denial that is returned is a text.
const never: number = await number(1);
const tools = estop.guardTools({ weather: { execute: weather } });
const again: string = await tools.weather.execute({ city: "Rome" });
const seven: number = await estop.run("r", (run) => (run.runName ? 7 : 8), { issue: "acme/app#7" });
const info: RunInfo | undefined = await estop.complete();
// @ts-expect-error: there is no such choice.
new Estop({ onUnreachable: "maybe" });

// The code has everything the types promise.
const promised: typeof import("estop-client") = code;
export { again, either, info, never, promised, Refused, RunEnded, said, seven, text, Unreachable };

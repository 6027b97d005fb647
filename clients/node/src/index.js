// Asks estop before a tool runs, and tells it what came of it. See index.d.ts for what there is.
export { Estop } from "./client.js";
export { EstopError, Refused, RunEnded, ToolDenied, Unreachable, Verdict } from "./said.js";

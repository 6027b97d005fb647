// What every Node driver shares: it reads the mode, makes the exchange and prints one JSON line. See driver.py.
import { execFileSync } from "node:child_process";

const PLAIN = "Say hello.";
const TOOL = "Use a tool, please.";
const LOOP = "loop forever with your shell tool";
const REPEATS_MAX = 30;
export const TOOL_NAME = "shell";
export const TOOL_HELP = "Runs a shell command and returns what it printed.";
export const TOOL_SCHEMA = { type: "object", properties: { command: { type: "string" } }, required: ["command"] };

export function shell({ command }) {
  return execFileSync("sh", ["-c", command], { encoding: "utf8", timeout: 20_000 });
}

export async function main({ plain, stream, tool, loop }) {
  const mode = process.argv[2];
  const result = { ok: true, text: null, error: null, exit: 0 };
  try {
    if (mode === "plain") {
      result.text = await plain(PLAIN);
    } else if (mode === "stream" || mode === "refused") {
      result.text = await stream(PLAIN);
    } else if (mode === "tool") {
      result.text = await tool(TOOL);
    } else if (mode === "stopped" && loop) {
      result.text = await loop(LOOP);
    } else if (mode === "stopped") {
      for (let i = 0; i < REPEATS_MAX; i++) result.text = await plain(PLAIN);
    } else {
      throw new Error(`unknown mode ${mode}`);
    }
  } catch (error) {
    Object.assign(result, { ok: false, error: `${error.name}: ${error.message}`, exit: 1 });
  }
  console.log(JSON.stringify(result));
}

// Installed by `estop install openclaw`; `estop uninstall openclaw` removes it. Do not edit: it is written anew.
//
// Asks estop before each tool and tells it what came of it. A tool runs only if estop said "allow".
import { spawn } from "node:child_process"

const COMMAND = ["estop:command"]
// OpenClaw itself refuses the tool after 15 s; this comes first, with a reason.
const TIMEOUT_MS = 12_000

function ask(event, payload) {
  return new Promise((resolve, reject) => {
    const child = spawn(COMMAND[0], [...COMMAND.slice(1), "hook", "openclaw", event, "--installed"], {
      stdio: ["pipe", "pipe", "ignore"],
    })
    const timer = setTimeout(() => {
      child.kill("SIGKILL")
      reject(new Error("estop did not answer in time"))
    }, TIMEOUT_MS)
    let answer = ""
    child.stdout.setEncoding("utf8")
    child.stdout.on("data", (piece) => (answer += piece))
    child.on("error", (error) => {
      clearTimeout(timer)
      reject(new Error(`estop could not be started: ${error.message}`))
    })
    child.on("close", () => {
      clearTimeout(timer)
      try {
        resolve(JSON.parse(answer))
      } catch {
        reject(new Error("estop gave no answer that can be read"))
      }
    })
    child.stdin.on("error", () => {})
    child.stdin.end(JSON.stringify(payload))
  })
}

const base = (ctx) => ({
  session: ctx?.sessionKey ?? ctx?.sessionId ?? "",
  subagent: ctx?.agentId,
  cwd: ctx?.workspaceDir,
  model: ctx?.modelId,
})

const textOf = (result) =>
  (result?.content ?? []).map((part) => (part?.type === "text" ? part.text : "")).join("\n")

export default {
  id: "estop",
  name: "estop",
  description: "Asks estop before each tool call.",
  register(api) {
    api.on("before_tool_call", async (event, ctx) => {
      try {
        const args = event.params ?? {}
        const answer = await ask("pre-tool-use", { ...base(ctx), call: event.toolCallId, tool: event.toolName, args })
        if (answer?.permission === "allow") return undefined
        return { block: true, blockReason: answer?.reason ?? "estop refused this tool call" }
      } catch (error) {
        return { block: true, blockReason: `estop refused this tool call: ${error.message}` }
      }
    })
    api.on("after_tool_call", async (event, ctx) => {
      const payload = {
        ...base(ctx),
        call: event.toolCallId,
        tool: event.toolName,
        args: event.params ?? {},
        result: event.error ? String(event.error) : textOf(event.result),
        failed: Boolean(event.error) || event.result?.details?.status === "error",
      }
      await ask("post-tool-use", payload).catch(() => null)
    })
  },
}

// Installed by `estop install opencode`; `estop uninstall opencode` removes it. Do not edit: it is written anew.
//
// Asks estop before each tool and tells it what came of it. Whatever goes wrong before a tool is a refusal: a tool runs
// only if estop said "allow". Nothing that goes wrong elsewhere disturbs the session.
import { spawn } from "node:child_process"

const COMMAND = ["estop:command"]
// estop answers within seconds or not at all; its own limit is shorter.
const TIMEOUT_MS = 60_000

function ask(event, payload) {
  return new Promise((resolve, reject) => {
    const child = spawn(COMMAND[0], [...COMMAND.slice(1), "hook", "opencode", event, "--installed"], {
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
    // A child that is gone already is reported by "error" or "close".
    child.stdin.on("error", () => {})
    child.stdin.end(JSON.stringify(payload))
  })
}

async function tell(event, payload) {
  try {
    return await ask(event, payload)
  } catch {
    return null
  }
}

export const EstopPlugin = async ({ directory }) => {
  const base = (session) => ({ session: session ?? "", cwd: directory })
  // Sessions that have begun; bounded, because a server may live for months.
  const known = new Set()
  const begin = async (session) => {
    if (!session || known.has(session)) return
    if (known.size >= 1000) known.clear()
    known.add(session)
    await tell("session-start", base(session))
  }
  return {
    "chat.message": async (input, output) => {
      await begin(input.sessionID)
      const texts = (output.parts ?? []).filter((part) => part.type === "text" && !part.synthetic)
      const prompt = texts.map((part) => part.text).join("\n")
      const model = input.model?.modelID
      const answer = await tell("prompt-submit", { ...base(input.sessionID), prompt, model })
      if (answer?.permission === "deny") throw new Error(answer.reason ?? "estop refused this prompt")
    },
    "tool.execute.before": async (input, output) => {
      const payload = { ...base(input.sessionID), call: input.callID, tool: input.tool, args: output.args ?? {} }
      const answer = await ask("pre-tool-use", payload)
      // An error is opencode's only way to refuse a tool.
      if (answer?.permission !== "allow") throw new Error(answer?.reason ?? "estop refused this tool call")
    },
    "tool.execute.after": async (input, output) => {
      const exit = output?.metadata?.exit
      const payload = {
        ...base(input.sessionID),
        call: input.callID,
        tool: input.tool,
        args: input.args ?? {},
        result: String(output?.output ?? ""),
        ...(Number.isInteger(exit) ? { exit_code: exit } : {}),
      }
      const answer = await tell("post-tool-use", payload)
      const words = [answer?.permission === "deny" ? answer.reason : null, answer?.context].filter(Boolean).join("\n")
      if (words && typeof output?.output === "string") output.output += `\n\n${words}`
    },
    event: async ({ event }) => {
      if (event?.type === "session.idle") await tell("turn-end", base(event.properties?.sessionID))
    },
  }
}

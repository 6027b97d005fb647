// Vercel's AI SDK with its tools behind estop.
//
//     npm install estop-client ai @ai-sdk/openai zod
//     estop serve &
//     OPENAI_BASE_URL=http://127.0.0.1:4100/openai/v1 node vercel-ai-tools.mjs "What is the weather in Rome?"
import { createOpenAI } from "@ai-sdk/openai";
import { generateText, isStepCount, tool } from "ai";
import { Estop, ToolDenied } from "estop-client";
import { z } from "zod";

const weather = tool({
  description: "Says how the weather in a city is.",
  inputSchema: z.object({ city: z.string() }),
  execute: async ({ city }) => {
    console.log("weather ran");
    return `sun in ${city}`;
  },
});

// The SDK tells the model of a tool that throws, and goes on: a denial must stop it here.
const denial = (steps) =>
  steps.at(-1)?.content.find((part) => part.type === "tool-error" && part.error instanceof ToolDenied)?.error;

const prompt = process.argv.slice(2).join(" ") || "Use a tool, please.";
await new Estop({ agent: "vercel" }).run("example-vercel", async (run) => {
  (await run.turn(prompt)).orThrow();
  // The same agent and run for the model's requests: then one stop is a stop of both.
  const openai = createOpenAI({ headers: run.headers });
  const { text, steps } = await generateText({
    model: openai("gpt-5.4"),
    prompt,
    tools: run.guardTools({ weather }),
    stopWhen: [isStepCount(30), ({ steps }) => denial(steps) !== undefined],
  });
  const denied = denial(steps);
  console.log(denied ? `stopped: ${denied.reason}` : `answer: ${text}`);
});

// Vercel's AI SDK, with its own loop around a shell tool. CLIENT_VENDOR names the provider package.
import { generateText, isStepCount, streamText, tool as asTool } from "ai";
import { z } from "zod";
import { main, shell, TOOL_HELP } from "./driver.mjs";

const STEPS_MAX = 60;
const model = await makeModel(process.env.CLIENT_VENDOR);
const inputSchema = z.object({ command: z.string() });
const tools = { shell: asTool({ description: TOOL_HELP, inputSchema, execute: shell }) };

async function makeModel(vendor) {
  if (vendor === "openai") return (await import("@ai-sdk/openai")).openai("gpt-5.4");
  if (vendor === "anthropic") return (await import("@ai-sdk/anthropic")).anthropic("claude-sonnet-4-5");
  // These two have no variable for the address: code only.
  const baseURL = process.env.CLIENT_BASE_URL;
  const apiKey = "test";
  if (vendor === "google") {
    return (await import("@ai-sdk/google")).createGoogleGenerativeAI({ baseURL, apiKey })("gemini-2.5-pro");
  }
  const { createOpenAICompatible } = await import("@ai-sdk/openai-compatible");
  return createOpenAICompatible({ name: "compatible", baseURL, apiKey })("any");
}

async function plain(prompt) {
  return (await generateText({ model, prompt })).text;
}

async function stream(prompt) {
  let failure;
  const result = streamText({ model, prompt, onError: ({ error }) => (failure = error) });
  let text = "";
  for await (const piece of result.textStream) text += piece;
  if (failure) throw failure;
  return text;
}

async function run(prompt) {
  return (await generateText({ model, prompt, tools, stopWhen: isStepCount(STEPS_MAX) })).text;
}

await main({ plain, stream, tool: run, loop: run });

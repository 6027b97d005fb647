// @anthropic-ai/sdk for Node, Messages.
import Anthropic from "@anthropic-ai/sdk";
import { main, shell, TOOL_HELP, TOOL_NAME, TOOL_SCHEMA } from "./driver.mjs";

const common = { model: "claude-sonnet-4-5", max_tokens: 1000 };
const tools = [{ name: TOOL_NAME, description: TOOL_HELP, input_schema: TOOL_SCHEMA }];
const client = new Anthropic();

const textOf = (message) => message.content.map((block) => block.text ?? "").join("");

async function plain(prompt) {
  return textOf(await client.messages.create({ ...common, messages: [{ role: "user", content: prompt }] }));
}

async function stream(prompt) {
  const messages = [{ role: "user", content: prompt }];
  return textOf(await client.messages.stream({ ...common, messages }).finalMessage());
}

async function tool(prompt) {
  const messages = [{ role: "user", content: prompt }];
  const asked = await client.messages.create({ ...common, messages, tools });
  const results = asked.content
    .filter((block) => block.type === "tool_use")
    .map((block) => ({ type: "tool_result", tool_use_id: block.id, content: shell(block.input) }));
  messages.push({ role: "assistant", content: asked.content }, { role: "user", content: results });
  return textOf(await client.messages.create({ ...common, messages, tools }));
}

await main({ plain, stream, tool });

// openai for Node, Chat Completions.
import OpenAI from "openai";
import { main, shell, TOOL_HELP, TOOL_NAME, TOOL_SCHEMA } from "./driver.mjs";

const model = "gpt-4o";
const tools = [{ type: "function", function: { name: TOOL_NAME, description: TOOL_HELP, parameters: TOOL_SCHEMA } }];
const client = new OpenAI();

async function plain(prompt) {
  const answer = await client.chat.completions.create({ model, messages: [{ role: "user", content: prompt }] });
  return answer.choices[0].message.content;
}

async function stream(prompt) {
  const messages = [{ role: "user", content: prompt }];
  let text = "";
  for await (const chunk of await client.chat.completions.create({ model, messages, stream: true })) {
    text += chunk.choices[0]?.delta.content ?? "";
  }
  return text;
}

async function tool(prompt) {
  const messages = [{ role: "user", content: prompt }];
  const asked = (await client.chat.completions.create({ model, messages, tools })).choices[0].message;
  messages.push(asked);
  for (const call of asked.tool_calls) {
    const content = shell(JSON.parse(call.function.arguments));
    messages.push({ role: "tool", tool_call_id: call.id, content });
  }
  return (await client.chat.completions.create({ model, messages, tools })).choices[0].message.content;
}

await main({ plain, stream, tool });

// openai for Node, Responses.
import OpenAI from "openai";
import { main, shell, TOOL_HELP, TOOL_NAME, TOOL_SCHEMA } from "./driver.mjs";

const model = "gpt-5.4";
const tools = [{ type: "function", name: TOOL_NAME, description: TOOL_HELP, parameters: TOOL_SCHEMA, strict: false }];
const client = new OpenAI();

async function plain(prompt) {
  return (await client.responses.create({ model, input: prompt })).output_text;
}

async function stream(prompt) {
  return (await client.responses.stream({ model, input: prompt }).finalResponse()).output_text;
}

async function tool(prompt) {
  const input = [{ role: "user", content: prompt }];
  const asked = await client.responses.create({ model, input, tools });
  input.push(...asked.output);
  for (const item of asked.output.filter((item) => item.type === "function_call")) {
    const output = shell(JSON.parse(item.arguments));
    input.push({ type: "function_call_output", call_id: item.call_id, output });
  }
  return (await client.responses.create({ model, input, tools })).output_text;
}

await main({ plain, stream, tool });

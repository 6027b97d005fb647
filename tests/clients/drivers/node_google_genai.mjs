// @google/genai for Node, generateContent.
import { GoogleGenAI } from "@google/genai";
import { main, shell, TOOL_HELP, TOOL_NAME, TOOL_SCHEMA } from "./driver.mjs";

const model = "gemini-2.5-pro";
const declaration = { name: TOOL_NAME, description: TOOL_HELP, parametersJsonSchema: TOOL_SCHEMA };
const config = { tools: [{ functionDeclarations: [declaration] }] };
const client = new GoogleGenAI({});

async function plain(prompt) {
  return (await client.models.generateContent({ model, contents: prompt })).text;
}

async function stream(prompt) {
  let text = "";
  for await (const chunk of await client.models.generateContentStream({ model, contents: prompt })) {
    text += chunk.text ?? "";
  }
  return text;
}

async function tool(prompt) {
  const contents = [{ role: "user", parts: [{ text: prompt }] }];
  const asked = await client.models.generateContent({ model, contents, config });
  contents.push(asked.candidates[0].content);
  const parts = asked.functionCalls.map((call) => ({
    functionResponse: { id: call.id, name: call.name, response: { output: shell(call.args) } },
  }));
  contents.push({ role: "user", parts });
  return (await client.models.generateContent({ model, contents, config })).text;
}

await main({ plain, stream, tool });

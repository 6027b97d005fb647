// Judges what arrived with packages of others; prints `ok …` or `FAILED …` for each. Run by drive.py.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { Webhook } from "standardwebhooks";

// Its modules are for bundlers; Node reads the bundle.
const cards = createRequire(import.meta.url)("adaptivecards/dist/adaptivecards.js");

const { seen, secrets } = JSON.parse(readFileSync(process.argv[2], "utf8"));
const say = (what, fine) => console.log(`${fine ? "ok" : "FAILED"} ${what}`);
const lower = (headers) => Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]));
const passes = (secret, body, headers) => {
  try {
    new Webhook(secret).verify(body, lower(headers));
    return true;
  } catch {
    return false;
  }
};

const hooks = seen.filter(({ path }) => path === "/webhook");
say("npm standardwebhooks takes our signatures", hooks.length === 3 && hooks.every(({ body, headers }) => secrets.every((secret) => passes(secret, body, headers))));
say("npm standardwebhooks refuses a tampered body", hooks.every(({ body, headers }) => !passes(secrets[0], `${body} `, headers)));

const teams = seen.filter(({ path }) => path === "/teams").map(({ body }) => JSON.parse(body));
for (const { type, attachments } of teams) {
  const context = new cards.SerializationContext();
  const card = new cards.AdaptiveCard();
  card.parse(attachments[0].content, context);
  const problems = Array.from({ length: context.eventCount }, (_, at) => context.getEventAt(at).message);
  const invalid = card.validateProperties().validationEvents.map(({ message }) => message);
  const fine = type === "message" && attachments[0].contentType === "application/vnd.microsoft.card.adaptive";
  say(`adaptivecards reads the card (${card.getItemCount()} parts) ${[...problems, ...invalid].join("; ")}`,
    fine && card.getItemCount() > 1 && problems.length + invalid.length === 0);
}

const ntfy = seen.filter(({ path }) => path === "/").map(({ body }) => JSON.parse(body));
const known = new Set(["topic", "title", "message", "priority", "tags", "click"]);
say("ntfy's messages have its fields and limits", ntfy.length === 3 && ntfy.every((message) => Object.keys(message).every((key) => known.has(key))
  && message.topic === "estop" && message.priority >= 1 && message.priority <= 5 && Buffer.byteLength(message.message) <= 4096));

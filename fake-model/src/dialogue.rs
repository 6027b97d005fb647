//! What the model answers: by rule, by the model's name, or by the default dialogue.

use crate::answer::{Answer, CHANT_REPEATS, Text, ToolCall, Usage};
use crate::ask::Ask;
use crate::schema::{COMMAND, fill};
use crate::script::{Delay, Hold, Reply, UsageReply};
use crate::tools::call_one;

/// What `fake-chant` says.
const CHANT: &str = "I will check the file again. ";

/// How much of a tool's result is quoted.
const QUOTE_CHARS: usize = 200;

/// What the name of a model alone asks for.
pub(crate) fn reply_by_model(model: &str) -> Reply {
    let model = model.strip_prefix("models/").unwrap_or(model);
    let name = model.rsplit('/').next().unwrap_or(model);
    match name {
        "fake-loop" => Reply { repeat_call: true, ..Reply::default() },
        "fake-loop-turns" => Reply { repeat_call_in_turns: true, ..Reply::default() },
        "fake-chant" => Reply { chant: Some(CHANT_REPEATS), ..Reply::default() },
        "fake-endless" => {
            Reply { endless: true, delay: Delay { chunk_ms: 20, ..Delay::default() }, ..Reply::default() }
        }
        "fake-slow" => {
            let delay = Delay { headers_ms: 1000, chunk_ms: 200, ..Delay::default() };
            Reply { delay, ..Reply::default() }
        }
        "fake-hold" => Reply { hold: Some(Hold::Headers), ..Reply::default() },
        "fake-error" => Reply { status: Some(500), ..Reply::default() },
        "fake-limited" => Reply { status: Some(429), ..Reply::default() },
        _ => Reply::default(),
    }
}

/// The answer to a request. `number` is the request's, `body_bytes` its length.
pub(crate) fn answer(ask: &Ask, reply: &Reply, number: u64, body_bytes: usize) -> Answer {
    let calls = calls(ask, reply);
    let text = if calls.is_empty() || reply.text.is_some() { text(ask, reply) } else { Text::once("") };
    let usage = match reply.usage {
        Some(UsageReply::Nothing(_)) => None,
        Some(UsageReply::Numbers(usage)) => Some(usage),
        None => Some(guess(body_bytes, &text, reply)),
    };
    Answer {
        number,
        model: ask.model.clone(),
        created: reply.created.unwrap_or_else(|| jiff::Timestamp::now().as_second()),
        reasoning: reply.reasoning.clone(),
        text,
        calls,
        usage,
        finish: reply.finish,
        usage_in_stream: ask.usage_in_stream,
    }
}

fn calls(ask: &Ask, reply: &Reply) -> Vec<ToolCall> {
    if !reply.tool_calls.is_empty() {
        return reply.tool_calls.clone();
    }
    if let Some(command) = &reply.shell {
        return call_one(&ask.tools, command).into_iter().collect();
    }
    if reply.text.is_some() || reply.chant.is_some() || reply.endless || reply.size.is_some() {
        return Vec::new();
    }
    let said = ask.person.to_lowercase();
    let in_turns = reply.repeat_call_in_turns || said.contains("loop forever in turns");
    let for_ever = in_turns || reply.repeat_call || said.contains("loop forever");
    let is_asked = said.contains("tool") && ask.result.is_none();
    if !for_ever && !is_asked {
        return Vec::new();
    }
    let call = call_one(&ask.tools, COMMAND);
    let is_other_turn = in_turns && ask.result.as_ref().is_some_and(|result| result.contains(TURN));
    call.map(|call| if is_other_turn { other_turn(call) } else { call }).into_iter().collect()
}

/// What the command of the first of two turns prints, and that of the second.
const TURN: &str = "estop-tool-ok";
const OTHER_TURN: &str = "estop-tool-too";

/// The same call with the other word. Which turn it is shows in the last result, so that nothing must be remembered.
fn other_turn(call: ToolCall) -> ToolCall {
    let arguments = call.arguments.to_string().replace(TURN, OTHER_TURN);
    let arguments = serde_json::from_str(&arguments).unwrap_or_default();
    ToolCall { arguments, ..call }
}

fn text(ask: &Ask, reply: &Reply) -> Text {
    let said = reply.text.clone();
    if reply.endless {
        return Text { unit: said.unwrap_or_else(|| CHANT.to_owned()), times: usize::MAX };
    }
    if let Some(times) = reply.chant {
        return Text { unit: said.unwrap_or_else(|| CHANT.to_owned()), times: times.min(CHANT_REPEATS) };
    }
    if let Some(size) = reply.size {
        return Text::once(filler(size));
    }
    Text::once(said.unwrap_or_else(|| default_text(ask)))
}

fn default_text(ask: &Ask) -> String {
    if let Some(schema) = &ask.json {
        return fill(schema, "").to_string();
    }
    let Some(result) = &ask.result else {
        return "Hello from the fake model. All is well.".to_owned();
    };
    let skipped = result.chars().count().saturating_sub(QUOTE_CHARS);
    format!("tool said: {}", result.chars().skip(skipped).collect::<String>())
}

/// Numbered lines, so that a lost or doubled part shows.
fn filler(size: usize) -> String {
    let mut text = String::with_capacity(size + 16);
    let mut line = 0;
    while text.len() < size {
        text.push_str(&format!("line {line:08}\n"));
        line += 1;
    }
    text.truncate(size);
    text
}

/// About four bytes a token, as everywhere; some of it cached, some of it reasoning, so that nobody forgets those.
fn guess(body_bytes: usize, text: &Text, reply: &Reply) -> Usage {
    let tokens = |bytes: usize| u64::try_from(bytes / 4 + 1).unwrap_or(u64::MAX);
    let said = text.unit.len().saturating_mul(text.times.min(CHANT_REPEATS));
    let reasoning = reply.reasoning.as_ref().map_or(2, |thought| tokens(thought.len()));
    let input = tokens(body_bytes);
    Usage {
        input,
        output: tokens(said) + reasoning,
        cache_read: input / 4,
        cache_write: input / 8,
        reasoning,
    }
}

//! From requests and answers as they pass to traces: one for each conversation, in OpenAI chat format (docs/traces.md).
//!
//! A trace has what the detector saw of each request: the steps since the one before, and the newest words of a person. Where
//! these do not follow from what was recorded before, because the history was rewritten or something was left out, the
//! conversation goes on in a new part.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use estop_core::ended::{Ended, ended_by_text};
use serde_json::{Value, json};

/// Traces while they grow.
pub(super) struct Assembly {
    agent: String,
    began: jiff::Timestamp,
    traces: Vec<Trace>,
    /// The trace that a conversation goes on in.
    open: BTreeMap<String, usize>,
    /// Where the answer to a request belongs: trace and step.
    awaited: BTreeMap<u64, (usize, usize)>,
    /// Calls of answers by their ids, for requests that bring results alone.
    calls: BTreeMap<String, (String, String)>,
    /// System prompt, first and last words of each conversation, which are sent when they change.
    words: BTreeMap<String, [String; 3]>,
}

#[derive(Default)]
struct Trace {
    conversation: String,
    part: usize,
    after: Option<&'static str>,
    run: Option<String>,
    models: Vec<String>,
    messages: Vec<Value>,
    earlier: usize,
    steps: Vec<Step>,
    dropped: u64,
    calls_made: usize,
    retried: usize,
    overlapping: usize,
    shortened: Vec<usize>,
}

/// One request with its answer.
struct Step {
    at_ms: u64,
    answered_ms: Option<u64>,
    /// Its assistant message.
    message: usize,
    said: Identity,
    failed: bool,
    is_answered: bool,
}

/// What makes the same request sent again.
#[derive(Clone, PartialEq)]
struct Identity {
    last_user: String,
    steps: Value,
    text_bytes: u64,
}

impl Assembly {
    pub(super) fn new(agent: &str, began: jiff::Timestamp) -> Assembly {
        Assembly {
            agent: agent.to_owned(),
            began,
            traces: Vec::new(),
            open: BTreeMap::new(),
            awaited: BTreeMap::new(),
            calls: BTreeMap::new(),
            words: BTreeMap::new(),
        }
    }

    /// One line of the recording.
    pub(super) fn add(&mut self, line: &Value) {
        if line["request"].is_u64() {
            self.request(line);
        } else if line["answer"].is_u64() {
            self.answer(line);
        }
    }

    fn request(&mut self, line: &Value) {
        let conversation = text(&line["conversation"]);
        let words = self.words.entry(conversation.clone()).or_default();
        for (word, key) in words.iter_mut().zip(["system", "first_user", "last_user"]) {
            if let Some(told) = line[key].as_str() {
                told.clone_into(word);
            }
        }
        let words = words.clone();
        let steps = self.steps_of(line);
        let said = Identity {
            last_user: words[2].clone(),
            steps: line["steps"].clone(),
            text_bytes: line["text_bytes"].as_u64().unwrap_or(0),
        };
        let mut at = self.open.get(&conversation).copied();
        let division = at.and_then(|at| self.traces[at].division(line, &said, &steps));
        if division.is_some() {
            at = None;
        }
        let trace = at.unwrap_or_else(|| {
            let part = 1 + self.traces.iter().filter(|trace| trace.conversation == conversation).count();
            let trace =
                Trace { conversation: conversation.clone(), part, after: division, ..Trace::default() };
            self.traces.push(trace);
            self.traces.len() - 1
        });
        self.open.insert(conversation, trace);
        let grown = &mut self.traces[trace];
        if at.is_some() {
            grown.go_on(line, &said, &steps);
        } else {
            grown.begin(line, &words, &steps);
        }
        let step = grown.ask(line, said);
        self.awaited.insert(line["request"].as_u64().unwrap_or(0), (trace, step));
    }

    /// Steps, those without a call with the one that an answer made.
    fn steps_of(&self, line: &Value) -> Vec<Value> {
        let mut steps = line["steps"].as_array().cloned().unwrap_or_default();
        for step in &mut steps {
            let known = step["call_id"].as_str().and_then(|id| self.calls.get(id));
            if let Some((tool, args)) = known {
                step["tool"] = json!(tool);
                step["args"] = json!(args);
            } else if step["call_id"].is_string() {
                step["tool"] = json!("unknown");
            }
        }
        steps
    }

    fn answer(&mut self, line: &Value) {
        let Some((trace, step)) = line["answer"].as_u64().and_then(|id| self.awaited.remove(&id)) else {
            return;
        };
        let calls = line["calls"].as_array().map(Vec::as_slice).unwrap_or_default();
        for call in calls {
            let id = text(&call["id"]);
            if !id.is_empty() {
                self.calls.insert(id, (text(&call["tool"]), text(&call["args"])));
            }
        }
        self.traces[trace].answered(step, line, calls);
    }

    /// All traces, as lines.
    pub(super) fn finish(self) -> Vec<Value> {
        let Assembly { agent, began, traces, .. } = self;
        let stamp = began.strftime("%Y%m%dT%H%M%S").to_string();
        let mut numbers: BTreeMap<String, usize> = BTreeMap::new();
        let line = |trace: Trace| {
            let next = numbers.len() + 1;
            let number = *numbers.entry(trace.conversation.clone()).or_insert(next);
            let id = match trace.part {
                1 => format!("{agent}-{stamp}-{number}"),
                part => format!("{agent}-{stamp}-{number}.{part}"),
            };
            trace.finish(&id, &agent, began)
        };
        traces.into_iter().map(line).collect()
    }
}

impl Trace {
    /// Why this request cannot go on in this trace.
    fn division(&self, line: &Value, said: &Identity, steps: &[Value]) -> Option<&'static str> {
        if line["dropped"].as_u64().unwrap_or(0) > self.dropped {
            return Some("something was left out");
        }
        let last = self.steps.last()?;
        let acted = &self.messages[last.message];
        let talked = acted["tool_calls"].is_null() && acted["content"].is_string();
        // New words after an answer that the request does not repeat: written down here, they would answer it.
        let is_new = said.last_user != last.said.last_user;
        (steps.is_empty() && talked && is_new).then_some("the history was rewritten")
    }

    /// The first request. What was done before it is told by a message that is no step.
    fn begin(&mut self, line: &Value, words: &[String; 3], steps: &[Value]) {
        let [system, first_user, last_user] = words;
        if !system.is_empty() {
            self.messages.push(json!({"role": "system", "content": system}));
        }
        if first_user != last_user && !first_user.is_empty() {
            self.messages.push(json!({"role": "user", "content": first_user}));
        }
        let continues = line["continues"] == true;
        if steps.is_empty() || continues {
            self.messages.push(json!({"role": "user", "content": last_user}));
        }
        if !steps.is_empty() {
            self.earlier = 1;
            self.messages.push(json!({"role": "assistant", "content": null}));
            self.done(self.messages.len() - 1, steps);
            if !continues && !ends_with_user(&self.messages, last_user) {
                self.messages.push(json!({"role": "user", "content": last_user}));
            }
        }
    }

    /// What came since the request before.
    fn go_on(&mut self, line: &Value, said: &Identity, steps: &[Value]) {
        let Some(last) = self.steps.last() else { return };
        if last.failed && last.said == *said {
            // The same request again, because the provider failed: it stands in the place of the failed one.
            self.messages.truncate(last.message);
            self.steps.pop();
            self.retried += 1;
            return;
        }
        let (acted, is_answered) = (last.message, last.is_answered);
        self.overlapping += usize::from(!is_answered);
        if said.text_bytes < last.said.text_bytes {
            self.shortened.push(self.steps.len() + 1);
        }
        let (is_new, continues) = (said.last_user != last.said.last_user, line["continues"] == true);
        if continues && is_new {
            self.messages.push(json!({"role": "user", "content": said.last_user}));
        }
        self.done(acted, steps);
        let is_told = continues || steps.is_empty() && !is_new;
        if !is_told && !ends_with_user(&self.messages, &said.last_user) {
            self.messages.push(json!({"role": "user", "content": said.last_user}));
        }
    }

    /// Writes the calls of an assistant message, as the request after it has them, and what came of them.
    fn done(&mut self, acted: usize, steps: &[Value]) {
        if steps.is_empty() {
            return;
        }
        if steps.iter().all(|step| step["tool"] == "" && step["call_id"].is_null()) {
            // It acted in text, and the reply is the result.
            for step in steps {
                self.messages[acted]["content"] = step["args"].clone();
                self.messages.push(json!({"role": "user", "content": step["result"]}));
            }
            return;
        }
        let mut calls = Vec::new();
        let mut left = self.messages[acted]["tool_calls"].as_array().cloned().unwrap_or_default();
        for step in steps {
            self.calls_made += 1;
            let id = format!("c{}", self.calls_made);
            calls.push(call(&id, &step["tool"], &step["args"]));
            let is_same = |made: &Value| made["function"]["name"] == step["tool"];
            if let Some(at) = left.iter().position(is_same) {
                left.remove(at);
            }
            let mut result = json!({"role": "tool", "tool_call_id": id, "content": step["result"]});
            let ended = serde_json::from_value(step["ended"].clone()).unwrap_or(Ended::Unknown);
            if ended != ended_by_text(step["result"].as_str().unwrap_or_default()) {
                result["ended"] = step["ended"].clone();
            }
            self.messages.push(result);
        }
        // Calls that nobody answered stay, behind those with a result.
        calls.append(&mut left);
        self.messages[acted]["tool_calls"] = calls.into();
    }

    /// The request itself: its answer follows.
    fn ask(&mut self, line: &Value, said: Identity) -> usize {
        self.dropped = line["dropped"].as_u64().unwrap_or(0);
        self.run = line["run"].as_str().map(str::to_owned).or(self.run.take());
        if let Some(model) =
            line["model"].as_str().filter(|model| !self.models.iter().any(|known| known == model))
        {
            self.models.push(model.to_owned());
        }
        let message = self.messages.len();
        self.messages.push(json!({"role": "assistant", "content": null}));
        let at_ms = line["at_ms"].as_u64().unwrap_or(0);
        self.steps.push(Step { at_ms, answered_ms: None, message, said, failed: false, is_answered: false });
        self.steps.len() - 1
    }

    fn answered(&mut self, step: usize, line: &Value, calls: &[Value]) {
        let Some(step) = self.steps.get_mut(step) else { return };
        step.is_answered = true;
        step.answered_ms = line["at_ms"].as_u64();
        step.failed = line["ended"] == "failed";
        let message = &mut self.messages[step.message];
        if line["ended"] != "ok" {
            message["ended"] = line["ended"].clone();
        }
        // A request that overtook this answer may have told already what was said and done.
        if message["content"].is_null() && !text(&line["text"]).is_empty() {
            message["content"] = line["text"].clone();
        }
        if message["tool_calls"].is_null() && !calls.is_empty() {
            let made = |made: &Value| call(&format!("a-{}", text(&made["id"])), &made["tool"], &made["args"]);
            message["tool_calls"] = calls.iter().map(made).collect();
        }
    }

    fn finish(self, id: &str, agent: &str, began: jiff::Timestamp) -> Value {
        let first = self.steps.first().map_or(0, |step| step.at_ms);
        let seconds = |ms: u64| ms.saturating_sub(first) as f64 / 1000.0;
        let mut meta = json!({
            "source": "estop record",
            "agent": agent,
            "recorded": began.to_string(),
            "run": self.run,
            "models": self.models,
            "conversation": self.conversation,
            "part": self.part,
            "at": self.steps.iter().map(|step| seconds(step.at_ms)).collect::<Vec<_>>(),
            "answered": self.steps.iter().map(|step| step.answered_ms.map(seconds)).collect::<Vec<_>>(),
        });
        if let Some(after) = self.after {
            meta["after"] = json!(after);
        }
        let counts =
            [("earlier", self.earlier), ("retried", self.retried), ("overlapping", self.overlapping)];
        for (key, count) in counts.into_iter().filter(|(_, count)| *count > 0) {
            meta[key] = json!(count);
        }
        if !self.shortened.is_empty() {
            meta["shortened"] = json!(self.shortened);
        }
        let mut messages = self.messages;
        for step in self.steps.iter().filter(|step| !step.is_answered) {
            messages[step.message]["ended"] = json!("aborted");
        }
        json!({"id": id, "label": null, "meta": meta, "messages": messages})
    }
}

fn call(id: &str, tool: &Value, args: &Value) -> Value {
    json!({"id": id, "type": "function", "function": {"name": tool, "arguments": args}})
}

fn ends_with_user(messages: &[Value], words: &str) -> bool {
    messages.last().is_some_and(|last| last["role"] == "user" && last["content"] == words)
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

//! Recorded agent traces: one JSON object a line, messages in OpenAI chat format (docs/traces.md).
//!
//! Request k is all messages before the k-th assistant message, response k is that message.

mod read;

use std::collections::BTreeMap;

use estop_core::ended::Ended;
use estop_core::fingerprint::{RequestText, ResponseText, StepText, ended_by_text};
use estop_core::run::test_command::TestRunners;

pub use read::{Label, Repetition, Trace, TraceError};
use read::{Message, MessageEnd, ToolCall};

/// One request and its answer.
pub struct Exchange<'a> {
    /// What the request says.
    pub request: RequestText<'a>,
    /// What the answer says.
    pub response: ResponseText<'a>,
    /// How it ended; `None` = its client did not wait for it.
    pub ended: Option<Ended>,
    /// Characters sent in all, for an estimate of tokens.
    pub input_chars: usize,
}

impl Trace {
    /// How many exchanges there are.
    pub fn steps(&self) -> usize {
        let answers = self.messages.iter().filter(|message| message.is("assistant")).count();
        answers.saturating_sub(self.earlier())
    }

    /// The exchanges, in order.
    pub fn exchanges<'a>(&'a self, runners: &'a TestRunners) -> impl Iterator<Item = Exchange<'a>> {
        let mut said = Said::default();
        let mut since_answer = 0;
        let all = self.messages.iter().enumerate().filter_map(move |(at, message)| {
            let answers = message.is("assistant");
            let exchange = answers.then(|| {
                let new = &self.messages[since_answer..at];
                since_answer = at;
                Exchange {
                    request: said.request(new),
                    response: response(message, runners),
                    ended: match message.ended() {
                        Some(MessageEnd::Aborted) => None,
                        Some(MessageEnd::Failed) => Some(Ended::Failed),
                        Some(MessageEnd::Ok | MessageEnd::Unknown) | None => Some(Ended::Ok),
                    },
                    input_chars: said.chars,
                }
            });
            said.add(message);
            exchange
        });
        all.skip(self.earlier())
    }
}

/// What was said up to some message, so that nothing is looked for twice.
#[derive(Default)]
struct Said<'a> {
    system: Option<&'a Message>,
    first_user: Option<&'a Message>,
    last_user: Option<&'a Message>,
    chars: usize,
}

impl<'a> Said<'a> {
    fn add(&mut self, message: &'a Message) {
        self.chars += message.text().len();
        if message.is("user") {
            self.first_user.get_or_insert(message);
            self.last_user = Some(message);
        } else if message.is("system") || message.is("developer") {
            self.system.get_or_insert(message);
        }
    }

    /// `new` begins with the answer before, if there was one.
    fn request(&self, new: &'a [Message]) -> RequestText<'a> {
        RequestText {
            system: self.system.map_or("", Message::text),
            first_user: self.first_user.map_or("", Message::text),
            run: None,
            last_user: self.last_user.map_or("", Message::text),
            continues: new.last().is_some_and(|m| m.is("tool")),
            steps: match new.split_first() {
                Some((acted, after)) if acted.is("assistant") => steps(acted, after),
                _ => Vec::new(),
            },
        }
    }
}

/// What an assistant message did, and what the messages after it say came of it.
fn steps<'a>(acted: &'a Message, after: &'a [Message]) -> Vec<StepText<'a>> {
    if acted.calls().is_empty() {
        let reply = after.iter().find(|m| m.is("user")).map(Message::text);
        let action = Some(acted.text()).filter(|text| !text.trim().is_empty());
        return action.zip(reply).map(|(args, result)| step("", args, result)).into_iter().collect();
    }
    let results: Vec<&Message> = after.iter().filter(|m| m.is("tool")).collect();
    let mut by_id: BTreeMap<&str, &Message> = BTreeMap::new();
    for result in &results {
        if let Some(id) = result.answers_call() {
            by_id.entry(id).or_insert(result);
        }
    }
    let result_of =
        |at: usize, call: &ToolCall| by_id.get(call.id.as_str()).or_else(|| results.get(at)).copied();
    let done = acted.calls().iter().enumerate().filter_map(|(at, call)| {
        let result = result_of(at, call)?;
        let known = result.ended().map(|ended| match ended {
            MessageEnd::Ok => Ended::Ok,
            MessageEnd::Failed => Ended::Failed,
            MessageEnd::Unknown | MessageEnd::Aborted => Ended::Unknown,
        });
        let step = step(&call.function.name, &call.function.arguments, result.text());
        Some(StepText { ended: known.unwrap_or(step.ended), ..step })
    });
    done.collect()
}

fn step<'a>(tool: &'a str, args: &'a str, result: &'a str) -> StepText<'a> {
    StepText { tool, args, result, ended: ended_by_text(result) }
}

fn response<'a>(message: &'a Message, runners: &TestRunners) -> ResponseText<'a> {
    let call = |c: &'a ToolCall| {
        let (name, arguments) = (c.function.name.as_str(), c.function.arguments.as_str());
        (name, arguments, runners.is_test_call(name, arguments))
    };
    ResponseText { text: message.text(), calls: message.calls().iter().map(call).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn test_runs(arguments: &str) -> bool {
        let runners = TestRunners::new(&["./ci.sh".to_owned()]).expect("a good pattern");
        runners.is_test_call("shell", arguments)
    }

    #[test]
    fn cb_4_a_command_may_be_a_line_or_a_list_of_words() {
        assert!(test_runs(r#"{"command": "cd web && cargo test"}"#));
        assert!(test_runs(r#"{"command": ["bash", "-lc", "cd web && cargo test"]}"#));
        assert!(test_runs(r#"{"cmd": ["./ci.sh", "--all"]}"#));
        assert!(!test_runs(r#"{"command": ["echo", "x; cargo test"]}"#), "a word is not a script");
        assert!(!test_runs("cargo test"));
    }

    #[test]
    fn results_are_found_by_their_call_and_else_by_their_place() {
        let line = r#"{"id":"t","messages":[{"role":"user","content":"go"},
            {"role":"assistant","tool_calls":[{"id":"a","function":{"name":"f","arguments":"1"}},
                {"function":{"name":"g","arguments":{"x":1}}}]},
            {"role":"tool","content":"for b"},{"role":"tool","content":"also b"},
            {"role":"tool","tool_call_id":"a","content":"for a"},
            {"role":"assistant","content":"done"}]}"#;
        let trace = Trace::parse(line.as_bytes()).expect("a trace");
        let runners = TestRunners::default();
        let last = trace.exchanges(&runners).last().expect("two exchanges");
        let steps: Vec<_> = last.request.steps.iter().map(|s| (s.tool, s.args, s.result)).collect();
        assert_eq!(steps, [("f", "1", "for a"), ("g", r#"{"x":1}"#, "also b")]);
        assert_eq!((trace.steps(), last.request.last_user, last.request.continues), (2, "go", true));
    }
}

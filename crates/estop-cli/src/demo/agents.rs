//! The agents of the demo: a healthy coder, a poller, a looper and an overspender. Each asks for its own model; what
//! the fake model answers to each stands here, too.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use estop_fake_model::script::Rule;
use serde_json::{Value, json};

use super::words::Words;

/// The agent that is to be stopped.
pub(super) const LOOPER: &str = "looper";
/// The agent that is to run out of money.
pub(super) const OVERSPENDER: &str = "overspender";
/// Answers the coder hears; it says a number, the model answers with that one's words.
const ANSWERS: u64 = 200;
/// Requests of the coder for each sentence of a person.
const STEPS: u64 = 6;
/// The poller looks into the log once in so many requests.
const LOG_EVERY: u64 = 5;
/// What makes it do so.
const SEE_LOG: &str = "running, see the log";

/// What agents and the story know of each other.
#[derive(Default)]
pub(super) struct DemoState {
    /// The demo is over.
    pub(super) over: AtomicBool,
    /// The overspender was told no.
    pub(super) overspender_refused: AtomicBool,
}

/// Who plays.
#[derive(Clone, Copy)]
pub(super) enum Agent {
    Coder,
    Poller,
    Looper,
    Overspender,
}

pub(super) fn agents() -> impl Iterator<Item = Agent> {
    [Agent::Coder, Agent::Poller, Agent::Looper, Agent::Overspender].into_iter()
}

/// What the fake model answers.
pub(super) fn rules() -> serde_json::Result<Vec<Rule>> {
    let mut rules = vec![
        json!({"match": {"model": "gpt-4o-mini", "contains": SEE_LOG}, "reply": {"tool_calls": [{"name": "tail_log", "arguments": {"job": "nightly"}}],
            "usage": {"input": 300, "output": 20, "cache_read": 0, "cache_write": 0, "reasoning": 0}}}),
        json!({"match": {"model": "gpt-4o-mini"}, "reply": {"tool_calls": [{"name": "job_status", "arguments": {"job": "nightly"}}],
            "usage": {"input": 300, "output": 20, "cache_read": 0, "cache_write": 0, "reasoning": 0}}}),
        json!({"match": {"model": "gpt-4.1"}, "reply": {"text": "Not yet. I will check again whether the build is done.",
            "usage": {"input": 900, "output": 60, "cache_read": 0, "cache_write": 0, "reasoning": 0}}}),
    ];
    for n in 0..ANSWERS {
        let part = format!("(part {n:04})");
        let (text, other) = (Words::from(n * 7919).some(14), Words::from(n * 104_729 + 7).some(14));
        rules.push(json!({"match": {"model": "gpt-4o", "contains": part}, "reply": {"text": other,
            "usage": {"input": 30, "output": 9_000, "cache_read": 0, "cache_write": 0, "reasoning": 0}}}));
        rules.push(
            json!({"match": {"contains": part}, "reply": {"text": text, "delay": {"first_byte_ms": 300}}}),
        );
    }
    rules.into_iter().map(serde_json::from_value).collect::<Result<_, _>>()
}

impl Agent {
    fn name(self) -> &'static str {
        match self {
            Agent::Coder => "coder",
            Agent::Poller => "poller",
            Agent::Looper => LOOPER,
            Agent::Overspender => OVERSPENDER,
        }
    }

    /// When it begins, and how long it thinks between two requests.
    fn pace(self) -> (Duration, Duration) {
        let ms = Duration::from_millis;
        match self {
            Agent::Coder => (ms(0), ms(2000)),
            Agent::Poller => (ms(1000), ms(2000)),
            Agent::Looper => (ms(5000), ms(1500)),
            Agent::Overspender => (ms(12_000), ms(1500)),
        }
    }

    /// Its n-th request.
    fn ask(self, n: u64) -> Value {
        let user = |text: String| json!({"role": "user", "content": text});
        match self {
            Agent::Coder => {
                // A person's sentence, then some steps by itself: fifty sentences in a minute would be a limit.
                let (task, part) =
                    (Words::from(n - n % STEPS).some(10), format!("(part {:04})", n % ANSWERS));
                if n.is_multiple_of(STEPS) {
                    return json!({"model": "gpt-5.4", "messages": [user(format!("{task} {part}"))]});
                }
                let file = Words::from(n * 31).some(1);
                json!({"model": "gpt-5.4", "messages": [
                    user(task),
                    {"role": "assistant", "content": null, "tool_calls": [{"id": format!("call_{n}"), "type": "function",
                        "function": {"name": "read_file", "arguments": format!("{{\"path\":\"src/{file}_{n}.rs\"}}")}}]},
                    {"role": "tool", "tool_call_id": format!("call_{n}"), "content": format!("{} {part}", Words::from(n).some(12))},
                ]})
            }
            Agent::Poller => {
                // Now and then it looks into the log: twenty times the same call without a break is what a loop does.
                let (tool, given) = match n % LOG_EVERY {
                    0 => ("tail_log", format!("{{\"job\":\"nightly\",\"from\":{n}}}")),
                    _ => ("job_status", "{\"job\":\"nightly\"}".to_owned()),
                };
                let news = if n % LOG_EVERY == LOG_EVERY - 1 { SEE_LOG } else { "running" };
                json!({"model": "gpt-4o-mini", "messages": [
                    user("Tell me when the nightly job is done.".to_owned()),
                    {"role": "assistant", "content": null, "tool_calls": [{"id": format!("call_{n}"), "type": "function",
                        "function": {"name": tool, "arguments": given}}]},
                    {"role": "tool", "tool_call_id": format!("call_{n}"), "content": format!("{news}: {}", Words::from(n).some(3))},
                ]})
            }
            Agent::Looper => json!({"model": "gpt-4.1", "messages": [user("Is the build done?".to_owned())]}),
            Agent::Overspender => {
                let words = Words::from(n + 500).some(10);
                json!({"model": "gpt-4o", "max_tokens": 9000, "messages": [user(format!("{words} (part {:04})", n % ANSWERS))]})
            }
        }
    }

    /// Works until the demo is over.
    pub(super) fn start(self, estop: SocketAddr, stage: Arc<DemoState>) -> std::io::Result<JoinHandle<()>> {
        std::thread::Builder::new().name(format!("demo-{}", self.name())).spawn(move || {
            let (first, pause) = self.pace();
            sleep(first, &stage.over);
            for n in 0.. {
                if stage.over.load(Ordering::Relaxed) {
                    return;
                }
                let is_refused = post(estop, self.name(), &self.ask(n)).is_ok_and(|status| status >= 400);
                if is_refused && matches!(self, Agent::Overspender) {
                    stage.overspender_refused.store(true, Ordering::Relaxed);
                }
                sleep(pause, &stage.over);
            }
        })
    }
}

fn sleep(mut left: Duration, over: &AtomicBool) {
    let step = Duration::from_millis(100);
    while !left.is_zero() && !over.load(Ordering::Relaxed) {
        std::thread::sleep(left.min(step));
        left = left.saturating_sub(step);
    }
}

/// Asks, and gives the status.
fn post(estop: SocketAddr, agent: &str, body: &Value) -> std::io::Result<u16> {
    let mut socket = TcpStream::connect_timeout(&estop, Duration::from_secs(5))?;
    socket.set_read_timeout(Some(Duration::from_secs(30)))?;
    let body = body.to_string();
    let head = format!(
        "POST /agents/{agent}/openai/v1/chat/completions HTTP/1.1\r\nhost: {estop}\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    socket.write_all(head.as_bytes())?;
    socket.write_all(body.as_bytes())?;
    let mut answer = Vec::new();
    socket.take(1 << 20).read_to_end(&mut answer)?;
    let status = answer.get(9..12).and_then(|digits| std::str::from_utf8(digits).ok());
    Ok(status.and_then(|digits| digits.parse().ok()).unwrap_or(0))
}

//! Reads a payload strictly where something depends on it, and leniently elsewhere.
//!
//! Session, tool, arguments and call decide; there a wrong type or a key that is there twice is an error, which
//! refuses the tool. A path or a model's name decides nothing: a client that changes its type is still served.

use std::borrow::Cow;

use estop_core::ended::Ended;
use estop_core::event::ToolGate;

use super::{HookClient, HookError, HookEvent, HookFault, HookIn, ToolCall, ToolResult, error};
use crate::json::{self, Fields, Kind, ParseError, ParseErrorKind, Raw, Scanner};

/// What a key of a payload is to us.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Key {
    Session,
    Agent,
    Run,
    Subagent,
    Cwd,
    Transcript,
    Model,
    Prompt,
    EventName,
    Tool,
    Args,
    Call,
    /// What came out of a tool, in the client's own shape.
    Result,
    /// Why a tool failed.
    Error,
    /// It was a person who broke it off.
    Interrupted,
    /// A tool's exit code or whether it failed, in our own form.
    ExitCode,
    Failed,
    LastMessage,
    /// Who saw the call, in our own form.
    Gate,
    /// A command outside of arguments (Cursor).
    Command,
    /// A session above the session (Cline).
    Root,
    /// A list of folders; the first is where it works.
    Roots,
    /// Arguments and result said again, all as texts (Cline).
    PlainArgs,
    PlainResult,
    Succeeded,
    /// An object with more of these keys inside. Numbered, because two keys of one meaning count as one key.
    Inside(u8),
}

/// What a payload holds, not yet understood.
#[derive(Default)]
pub(super) struct Seen<'a> {
    pub(super) session: Option<Cow<'a, str>>,
    pub(super) agent: Option<Cow<'a, str>>,
    pub(super) run: Option<Cow<'a, str>>,
    pub(super) subagent: Option<String>,
    pub(super) cwd: Option<String>,
    pub(super) transcript: Option<String>,
    pub(super) model: Option<String>,
    pub(super) prompt: Option<String>,
    pub(super) event_name: Option<Cow<'a, str>>,
    pub(super) tool: Option<Cow<'a, str>>,
    pub(super) args: Option<Raw<'a>>,
    pub(super) call: Option<Cow<'a, str>>,
    pub(super) result: Option<Raw<'a>>,
    pub(super) error: Option<Raw<'a>>,
    pub(super) interrupted: bool,
    pub(super) exit_code: Option<i64>,
    pub(super) failed: Option<bool>,
    pub(super) last_message: Option<String>,
    pub(super) gate: ToolGate,
    pub(super) command: Option<Cow<'a, str>>,
    pub(super) root: Option<Cow<'a, str>>,
    pub(super) roots: Option<Raw<'a>>,
    pub(super) plain_args: Option<Raw<'a>>,
    pub(super) plain_result: Option<Raw<'a>>,
}

/// How one client's payload is understood.
pub(super) struct Contract {
    pub(super) client: HookClient,
    pub(super) keys: &'static Fields<Key>,
    /// The keys inside [`Key::Inside`].
    pub(super) inside: &'static Fields<Key>,
    /// The event's name as in [`HookClient::events`], from what the payload says.
    pub(super) said: fn(&str) -> Option<&str>,
    /// The result of a tool.
    pub(super) result: fn(&Seen<'_>, &str) -> ToolResult,
}

impl Contract {
    pub(super) fn read(&self, event: Option<&str>, stdin: &[u8]) -> Result<HookIn, HookError> {
        let fail = |said: Option<&str>, why: HookFault| error(self.client, event, said, why);
        let mut said = None;
        let hook = json::document(stdin, |s| {
            let seen = self.see(s)?;
            said = seen.event_name.as_deref().and_then(|name| (self.said)(name)).map(str::to_owned);
            let named = self.event(event, said.as_deref());
            Ok(named.map(|(kind, name)| self.understand(seen, kind, &name)))
        });
        match hook {
            Ok(Ok(Ok(hook))) => Ok(hook),
            Ok(Ok(Err(fault))) => {
                let text = std::str::from_utf8(stdin).unwrap_or_default();
                Err(fail(said.as_deref(), fault.explain(text).into()))
            }
            Ok(Err(why)) => Err(fail(said.as_deref(), why)),
            Err(why) => Err(fail(said.as_deref(), why.into())),
        }
    }

    fn see<'a>(&self, s: &mut Scanner<'a>) -> Result<Seen<'a>, ParseError> {
        let mut seen = Seen::default();
        s.object(self.keys, |s, key| match key {
            Key::Inside(_) if s.kind()? == Kind::Object => s.object(self.inside, |s, key| seen.take(s, key)),
            Key::Inside(_) => s.skip().map(drop),
            Key::Session
            | Key::Agent
            | Key::Run
            | Key::Subagent
            | Key::Cwd
            | Key::Transcript
            | Key::Model
            | Key::Prompt
            | Key::EventName
            | Key::Tool
            | Key::Args
            | Key::Call
            | Key::Result
            | Key::Error
            | Key::Interrupted
            | Key::ExitCode
            | Key::Failed
            | Key::LastMessage
            | Key::Gate
            | Key::Command
            | Key::Root
            | Key::Roots
            | Key::PlainArgs
            | Key::PlainResult
            | Key::Succeeded => seen.take(s, key),
        })?;
        Ok(seen)
    }

    /// Which event it is. The command line is ours, the payload is the client's; they must not contradict each other.
    fn event(&self, event: Option<&str>, said: Option<&str>) -> Result<(HookEvent, String), HookFault> {
        let known = |name: &str| self.client.events().iter().find(|(known, _)| *known == name);
        match (event, said) {
            (Some(event), Some(said)) if event != said => Err(HookFault::OtherEvent(said.to_owned())),
            (Some(name), said) => match (known(name), said) {
                (Some((_, kind)), _) => Ok((*kind, name.to_owned())),
                // The client agrees that it has such an event.
                (None, Some(_)) => Ok((HookEvent::Other, name.to_owned())),
                (None, None) => Err(HookFault::UnknownEvent),
            },
            (None, Some(name)) => {
                Ok((known(name).map_or(HookEvent::Other, |(_, kind)| *kind), name.to_owned()))
            }
            (None, None) => Err(HookFault::NoEvent),
        }
    }

    fn understand(&self, seen: Seen<'_>, event: HookEvent, name: &str) -> Result<HookIn, ParseError> {
        let is_tool = matches!(event, HookEvent::ToolRequested | HookEvent::ToolFinished);
        let tool = if is_tool { Some(tool_call(&seen)?) } else { None };
        let result = (event == HookEvent::ToolFinished).then(|| (self.result)(&seen, name));
        Ok(HookIn {
            session: seen.root.or(seen.session).unwrap_or_default().into_owned(),
            agent: seen.agent.map(Cow::into_owned),
            run: seen.run.map(Cow::into_owned),
            subagent: seen.subagent,
            cwd: seen.cwd.or_else(|| seen.roots.as_ref().and_then(first_text)),
            transcript: seen.transcript,
            model: seen.model,
            prompt: seen.prompt,
            gate: seen.gate,
            tool,
            result,
            last_message: seen.last_message,
            ..HookIn::empty(self.client, event, name)
        })
    }
}

impl<'a> Seen<'a> {
    /// Takes the next value for this key. What a deeper object says again is the same thing in other words.
    fn take(&mut self, s: &mut Scanner<'a>, key: Key) -> Result<(), ParseError> {
        match key {
            Key::Session => self.session = s.text()?,
            Key::Agent => self.agent = s.text()?,
            Key::Run => self.run = s.text()?,
            Key::EventName => self.event_name = s.text()?,
            Key::Tool => self.tool = s.text()?.or(self.tool.take()),
            Key::Call => self.call = s.text()?,
            Key::Command => self.command = s.text()?,
            Key::Args => self.args = Some(s.skip()?),
            Key::Result => self.result = Some(s.skip()?),
            Key::Error => self.error = Some(s.skip()?),
            Key::Subagent => self.subagent = lenient(s)?,
            Key::Cwd => self.cwd = lenient(s)?,
            Key::Transcript => self.transcript = lenient(s)?,
            Key::Model => self.model = lenient(s)?,
            Key::Prompt => self.prompt = lenient(s)?,
            Key::LastMessage => self.last_message = lenient(s)?,
            Key::Gate => self.gate = gate(s)?,
            Key::Interrupted => self.interrupted = s.skip()?.text == "true",
            Key::ExitCode => self.exit_code = s.skip()?.text.parse().ok(),
            Key::Failed => self.failed = s.skip()?.text.parse().ok(),
            Key::Root => self.root = s.text()?,
            Key::Roots => self.roots = Some(s.skip()?),
            Key::PlainArgs => self.plain_args = Some(s.skip()?),
            Key::PlainResult => self.plain_result = Some(s.skip()?),
            Key::Succeeded => self.failed = s.skip()?.text.parse().ok().map(|worked: bool| !worked),
            Key::Inside(_) => drop(s.skip()?),
        }
        Ok(())
    }
}

/// Who saw the call: `hook` or `mcp`.
fn gate(s: &mut Scanner<'_>) -> Result<ToolGate, ParseError> {
    let found = s.kind()?;
    let wrong = s.shape("`hook` or `mcp`", found);
    match s.text()?.as_deref() {
        None | Some("hook") => Ok(ToolGate::Hook),
        Some("mcp") => Ok(ToolGate::Mcp),
        Some(_) => Err(wrong),
    }
}

/// Its text, or nothing if it is none.
fn lenient(s: &mut Scanner<'_>) -> Result<Option<String>, ParseError> {
    let raw = s.skip()?;
    Ok(text_of(&raw).map(Cow::into_owned))
}

/// The text of a value, if it is one.
pub(super) fn text_of<'a>(raw: &Raw<'a>) -> Option<Cow<'a, str>> {
    (raw.kind() == Kind::String).then(|| raw.decoded().ok()).flatten()
}

/// The first text of a list.
fn first_text(raw: &Raw<'_>) -> Option<String> {
    let mut first = None;
    let all = raw.scanner().list("a list", |s| {
        let item = s.skip()?;
        first = first.take().or_else(|| text_of(&item).map(Cow::into_owned));
        Ok(())
    });
    all.ok().and(first)
}

/// A value as text: a text as it is, everything else as its JSON.
pub(super) fn text_or_json<'a>(raw: &Raw<'a>) -> Cow<'a, str> {
    text_of(raw).unwrap_or(Cow::Borrowed(raw.text))
}

/// The value of a key of an object; nothing if it is no object or the key is not there exactly once.
pub(super) fn inner<'a>(raw: &Raw<'a>, key: &'static str) -> Option<Raw<'a>> {
    let mut found = None;
    let all = raw.scanner().object(&[(key, ())], |s, ()| {
        found = Some(s.skip()?);
        Ok(())
    });
    all.ok().and(found)
}

fn tool_call(seen: &Seen<'_>) -> Result<ToolCall, ParseError> {
    let missing = |name| ParseError { at: 0, what: ParseErrorKind::Missing(name) };
    let id = seen.call.as_deref().filter(|id| !id.is_empty()).map(str::to_owned);
    if let Some(command) = &seen.command {
        // Cursor's shell events have no tool: the command is the call.
        let args = serde_json::json!({ "command": command }).to_string();
        return Ok(ToolCall { id, name: "Shell".to_owned(), args });
    }
    let name = seen.tool.as_deref().filter(|name| !name.is_empty()).ok_or(missing("tool name"))?;
    Ok(ToolCall { id, name: name.to_owned(), args: arguments(seen.args.or(seen.plain_args).as_ref())? })
}

/// Arguments as JSON text. Two equal keys are an error: client and estop could read different commands.
fn arguments(args: Option<&Raw<'_>>) -> Result<String, ParseError> {
    let Some(raw) = args else { return Ok("{}".to_owned()) };
    match raw.kind() {
        Kind::Null => Ok("{}".to_owned()),
        Kind::Object => {
            raw.scanner().object(&[] as &Fields<()>, |_, ()| Ok(()))?;
            Ok(raw.text.to_owned())
        }
        // JSON inside a text, or a patch in plain text.
        Kind::String => raw.decoded().map(Cow::into_owned),
        Kind::Array | Kind::Bool | Kind::Number => Ok(raw.text.to_owned()),
    }
}

/// The result of clients that have one event for what worked and another for what failed.
pub(super) fn result_by_event(seen: &Seen<'_>, name: &str) -> ToolResult {
    let is_failure = name.to_ascii_lowercase().ends_with("failure");
    let raw = if is_failure { seen.error.or(seen.result) } else { seen.result.or(seen.error) };
    let text = raw.as_ref().map(text_or_json).unwrap_or_default().into_owned();
    let ended = match (is_failure, seen.interrupted) {
        // A person broke it off: nobody knows how it would have ended.
        (_, true) => Ended::Unknown,
        (true, false) => Ended::Failed,
        // It goes on in the background. Inside of its output the quotes would be escaped.
        (false, false) if text.contains("\"backgroundTaskId\":\"") => Ended::Unknown,
        (false, false) => Ended::Ok,
    };
    ToolResult { text, ended }
}

/// The exit code in the last line that says one, by what stands before the number.
pub(super) fn last_exit_code(text: &str, before: &str) -> Option<i64> {
    estop_core::steps::add(2 * text.len());
    let line = text.lines().rev().find_map(|line| line.split(before).nth(1))?;
    let digits: String = line.trim_start().chars().take_while(|c| c.is_ascii_digit() || *c == '-').collect();
    digits.parse().ok()
}

//! A conversation as it goes by, and the one rule for every protocol (FP-3, FP-4, FP-6) on what of it counts.
//!
//! - The system prompt is the first of its kind; the person's first words are the first message, or all before the
//!   first answer where the protocol takes messages in a row for one.
//! - A request continues if its newest input is tool results; what the system adds after them changes nothing.
//! - What was done are the calls of the newest assistant turn, each with its result, found by the call's id and else
//!   by its place. A turn without calls acted in text, and the person's reply is the result. If nothing follows the
//!   turn, nothing was done since: what came before it was told by an earlier request.
//!
//! The same rule as that of recorded traces, for histories of any length: nothing is decoded before the end, and only
//! one turn is remembered.

use std::borrow::Cow;
use std::collections::HashMap;

use estop_core::ended::{Ended, ended_by_text, is_still_running};
use estop_core::steps;

use super::content::{self, MessageContent, Speaker};
use super::insert::{is_insert, without};
use super::{RequestIn, StepIn};
use crate::json::{Kind, ParseError, ParseErrorKind, Raw};

/// Messages in a row of one speaker that are one turn. Long conversations have 5,000 messages in all.
const MESSAGES_MAX: usize = 10_000;

/// Calls of one turn, and results: agents have some dozens at once, also where the provider runs tools by itself.
const CALLS_MAX: usize = 10_000;

/// Things of one turn that are kept until it is over. Each takes some hundred bytes where the body may have twenty, so their
/// number is bounded (SE-1). More are refused: what is left out would be hidden from every guard.
pub(super) struct BoundedVec<T> {
    list: Vec<T>,
    what: &'static str,
    max: usize,
}

impl<T> BoundedVec<T> {
    pub(super) fn calls() -> BoundedVec<T> {
        BoundedVec { list: Vec::new(), what: "tool calls in one turn", max: CALLS_MAX }
    }

    pub(super) fn results() -> BoundedVec<T> {
        BoundedVec { list: Vec::new(), what: "tool results in one turn", max: CALLS_MAX }
    }

    fn messages() -> BoundedVec<T> {
        BoundedVec { list: Vec::new(), what: "messages in a row of one speaker", max: MESSAGES_MAX }
    }

    /// Keeps one that ended before `at`.
    pub(super) fn push(&mut self, item: T, at: usize) -> Result<(), ParseError> {
        if self.list.len() == self.max {
            return Err(ParseError { at, what: ParseErrorKind::TooMany { what: self.what, max: self.max } });
        }
        self.list.push(item);
        Ok(())
    }

    /// Keeps all of another list.
    fn append(&mut self, mut more: BoundedVec<T>, at: usize) -> Result<(), ParseError> {
        if self.list.len() + more.list.len() > self.max {
            return Err(ParseError { at, what: ParseErrorKind::TooMany { what: self.what, max: self.max } });
        }
        self.list.append(&mut more.list);
        Ok(())
    }
}

impl<T> std::ops::Deref for BoundedVec<T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        &self.list
    }
}

/// What several messages in a row of the same speaker are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Consecutive {
    /// Each is a turn of its own.
    Apart,
    /// They are one turn.
    Together,
}

/// What becomes of a result whose call is not in the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Orphans {
    /// It is left out.
    Dropped,
    /// The provider knows the call: a step with its id alone.
    Kept,
}

/// A tool call the assistant made.
pub(super) struct AssistantCall<'a> {
    pub(super) id: Cow<'a, str>,
    pub(super) tool: Cow<'a, str>,
    /// JSON in a string, or the JSON itself.
    pub(super) args: Option<Raw<'a>>,
}

/// What came of a tool call.
pub(super) struct CallOutput<'a> {
    pub(super) id: Cow<'a, str>,
    pub(super) said: MessageContent<'a>,
    /// How the call ended, where the protocol says it.
    pub(super) ended: Option<Ended>,
    /// The text that tells how it ended, where that is not all of `said`.
    pub(super) telling: Option<Raw<'a>>,
}

/// A conversation as it goes by.
pub(super) struct Conversation<'a> {
    system: Option<MessageContent<'a>>,
    first_user: BoundedVec<MessageContent<'a>>,
    /// The assistant has spoken.
    answered: bool,
    last_user: Option<MessageContent<'a>>,
    /// The newest turn with what follows it.
    turn: Turn<'a>,
    /// The newest input before that turn.
    newest_before: Newest,
    /// Bytes of text seen.
    pub(super) text_bytes: usize,
    /// An item stands for one that the provider keeps.
    pub(super) refers: bool,
}

impl Default for Conversation<'_> {
    fn default() -> Self {
        Conversation {
            system: None,
            first_user: BoundedVec::messages(),
            answered: false,
            last_user: None,
            turn: Turn::default(),
            newest_before: Newest::default(),
            text_bytes: 0,
            refers: false,
        }
    }
}

/// What the assistant said and did, and what was answered to that.
struct Turn<'a> {
    said: BoundedVec<MessageContent<'a>>,
    calls: BoundedVec<AssistantCall<'a>>,
    results: BoundedVec<CallOutput<'a>>,
    reply: Option<MessageContent<'a>>,
    newest: Newest,
}

impl Default for Turn<'_> {
    fn default() -> Self {
        let (calls, results) = (BoundedVec::calls(), BoundedVec::results());
        Turn { said: BoundedVec::messages(), calls, results, reply: None, newest: Newest::default() }
    }
}

/// The newest input after a turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Newest {
    #[default]
    Nothing,
    Words,
    Results,
}

impl<'a> Conversation<'a> {
    /// The system prompt; only the first counts.
    pub(super) fn system(&mut self, said: MessageContent<'a>) {
        self.system.get_or_insert(said);
    }

    /// A person's words. In a row and together, all before the first answer are the first words: some clients send
    /// their own context as a message of its own before what the person says (Codex, Gemini CLI).
    pub(super) fn user(
        &mut self,
        said: MessageContent<'a>,
        consecutive: Consecutive,
        at: usize,
    ) -> Result<(), ParseError> {
        if is_insert(&said) {
            return Ok(());
        }
        if self.first_user.is_empty() || consecutive == Consecutive::Together && !self.answered {
            self.first_user.push(said, at)?;
        }
        self.last_user = Some(said);
        self.turn.reply.get_or_insert(said);
        self.turn.newest = Newest::Words;
        Ok(())
    }

    /// The assistant's turn begins or goes on.
    pub(super) fn assistant(&mut self, consecutive: Consecutive) {
        self.answered = true;
        if self.turn.newest != Newest::Nothing {
            self.newest_before = self.turn.newest;
            self.turn.clear();
        } else if consecutive == Consecutive::Apart {
            self.turn.clear();
        }
    }

    /// In the assistant's turn: what it says.
    pub(super) fn says(&mut self, said: MessageContent<'a>, at: usize) -> Result<(), ParseError> {
        self.turn.said.push(said, at)
    }

    /// In the assistant's turn: what it calls.
    pub(super) fn calls(
        &mut self,
        calls: BoundedVec<AssistantCall<'a>>,
        at: usize,
    ) -> Result<(), ParseError> {
        self.turn.calls.append(calls, at)
    }

    /// In the assistant's turn: one more call.
    pub(super) fn call(&mut self, call: AssistantCall<'a>, at: usize) -> Result<(), ParseError> {
        self.turn.calls.push(call, at)
    }

    /// In the assistant's turn: what came of calls the provider ran by itself.
    pub(super) fn push_server_results(
        &mut self,
        results: BoundedVec<CallOutput<'a>>,
        at: usize,
    ) -> Result<(), ParseError> {
        self.turn.results.append(results, at)
    }

    /// What came of calls, sent by the client; at least one.
    pub(super) fn came(&mut self, results: BoundedVec<CallOutput<'a>>, at: usize) -> Result<(), ParseError> {
        self.turn.newest = Newest::Results;
        self.turn.results.append(results, at)
    }

    /// What came of one call, sent by the client.
    pub(super) fn push_result(&mut self, came: CallOutput<'a>, at: usize) -> Result<(), ParseError> {
        self.turn.newest = Newest::Results;
        self.turn.results.push(came, at)
    }

    /// Fills in all that was said.
    pub(super) fn finish(self, orphans: Orphans, request: &mut RequestIn<'a>) -> Result<(), ParseError> {
        request.system = content::text(&self.system, Speaker::System)?;
        request.last_user = without(content::text(&self.last_user, Speaker::Input)?);
        // Most conversations begin with their only question: it is decoded once.
        let place = |said: &MessageContent<'_>| said.place();
        let only_one = self.first_user.len() < 2
            && self.first_user.first().map(place) == self.last_user.as_ref().map(place);
        request.first_user = if only_one {
            request.last_user.clone()
        } else {
            without(content::text(self.first_user.iter(), Speaker::Input)?)
        };
        // What the assistant says last is no input: a start put into its mouth, or a thought before it acts.
        let nothing_follows = self.turn.newest == Newest::Nothing;
        let newest = if nothing_follows { self.newest_before } else { self.turn.newest };
        request.continues = newest == Newest::Results;
        request.text_bytes = self.text_bytes;
        if !nothing_follows {
            request.steps = self.turn.steps(orphans)?;
        }
        Ok(())
    }
}

impl<'a> Turn<'a> {
    /// Empty again, with its memory kept for the next turn.
    fn clear(&mut self) {
        self.said.list.clear();
        self.calls.list.clear();
        self.results.list.clear();
        self.reply = None;
        self.newest = Newest::Nothing;
    }

    fn steps(self, orphans: Orphans) -> Result<Vec<StepIn<'a>>, ParseError> {
        let found = self.results_of_calls();
        let mut steps = Vec::new();
        if self.calls.is_empty() {
            steps.extend(self.text_step()?);
        }
        let mut claimed = vec![false; self.results.len()];
        for (call, found) in self.calls.list.into_iter().zip(found) {
            let Some((at, came)) = found.and_then(|at| Some((at, self.results.get(at)?))) else { continue };
            claimed[at] = true;
            steps.push(StepIn { tool: call.tool, args: args(call.args)?, call_id: None, ..came.step()? });
        }
        if orphans == Orphans::Kept {
            let left = self.results.iter().zip(claimed).filter(|(_, claimed)| !claimed);
            for (came, _) in left {
                let call_id = Some(came.id.clone()).filter(|id| !id.is_empty());
                steps.push(StepIn { call_id, ..came.step()? });
            }
        }
        Ok(steps)
    }

    /// For each call the index of its result: by its id, else by its place unless that one is another call's.
    fn results_of_calls(&self) -> Vec<Option<usize>> {
        // By hash, for linear time; only looked up, never gone through.
        let mut by_id: HashMap<&str, usize> = HashMap::new();
        steps::add(self.results.len() + self.calls.len());
        for (at, came) in self.results.iter().enumerate() {
            if !came.id.is_empty() {
                by_id.entry(&came.id).or_insert(at);
            }
        }
        let mut claimed = vec![false; self.results.len()];
        let mut found: Vec<Option<usize>> = Vec::with_capacity(self.calls.len());
        for call in self.calls.iter() {
            let at = by_id.get(call.id.as_ref()).copied();
            if let Some(at) = at {
                claimed[at] = true;
            }
            found.push(at);
        }
        for (at, found) in found.iter_mut().enumerate() {
            let free = claimed.get(at) == Some(&false);
            *found = found.or(free.then_some(at));
        }
        found
    }

    fn text_step(&self) -> Result<Option<StepIn<'a>>, ParseError> {
        let Some(reply) = &self.reply else { return Ok(None) };
        let args = content::text(self.said.iter(), Speaker::Assistant)?;
        if args.trim().is_empty() {
            return Ok(None);
        }
        let result = reply.input()?;
        let ended = ended_by_text(&result);
        Ok(Some(StepIn { tool: Cow::Borrowed(""), args, result, ended, call_id: None }))
    }
}

impl<'a> CallOutput<'a> {
    /// A step that has only its result yet.
    fn step(&self) -> Result<StepIn<'a>, ParseError> {
        let result = self.said.input()?;
        let ended = match (self.ended, self.telling) {
            (Some(Ended::Ok), _) if is_still_running(&result) => Ended::Unknown,
            (Some(ended), _) => ended,
            (None, Some(telling)) => ended_by_text(&telling.decoded()?),
            (None, None) => ended_by_text(&result),
        };
        Ok(StepIn { tool: Cow::Borrowed(""), args: Cow::Borrowed(""), result, ended, call_id: None })
    }
}

/// JSON in a string, as OpenAI has it, or the JSON itself, as the others have it.
fn args(raw: Option<Raw<'_>>) -> Result<Cow<'_, str>, ParseError> {
    let Some(raw) = raw else { return Ok(Cow::Borrowed("")) };
    match raw.kind() {
        Kind::String => raw.decoded(),
        Kind::Null => Ok(Cow::Borrowed("")),
        Kind::Bool | Kind::Number | Kind::Array | Kind::Object => Ok(Cow::Borrowed(raw.text)),
    }
}

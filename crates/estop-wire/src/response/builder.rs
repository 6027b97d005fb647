//! What has been read of an answer so far, each part with its limit.

use estop_core::steps;

use super::totals::UsageTotals;
use super::{CallIn, Finish, Observed};

/// Text that is kept: four times what the longest answers of today's models have. Beyond it, text is still counted
/// and still handed to the chant detector.
pub const TEXT_MAX: usize = 1 << 20;

/// Tool calls that are kept. Real answers have at most a few dozen.
pub const CALLS_MAX: usize = 256;

/// Arguments that are kept of one call: a whole file in one write. Half would cut files people do write.
pub const ARGS_MAX: usize = 256 << 10;

/// Arguments that are kept of all calls together, so that many large ones cannot add up to 64 MiB.
pub const ARGS_ALL_MAX: usize = 4 << 20;

/// Ids and names that are kept. Providers allow 64 to 128.
const NAME_MAX: usize = 256;

/// What has been read so far.
#[derive(Debug, Default)]
pub(super) struct ResponseBuilder {
    id: Option<String>,
    text: String,
    /// Where in `text` this push began.
    fresh_from: usize,
    /// The whole text of this push, once `text` is full.
    overflow: String,
    calls: Vec<Open>,
    /// How many of them have no name.
    nameless: usize,
    args_all: usize,
    pub(super) totals: UsageTotals,
    finish: Option<Finish>,
    refused: bool,
    failed: bool,
    partial: bool,
    output_bytes: u64,
    /// The part of the answer the newest text belongs to (Responses).
    pub(super) text_item: Option<u64>,
}

/// A call that may still grow.
#[derive(Debug)]
struct Open {
    key: Key,
    call: CallIn,
    /// Bytes of arguments already counted.
    counted: usize,
    /// Its arguments stand only if nothing follows.
    placeholder: bool,
}

/// How later parts of a stream name a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    /// By its place in the answer.
    Index(u64),
    /// The one call of the old `function_call` form.
    Legacy,
    /// It came whole.
    Whole,
}

impl ResponseBuilder {
    /// Another push begins.
    pub(super) fn begin(&mut self) {
        self.fresh_from = self.text.len();
        self.overflow = String::new();
    }

    /// The text that came with this push.
    pub(super) fn fresh(&self) -> &str {
        if self.overflow.is_empty() { self.text.get(self.fresh_from..).unwrap_or("") } else { &self.overflow }
    }

    /// Text of the assistant.
    pub(super) fn text(&mut self, text: &str) {
        self.count(text.len());
        if self.text.len() + text.len() <= TEXT_MAX {
            self.text.push_str(text);
            return;
        }
        self.partial = true;
        if self.overflow.is_empty() {
            self.overflow.push_str(self.text.get(self.fresh_from..).unwrap_or(""));
        }
        self.overflow.push_str(text);
        self.text.push_str(head(text, TEXT_MAX - self.text.len()));
    }

    /// Text in place of an answer.
    pub(super) fn refusal(&mut self, text: &str) {
        if !text.is_empty() {
            self.refused = true;
            self.text(text);
        }
    }

    /// Output that is counted but not kept: reasoning, other choices, tools the provider runs itself.
    pub(super) fn count(&mut self, bytes: usize) {
        self.output_bytes = self.output_bytes.saturating_add(bytes as u64);
    }

    /// The answer's id; the first one counts.
    pub(super) fn id(&mut self, id: &str) {
        if self.id.is_none() && !id.is_empty() {
            self.id = Some(head(id, NAME_MAX).to_owned());
        }
    }

    /// Why the model stopped; the last word counts.
    pub(super) fn finish(&mut self, finish: Finish) {
        self.finish = Some(finish);
    }

    /// The provider reports an error.
    pub(super) fn fail(&mut self) {
        self.failed = true;
    }

    /// Something could not be read.
    pub(super) fn miss(&mut self) {
        self.partial = true;
    }

    /// Text or calls have been read.
    pub(super) fn has_output(&self) -> bool {
        !self.text.is_empty() || !self.calls.is_empty()
    }

    /// A call with all its arguments.
    pub(super) fn call(&mut self, id: &str, name: &str, args: &str) {
        match self.open(Key::Whole, id, name) {
            Some(at) => self.grow(at, args),
            None => self.count(args.len()),
        }
    }

    /// A call whose arguments follow.
    pub(super) fn start_call(&mut self, key: Key, id: &str, name: &str) {
        self.open(key, id, name);
    }

    /// Where the new call is kept; `None` if there is no room.
    fn open(&mut self, key: Key, id: &str, name: &str) -> Option<usize> {
        if self.calls.len() == CALLS_MAX {
            self.partial = true;
            if self.nameless > 0 {
                self.forget_nameless();
            }
        }
        if self.calls.len() == CALLS_MAX {
            return None;
        }
        self.partial |= id.len() > NAME_MAX || name.len() > NAME_MAX;
        let call = CallIn {
            id: head(id, NAME_MAX).to_owned(),
            name: head(name, NAME_MAX).to_owned(),
            args: String::new(),
        };
        self.nameless += usize::from(call.name.is_empty());
        self.calls.push(Open { key, call, counted: 0, placeholder: false });
        Some(self.calls.len() - 1)
    }

    /// Nobody can run a call without a name: such calls must not keep others from being seen.
    fn forget_nameless(&mut self) {
        steps::add(self.calls.len());
        self.nameless = 0;
        let args_all = &mut self.args_all;
        self.calls.retain(|open| {
            let has_name = !open.call.name.is_empty();
            if !has_name {
                *args_all -= open.call.args.len();
            }
            has_name
        });
    }

    /// Arguments of a new call that stand only if no part of them follows.
    pub(super) fn placeholder_args(&mut self, key: Key, args: &str) {
        if let Some(at) = self.find(key) {
            self.grow(at, args);
            self.calls[at].placeholder = true;
        }
    }

    /// More of a call's arguments.
    pub(super) fn call_args(&mut self, key: Key, args: &str) {
        match self.find(key) {
            Some(at) if !args.is_empty() => self.grow(at, args),
            Some(_) | None => self.count(args.len()),
        }
    }

    /// All of a call's arguments, which may have come in parts before.
    pub(super) fn set_args(&mut self, key: Key, args: &str) {
        match self.find(key) {
            Some(at) => {
                self.forget_args(at);
                self.grow(at, args);
            }
            None => self.count(args.len()),
        }
    }

    /// The id of the call with this key, if there is one.
    pub(super) fn call_id(&self, key: Key) -> Option<&str> {
        self.find(key).map(|at| self.calls[at].call.id.as_str())
    }

    /// What came late: an id or a name fills an empty place.
    pub(super) fn name_call(&mut self, key: Key, id: &str, name: &str) {
        let Some(at) = self.find(key) else { return };
        let call = &mut self.calls[at].call;
        if call.id.is_empty() {
            head(id, NAME_MAX).clone_into(&mut call.id);
        }
        if call.name.is_empty() {
            head(name, NAME_MAX).clone_into(&mut call.name);
            self.nameless -= usize::from(!call.name.is_empty());
        }
    }

    /// The key of the newest call.
    pub(super) fn last_key(&self) -> Option<Key> {
        self.calls.last().map(|open| open.key)
    }

    /// Bytes of output so far.
    pub(super) fn output_bytes(&self) -> u64 {
        self.output_bytes
    }

    /// All that was read.
    pub(super) fn into_observed(self) -> Observed {
        let finish = match self.finish {
            Some(Finish::Stop) if self.refused => Some(Finish::Filtered),
            // Several providers say "stop" although tools are to run.
            Some(Finish::Stop) if !self.calls.is_empty() => Some(Finish::ToolCalls),
            other => other,
        };
        Observed {
            id: self.id,
            text: self.text,
            calls: self.calls.into_iter().map(|open| open.call).collect(),
            usage: self.totals.usage(),
            finish,
            failed: self.failed,
            output_bytes: self.output_bytes,
            partial: self.partial,
        }
    }

    /// The newest call with this key.
    fn find(&self, key: Key) -> Option<usize> {
        let at = self.calls.iter().rposition(|open| open.key == key && key != Key::Whole);
        steps::add(self.calls.len() - at.unwrap_or(0));
        at
    }

    fn grow(&mut self, at: usize, args: &str) {
        if self.calls[at].placeholder {
            self.forget_args(at);
        }
        self.count(args.len());
        let open = &mut self.calls[at];
        open.counted += args.len();
        let room = (ARGS_MAX - open.call.args.len()).min(ARGS_ALL_MAX - self.args_all);
        let kept = head(args, room);
        self.partial |= kept.len() < args.len();
        self.args_all += kept.len();
        open.call.args.push_str(kept);
    }

    /// As if no arguments had come.
    fn forget_args(&mut self, at: usize) {
        let open = &mut self.calls[at];
        self.args_all -= open.call.args.len();
        self.output_bytes = self.output_bytes.saturating_sub(open.counted as u64);
        (open.counted, open.placeholder) = (0, false);
        open.call.args = String::new();
    }
}

/// The first bytes of a text, up to a whole character.
fn head(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}

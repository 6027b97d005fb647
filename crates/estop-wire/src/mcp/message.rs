//! Reads one message, or a batch of the revisions that have them.

use std::borrow::Cow;

use estop_core::steps;

use super::Id;
use super::id::ID_BYTES_MAX;
use crate::json::{self, Fields, Kind, ParseError, ParseErrorKind, Raw, ReadError, Scanner};

/// A message.
#[derive(Clone, Debug)]
pub struct Message<'a> {
    parts: Vec<Part<'a>>,
    /// It is a list, however many are in it.
    pub is_batch: bool,
}

impl<'a> Message<'a> {
    /// What it holds: one thing, or all of a batch.
    pub fn parts(&self) -> &[Part<'a>] {
        &self.parts
    }

    /// The calls in it.
    pub fn calls(&self) -> impl Iterator<Item = &Call<'a>> {
        self.parts.iter().filter_map(|part| match part {
            Part::Call(call) => Some(call),
            Part::Request { .. } | Part::Notice { .. } | Part::Answer { .. } | Part::Other => None,
        })
    }
}

/// Requests that a stopped agent may send: they begin a session and look around, and read nothing. Compared exactly: a
/// careless spelling is not let through.
const LOOKS: [&str; 7] = [
    "initialize",
    "ping",
    "prompts/list",
    "resources/list",
    "resources/templates/list",
    "server/discover",
    "tools/list",
];

impl Message<'_> {
    /// Whether it does more than a stopped agent may. Notifications pass, so that what runs can be cancelled, and so does
    /// the answer to a server's ping. Reading (`resources/read`, `prompts/get`, `tasks/…`, `completion/…`), methods nobody
    /// knows, and what the agent answers to a server (`sampling`, `elicitation`, `roots`) do not.
    pub fn is_work(&self) -> bool {
        self.parts.iter().any(|part| match part {
            Part::Call(_) | Part::Other => true,
            Part::Request { method, .. } => !LOOKS.contains(&&**method),
            Part::Notice { .. } => false,
            Part::Answer { result, error, .. } => error.is_some() || !result.is_some_and(is_empty_object),
        })
    }
}

fn is_empty_object(json: &str) -> bool {
    json.trim()
        .strip_prefix('{')
        .and_then(|rest| rest.strip_suffix('}'))
        .is_some_and(|rest| rest.trim().is_empty())
}

/// One of the things a message can be.
#[derive(Clone, Debug)]
pub enum Part<'a> {
    /// A tool is to be called.
    Call(Call<'a>),
    /// Another request.
    Request {
        /// Its id.
        id: Id,
        /// What it asks for.
        method: Cow<'a, str>,
    },
    /// A notification.
    Notice {
        /// What it tells.
        method: Cow<'a, str>,
        /// The request it takes back, if it does.
        cancels: Option<Id>,
    },
    /// An answer to a request.
    Answer {
        /// To which.
        id: Id,
        /// The `result`, or nothing.
        result: Option<&'a str>,
        /// The `error`, or nothing.
        error: Option<&'a str>,
    },
    /// Nothing of this.
    Other,
}

/// A tool that is to be called.
#[derive(Clone, Debug)]
pub struct Call<'a> {
    /// The id of the request.
    pub id: Id,
    /// Which tool.
    pub name: Cow<'a, str>,
    /// Its arguments: a JSON object.
    pub arguments: Cow<'a, str>,
    /// Its revision says what kind of result a result is (2026-07-28 and later).
    pub wants_result_type: bool,
}

impl Call<'_> {
    /// The same, for longer than its message.
    pub fn into_owned(self) -> Call<'static> {
        let Call { id, name, arguments, wants_result_type } = self;
        let (name, arguments) = (name.into_owned().into(), arguments.into_owned().into());
        Call { id, name, arguments, wants_result_type }
    }
}

/// A message that is not read, and so must not pass if it could be a call.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct Unread {
    /// The id it would be answered under, if that much was read.
    pub id: Option<Id>,
    /// JSON-RPC's number for it.
    pub code: i32,
    /// Why.
    pub why: String,
}

/// JSON-RPC: not JSON; not a request; not the parameters of this method.
const PARSE_ERROR: i32 = -32700;
const INVALID_REQUEST: i32 = -32600;
const INVALID_PARAMS: i32 = -32602;

/// More in one batch is nobody's. Each call in it is asked about before the first one runs.
const BATCH_MAX: usize = 256;

#[derive(Clone, Copy, PartialEq)]
enum Key {
    Id,
    Method,
    Params,
    Result,
    Error,
}

const KEYS: &Fields<Key> = &[
    ("id", Key::Id),
    ("method", Key::Method),
    ("params", Key::Params),
    ("result", Key::Result),
    ("error", Key::Error),
];

#[derive(Clone, Copy, PartialEq)]
enum Param {
    Name,
    Arguments,
    Meta,
}

const PARAMS: &Fields<Param> =
    &[("name", Param::Name), ("arguments", Param::Arguments), ("_meta", Param::Meta)];

/// Since this key exists, a result says of what kind it is.
const PROTOCOL_VERSION: &str = "io.modelcontextprotocol/protocolVersion";

/// Reads a line of a stream: one message, without its line feed.
pub fn read_line(line: &[u8]) -> Result<Message<'_>, Unread> {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    // In JSON it can only be white space. Readers that end a line there would find other messages than we do.
    if memchr::memchr(b'\r', line).is_some() {
        let why = "there is a carriage return inside the line: send one message a line".to_owned();
        return Err(Unread { id: None, code: PARSE_ERROR, why });
    }
    read(line)
}

/// Reads a message.
pub fn read(bytes: &[u8]) -> Result<Message<'_>, Unread> {
    let mut is_batch = false;
    let seen = json::document(bytes, |s| {
        let mut all = Vec::new();
        if s.kind()? == Kind::Array {
            is_batch = true;
            s.list("a list of messages", |s| {
                if all.len() == BATCH_MAX {
                    return Err(s.shape("a batch of at most 256 messages", s.kind()?));
                }
                all.push(see(s)?);
                Ok(())
            })?;
        } else {
            all.push(see(s)?);
        }
        Ok(all)
    });
    let seen = seen.map_err(|error| unread(None, &error))?;
    if is_batch && seen.is_empty() {
        let why = "the batch is empty: send a message".to_owned();
        return Err(Unread { id: None, code: INVALID_REQUEST, why });
    }
    let text = std::str::from_utf8(bytes).unwrap_or_default();
    let parts = seen.into_iter().map(|seen| seen.understand(text)).collect::<Result<Vec<_>, Unread>>()?;
    Ok(Message { parts, is_batch })
}

/// Whether nobody can find a call in these bytes, however they are read. For messages that are not JSON as we know it.
pub fn cannot_be_call(bytes: &[u8]) -> bool {
    // Escapes hide letters, and so do other encodings.
    steps::add(TOOLS_CALL.len() * bytes.len());
    let is_plain = std::str::from_utf8(bytes).is_ok() && memchr::memchr2(b'\\', 0, bytes).is_none();
    is_plain && !bytes.windows(TOOLS_CALL.len()).any(|part| part.eq_ignore_ascii_case(TOOLS_CALL.as_bytes()))
}

const TOOLS_CALL: &str = "tools/call";

/// What a message holds, not yet understood.
struct Seen<'a> {
    id: Option<Raw<'a>>,
    method: Option<Cow<'a, str>>,
    params: Option<Raw<'a>>,
    result: Option<Raw<'a>>,
    error: Option<Raw<'a>>,
}

fn see<'a>(s: &mut Scanner<'a>) -> Result<Seen<'a>, ParseError> {
    let mut seen = Seen { id: None, method: None, params: None, result: None, error: None };
    s.object(KEYS, |s, key| {
        match key {
            Key::Id => seen.id = Some(s.skip()?),
            Key::Method => seen.method = s.text()?,
            Key::Params => seen.params = Some(s.skip()?),
            Key::Result => seen.result = Some(s.skip()?),
            Key::Error => seen.error = Some(s.skip()?),
        }
        Ok(())
    })?;
    Ok(seen)
}

impl<'a> Seen<'a> {
    fn understand(self, document: &str) -> Result<Part<'a>, Unread> {
        let id = self.id.as_ref().map(Id::of).transpose().map(Option::flatten);
        let id = id.map_err(|fault| unread(None, &fault.explain(document)))?;
        let Some(method) = self.method else {
            let text = |raw: Raw<'a>| raw.text;
            let (result, error) = (self.result.map(text), self.error.map(text));
            return Ok(match id {
                Some(id) if result.is_some() || error.is_some() => Part::Answer { id, result, error },
                Some(_) | None => Part::Other,
            });
        };
        // A server that reads texts to the first zero byte, or folds what looks alike, would run it. No method of MCP has
        // anything but letters, digits and slashes.
        if !method.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ') {
            let why = "`method` must have letters, digits and slashes only".to_owned();
            return Err(Unread { id, code: INVALID_REQUEST, why });
        }
        // A server that is careless about case or blanks would run it.
        if method.trim().eq_ignore_ascii_case(TOOLS_CALL) {
            return call(id, self.params, document).map(Part::Call);
        }
        Ok(match id {
            Some(id) => Part::Request { id, method },
            None => {
                let cancels = if method == super::CANCELLED { self.params.and_then(cancels) } else { None };
                Part::Notice { method, cancels }
            }
        })
    }
}

fn call<'a>(id: Option<Id>, params: Option<Raw<'a>>, document: &str) -> Result<Call<'a>, Unread> {
    let Some(id) = id else {
        let why = format!(
            "a tool call needs an id to be answered under: a text or a number of at most {ID_BYTES_MAX} bytes"
        );
        return Err(Unread { id: None, code: INVALID_REQUEST, why });
    };
    let read = || {
        let Some(params) = params else {
            return Err(ParseError { at: 0, what: ParseErrorKind::Missing("params") });
        };
        let mut call = (None, Cow::Borrowed("{}"), false);
        params.scanner().object(PARAMS, |s, param| {
            match param {
                Param::Name => call.0 = s.text()?,
                Param::Arguments => call.1 = arguments(s)?,
                Param::Meta => call.2 = says_version(&s.skip()?),
            }
            Ok(())
        })?;
        let (name, arguments, wants_result_type) = call;
        let name = name.filter(|name| !name.is_empty());
        let name = name.ok_or(ParseError { at: params.at, what: ParseErrorKind::Missing("name") })?;
        Ok((name, arguments, wants_result_type))
    };
    match read() {
        Ok((name, arguments, wants_result_type)) => Ok(Call { id, name, arguments, wants_result_type }),
        Err(fault) => {
            let mut unread = unread(Some(id), &fault.explain(document));
            unread.code = INVALID_PARAMS;
            Err(unread)
        }
    }
}

/// Arguments as JSON. Two equal keys are an error: server and estop could read different ones.
fn arguments<'a>(s: &mut Scanner<'a>) -> Result<Cow<'a, str>, ParseError> {
    match s.kind()? {
        Kind::Null => s.skip().map(|_| Cow::Borrowed("{}")),
        Kind::Object => {
            let (raw, ()) = s.both(|s| s.object(&[] as &Fields<()>, |_, ()| Ok(())))?;
            Ok(Cow::Borrowed(raw.text))
        }
        found @ (Kind::Bool | Kind::Number | Kind::String | Kind::Array) => Err(s.shape("an object", found)),
    }
}

fn says_version(meta: &Raw<'_>) -> bool {
    let mut says = false;
    let read = meta.scanner().object(&[(PROTOCOL_VERSION, ())], |s, ()| {
        says = true;
        s.skip().map(drop)
    });
    read.is_ok() && says
}

/// The request a cancellation names.
fn cancels(params: Raw<'_>) -> Option<Id> {
    let mut id = None;
    let read = params.scanner().object(&[("requestId", ())], |s, ()| {
        id = Id::of(&s.skip()?)?;
        Ok(())
    });
    read.ok().and(id)
}

fn unread(id: Option<Id>, error: &ReadError) -> Unread {
    let code = match error {
        ReadError::Empty
        | ReadError::NotUtf8 { .. }
        | ReadError::ByteOrderMark
        | ReadError::Syntax { .. }
        | ReadError::Trailing { .. }
        | ReadError::TooDeep { .. } => PARSE_ERROR,
        ReadError::Shape { .. }
        | ReadError::Missing { .. }
        | ReadError::DuplicateKey { .. }
        | ReadError::KeyCase { .. }
        | ReadError::HalfSurrogate { .. }
        | ReadError::OutOfRange { .. }
        | ReadError::TooMany { .. } => INVALID_REQUEST,
    };
    Unread { id, code, why: error.to_string() }
}

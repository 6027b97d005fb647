//! Work that goes on at a provider after the request that began it was answered: background responses, batches, fine-tuning,
//! runs of threads, videos. Which request begins some, what an answer says of it, and how it is cancelled.
//!
//! Pure: it reads paths and answers, and writes paths. What it reads is foreign: ids are checked before they become part of
//! a path, and everything is linear in the length of the text.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::decode::Decoder;
use crate::protocol::{decoded_twice, segments_from_end};

/// The largest answer that is read for a job. Objects of jobs have a few kB; the polled result of a response may have more,
/// and is read for its usage elsewhere.
pub const ANSWER_BYTES_MAX: usize = 1 << 20;
/// The longest id that is kept.
pub const ID_BYTES_MAX: usize = 128;
/// The longest path under which work is begun. Longer than any provider's.
pub const PATH_BYTES_MAX: usize = 1_024;

/// A kind of work that a provider does by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobKind {
    /// OpenAI Responses with `background: true`.
    Response,
    /// A batch of OpenAI and everything compatible with it.
    Batch,
    /// A batch of Anthropic messages.
    MessageBatch,
    /// A fine-tuning job.
    FineTuning,
    /// A run of a thread of OpenAI's assistants.
    ThreadRun,
    /// A run of an evaluation.
    EvalRun,
    /// A video that is rendered.
    Video,
    /// A batch of Gemini.
    GeminiBatch,
    /// A long-running operation of Gemini, such as a video.
    Operation,
    /// A Gemini interaction in the background.
    Interaction,
}

const HOUR_MS: u64 = 3_600_000;

impl JobKind {
    /// For people.
    pub fn name(self) -> &'static str {
        match self {
            JobKind::Response => "background response",
            JobKind::Batch | JobKind::MessageBatch | JobKind::GeminiBatch => "batch",
            JobKind::FineTuning => "fine-tuning job",
            JobKind::ThreadRun => "thread run",
            JobKind::EvalRun => "evaluation run",
            JobKind::Video => "video",
            JobKind::Operation => "long-running operation",
            JobKind::Interaction => "background interaction",
        }
    }

    /// Providers end it by themselves within this time: batches within a day (Gemini: two), runs and videos within minutes.
    /// Fine-tuning has no such limit; a week is longer than any.
    pub fn lifetime_ms(self) -> u64 {
        match self {
            JobKind::ThreadRun | JobKind::Video | JobKind::Operation => 2 * HOUR_MS,
            JobKind::Response | JobKind::Interaction | JobKind::EvalRun => 24 * HOUR_MS,
            JobKind::Batch | JobKind::MessageBatch => 25 * HOUR_MS,
            JobKind::GeminiBatch => 49 * HOUR_MS,
            JobKind::FineTuning => 7 * 24 * HOUR_MS,
        }
    }

    /// Whether only a request that asks for it (`background: true`) begins one; all others are answered at once.
    pub fn is_on_request(self) -> bool {
        matches!(self, JobKind::Response | JobKind::Interaction)
    }
}

/// What kind of work a request may begin, by its method and path.
pub fn begun_by(method: &str, path: &str) -> Option<JobKind> {
    if !method.eq_ignore_ascii_case("POST") {
        return None;
    }
    let path = decoded_twice(path);
    let mut last = segments_from_end(&path).map(str::to_ascii_lowercase);
    let (end, before, third) =
        (last.next()?, last.next().unwrap_or_default(), last.next().unwrap_or_default());
    match (third.as_str(), before.as_str(), end.as_str()) {
        (_, _, "responses") => Some(JobKind::Response),
        (_, "messages", "batches") => Some(JobKind::MessageBatch),
        (_, _, "batches") | (_, "batch", "jobs") => Some(JobKind::Batch),
        (_, "fine_tuning", "jobs") | (_, _, "fine-tunes") => Some(JobKind::FineTuning),
        ("threads", _, "runs") | (_, "threads", "runs") => Some(JobKind::ThreadRun),
        ("evals", _, "runs") => Some(JobKind::EvalRun),
        (_, _, "videos") | (_, "videos", _) | ("videos", _, "remix") => Some(JobKind::Video),
        (_, _, "interactions") => Some(JobKind::Interaction),
        (_, _, end) => match end.rsplit_once(':')?.1 {
            "batchgeneratecontent" | "asyncbatchembedcontent" => Some(JobKind::GeminiBatch),
            "predictlongrunning" => Some(JobKind::Operation),
            _ => None,
        },
    }
}

/// A path as it is kept and compared: decoded, without empty segments. `None` if it is too long, or if what it decodes to
/// cannot stand in a path as it is: a request made of it would not be the one that was meant.
pub fn plain_path(path: &str) -> Option<String> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@".contains(&byte);
    let decoded = decoded_twice(path);
    let mut plain = String::with_capacity(decoded.len());
    for segment in decoded.split('/').filter(|segment| !segment.is_empty()) {
        if matches!(segment, "." | "..") || !segment.bytes().all(fits) {
            return None;
        }
        plain.push('/');
        plain.push_str(segment);
    }
    (plain.len() <= PATH_BYTES_MAX).then_some(plain)
}

/// How far some work is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobState {
    /// It waits or runs.
    Running,
    /// It is being cancelled.
    Cancelling,
    /// It was cancelled.
    Cancelled,
    /// It is over in another way.
    Ended,
}

/// What an answer says of some work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobSeen {
    /// Its id, as it stands in paths.
    pub id: String,
    /// The thread it belongs to, if it is a run of one.
    pub thread: Option<String>,
    /// How far it is.
    pub state: JobState,
}

/// What is read of an answer. No trees are built, whatever it holds.
#[derive(Default, serde::Deserialize)]
#[serde(default)]
struct AnswerIn {
    id: Leaf,
    name: Leaf,
    thread_id: Leaf,
    status: Leaf,
    processing_status: Leaf,
    done: Option<bool>,
    metadata: Node,
    /// An event of a stream has the object inside.
    response: Node,
}

/// A short text, or nothing if something else is there.
#[derive(Default)]
struct Leaf(Option<String>);

/// An object with some texts in it, or nothing.
#[derive(Default)]
struct Node {
    id: Leaf,
    status: Leaf,
    state: Leaf,
}

impl<'de> Deserialize<'de> for Leaf {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Leaf, D::Error> {
        d.deserialize_any(Reader).map(|(text, _)| Leaf(text))
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Node, D::Error> {
        d.deserialize_any(Reader).map(|(_, node)| node)
    }
}

/// Takes any value: keeps a short text, and the texts of an object; everything else is passed over.
struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = (Option<String>, Node);

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("anything")
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(((text.len() <= ID_BYTES_MAX).then(|| text.to_owned()), Node::default()))
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
        Ok(Default::default())
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
        Ok(Default::default())
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
        Ok(Default::default())
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
        Ok(Default::default())
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Default::default())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Default::default())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut node = Node::default();
        while let Some(key) = map.next_key::<Cow<'_, str>>()? {
            match &*key {
                "id" => node.id = map.next_value()?,
                "status" => node.status = map.next_value()?,
                "state" => node.state = map.next_value()?,
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok((None, node))
    }
}

/// What an answer says: one JSON object, or the first events of a stream. `None` if it names no work that can be named in
/// a path.
pub fn seen(answer: &[u8]) -> Option<JobSeen> {
    let answer = answer.trim_ascii_start();
    if answer.first() == Some(&b'{') {
        return read(answer);
    }
    // Events: the first one that names a response is enough.
    let lines = answer.split(|byte| *byte == b'\n').filter_map(|line| line.strip_prefix(b"data:"));
    lines.take(EVENTS_LOOKED_AT).find_map(read)
}

/// An event stream names its response in its first event; a few keep-alives may come before.
const EVENTS_LOOKED_AT: usize = 16;

fn read(json: &[u8]) -> Option<JobSeen> {
    let said: AnswerIn = serde_json::from_slice(json).ok()?;
    if let (Some(id), Some(status)) = (&said.response.id.0, &said.response.status.0) {
        return Some(JobSeen { id: checked(id)?, thread: None, state: state(status) });
    }
    let word = said.processing_status.0.or(said.status.0).or(said.metadata.state.0);
    let state = word.as_deref().map_or(JobState::Running, state);
    let state = match (said.done, state) {
        (Some(true), JobState::Running | JobState::Cancelling) => JobState::Ended,
        (_, state) => state,
    };
    let id = said.id.0.or(said.name.0).as_deref().and_then(checked)?;
    Some(JobSeen { id, thread: said.thread_id.0.as_deref().and_then(checked), state })
}

fn state(word: &str) -> JobState {
    match word.to_ascii_lowercase().trim_start_matches("batch_state_").trim_start_matches("job_state_") {
        "completed" | "succeeded" | "failed" | "incomplete" | "expired" | "ended" | "error"
        | "timeout_exceeded" => JobState::Ended,
        "cancelled" | "canceled" => JobState::Cancelled,
        "cancelling" | "canceling" | "cancellation_requested" => JobState::Cancelling,
        _ => JobState::Running,
    }
}

/// An id that can stand in a path as it is: letters, digits, `_`, `-`, `.`, and for names of operations `/` between them.
fn checked(id: &str) -> Option<String> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    let is_part = |part: &str| !matches!(part, "" | "." | "..") && part.bytes().all(fits);
    (id.len() <= ID_BYTES_MAX && id.split('/').all(is_part)).then(|| id.to_owned())
}

/// Where some work is, by the path of the request that began it.
#[derive(Clone, Copy, Debug)]
pub struct JobPlace<'a> {
    /// What it is.
    pub kind: JobKind,
    /// The path that began it, [plain](plain_path).
    pub path: &'a str,
    /// Its id.
    pub id: &'a str,
    /// The thread of a run.
    pub thread: Option<&'a str>,
}

impl JobPlace<'_> {
    /// The path at which it can be looked at; `None` if there is none.
    pub fn look(&self) -> Option<String> {
        let (path, id) = (self.path, self.id);
        match self.kind {
            JobKind::Response
            | JobKind::Batch
            | JobKind::MessageBatch
            | JobKind::FineTuning
            | JobKind::EvalRun
            | JobKind::Interaction => Some(format!("{path}/{id}")),
            JobKind::ThreadRun => match (path.strip_suffix("/threads/runs"), self.thread) {
                (None, _) => Some(format!("{path}/{id}")),
                (Some(base), Some(thread)) => Some(format!("{base}/threads/{thread}/runs/{id}")),
                (Some(_), None) => None,
            },
            JobKind::Video => Some(format!("{}/{id}", path.get(..path.find("/videos")? + "/videos".len())?)),
            // Its name is its path, beside the models.
            JobKind::GeminiBatch | JobKind::Operation => {
                Some(format!("{}/{id}", path.get(..path.find("/models/")?)?))
            }
        }
    }

    /// The path to which a POST cancels it; `None` if the provider has no such call: a video that is being rendered can be
    /// deleted only when it is done, and an operation of Gemini ends by itself.
    pub fn cancel(&self) -> Option<String> {
        let look = self.look()?;
        match self.kind {
            JobKind::Response
            | JobKind::Batch
            | JobKind::MessageBatch
            | JobKind::FineTuning
            | JobKind::ThreadRun
            | JobKind::Interaction => Some(format!("{look}/cancel")),
            JobKind::EvalRun => Some(look),
            JobKind::GeminiBatch => Some(format!("{look}:cancel")),
            JobKind::Video | JobKind::Operation => None,
        }
    }

    /// Whether a request with this [plain](plain_path) path polls it or cancels it.
    pub fn is_meant_by(&self, path: &str) -> bool {
        self.look().is_some_and(|look| look == path) || self.cancel().is_some_and(|cancel| cancel == path)
    }
}

/// Takes an answer down as it passes, to be read at its end. Bounded: see [`ANSWER_BYTES_MAX`].
#[derive(Debug)]
pub struct JobReader {
    decoder: Option<Box<Decoder>>,
    taken: Vec<u8>,
    is_blind: bool,
}

impl JobReader {
    /// `encoding` is the answer's `content-encoding`, `""` if it has none.
    pub fn new(encoding: &str) -> JobReader {
        let decoder = Decoder::new(encoding);
        let is_blind = decoder.is_err();
        JobReader { decoder: decoder.ok().flatten().map(Box::new), taken: Vec::new(), is_blind }
    }

    /// Takes the next bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.is_blind {
            return;
        }
        let taken = &mut self.taken;
        let mut take = |plain: &[u8]| {
            let room = ANSWER_BYTES_MAX.saturating_sub(taken.len());
            taken.extend_from_slice(plain.get(..plain.len().min(room)).unwrap_or_default());
        };
        match &mut self.decoder {
            None => take(bytes),
            Some(decoder) => decoder.push(bytes, take),
        }
    }

    /// What it says.
    pub fn seen(&self) -> Option<JobSeen> {
        seen(&self.taken)
    }
}

#[cfg(test)]
mod tests;

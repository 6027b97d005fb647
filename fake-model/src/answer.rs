//! What the model says, before any protocol gives it a shape.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Larger pieces of text than this are sent in several events, as real models never send more at once.
const PIECE_BYTES_MAX: usize = 16 * 1024;

/// An answer to be encoded.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    /// Number of the request; ids are made of it.
    pub(crate) number: u64,
    pub(crate) model: String,
    /// Seconds since 1970.
    pub(crate) created: i64,
    pub(crate) reasoning: Option<String>,
    pub(crate) text: Text,
    pub(crate) calls: Vec<ToolCall>,
    /// `None`: the provider says nothing about it.
    pub(crate) usage: Option<Usage>,
    pub(crate) finish: Finish,
    /// Chat streams say usage only if asked.
    pub(crate) usage_in_stream: bool,
}

impl Answer {
    /// An id in the provider's style, the same for the whole answer.
    pub(crate) fn id(&self, prefix: &str) -> String {
        format!("{prefix}fake{:08}", self.number)
    }

    /// The id of its n-th tool call.
    pub(crate) fn call_id(&self, prefix: &str, index: usize) -> String {
        format!("{prefix}fake{:08}x{index}", self.number)
    }
}

/// The assistant's text: a unit said once or many times.
#[derive(Clone, Debug)]
pub(crate) struct Text {
    pub(crate) unit: String,
    pub(crate) times: usize,
}

impl Text {
    /// Said once.
    pub(crate) fn once(unit: impl Into<String>) -> Self {
        Self { unit: unit.into(), times: 1 }
    }

    /// All of it in one string; an endless text is cut after 10,000 repeats, because nobody can wait for it.
    pub(crate) fn whole(&self) -> String {
        self.unit.repeat(self.times.min(CHANT_REPEATS))
    }

    /// As a model streams it: word by word, unit by unit, or in blocks if it is huge.
    pub(crate) fn pieces(&self) -> Box<dyn Iterator<Item = String> + Send> {
        if self.times > 1 {
            return Box::new(std::iter::repeat_n(self.unit.clone(), self.times));
        }
        if self.unit.len() > PIECE_BYTES_MAX {
            return Box::new(blocks(&self.unit).into_iter());
        }
        Box::new(self.unit.split_inclusive(' ').map(str::to_owned).collect::<Vec<_>>().into_iter())
    }
}

/// How often `fake-chant` says its sentence.
pub(crate) const CHANT_REPEATS: usize = 10_000;

fn blocks(text: &str) -> Vec<String> {
    let mut rest = text;
    let mut blocks = Vec::new();
    while !rest.is_empty() {
        let (block, after) = rest.split_at(rest.floor_char_boundary(PIECE_BYTES_MAX.min(rest.len())));
        blocks.push(block.to_owned());
        rest = after;
    }
    blocks
}

/// A tool call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolCall {
    /// The tool's name.
    pub name: String,
    /// An object; a string for custom tools.
    #[serde(default)]
    pub arguments: Value,
    /// How it is called.
    #[serde(default)]
    pub kind: ToolKind,
    /// The namespace it was declared in (Codex).
    #[serde(default)]
    pub namespace: Option<String>,
}

impl ToolCall {
    /// Arguments as JSON text, or the text itself.
    pub(crate) fn arguments_text(&self) -> String {
        self.arguments.as_str().map_or_else(|| self.arguments.to_string(), str::to_owned)
    }
}

/// How a tool is called.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolKind {
    /// With JSON arguments.
    #[default]
    Function,
    /// With free text (`{"type":"custom"}`).
    Custom,
    /// The built-in `local_shell` of Responses.
    LocalShell,
}

/// Tokens used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Usage {
    /// All input tokens, cache included.
    pub input: u64,
    /// All output tokens, reasoning included.
    pub output: u64,
    /// Of the input, read from a cache.
    pub cache_read: u64,
    /// Of the input, written to a cache (Anthropic only).
    pub cache_write: u64,
    /// Of the output, spent on reasoning.
    pub reasoning: u64,
}

/// Why the model stopped; with tool calls, `Stop` is said as "wants tools".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Finish {
    /// It was done.
    #[default]
    Stop,
    /// The output limit was reached.
    Length,
    /// A filter stopped it.
    Filter,
}

//! Which call a path is.
//!
//! Recognised by the end of the path, so that any OpenAI-compatible base URL works. What is not recognised is
//! [`Protocol::Other`]: forwarded under the same gates, never a side door (ID-5). So that no odd spelling slips past,
//! a path is compared the way a lenient server might read it: percent-decoded, without empty and dot segments, in any
//! case.

mod cost;

use std::borrow::Cow;

pub use cost::{costs_nothing, plain_path};

/// What a provider speaks by default (`protocol:` in the configuration).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// OpenAI and everything compatible with it.
    OpenAi,
    /// Anthropic.
    Anthropic,
    /// Google Gemini.
    Gemini,
    /// Ollama.
    Ollama,
}

/// The shape of a call, its answer and its refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// `…/chat/completions`
    OpenAiChat,
    /// `…/responses`
    OpenAiResponses,
    /// `…/completions`, the legacy form.
    OpenAiCompletions,
    /// `…/v1/messages`
    AnthropicMessages,
    /// `…:generateContent` and `…:streamGenerateContent`
    Gemini,
    /// `/api/chat`
    OllamaChat,
    /// `/api/generate`
    OllamaGenerate,
    /// Embeddings of any family: counted, not fingerprinted.
    Embeddings(Family),
    /// Any other path of a provider of this family.
    Other(Family),
}

/// A call, as its method and path tell it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// Its shape.
    pub protocol: Protocol,
    /// The model, where the path names it (Gemini, Azure deployments).
    pub model: Option<String>,
    /// Whether the path alone says that the answer is streamed (Gemini).
    pub stream: bool,
}

impl Family {
    /// All of them.
    pub const ALL: [Family; 4] = [Family::OpenAi, Family::Anthropic, Family::Gemini, Family::Ollama];
}

impl Protocol {
    /// Those in which a model writes an answer.
    pub const GENERATIONS: [Protocol; 7] = [
        Protocol::OpenAiChat,
        Protocol::OpenAiResponses,
        Protocol::OpenAiCompletions,
        Protocol::AnthropicMessages,
        Protocol::Gemini,
        Protocol::OllamaChat,
        Protocol::OllamaGenerate,
    ];

    /// All of them, of every family.
    pub fn all() -> impl Iterator<Item = Protocol> {
        let others = Family::ALL.into_iter().flat_map(|of| [Protocol::Embeddings(of), Protocol::Other(of)]);
        Protocol::GENERATIONS.into_iter().chain(others)
    }

    /// Whether a model writes an answer: what is fingerprinted and judged as a step of an agent.
    pub fn is_generation(self) -> bool {
        match self {
            Protocol::OpenAiChat
            | Protocol::OpenAiResponses
            | Protocol::OpenAiCompletions
            | Protocol::AnthropicMessages
            | Protocol::Gemini
            | Protocol::OllamaChat
            | Protocol::OllamaGenerate => true,
            Protocol::Embeddings(_) | Protocol::Other(_) => false,
        }
    }

    /// Whose shape it has, which need not be the provider's: Ollama speaks OpenAI's too.
    pub fn family(self) -> Family {
        match self {
            Protocol::OpenAiChat | Protocol::OpenAiResponses | Protocol::OpenAiCompletions => Family::OpenAi,
            Protocol::AnthropicMessages => Family::Anthropic,
            Protocol::Gemini => Family::Gemini,
            Protocol::OllamaChat | Protocol::OllamaGenerate => Family::Ollama,
            Protocol::Embeddings(family) | Protocol::Other(family) => family,
        }
    }
}

/// Which call a method and a path are. `path` is without its query, as it is sent to a provider of this family.
pub fn recognise(family: Family, method: &str, path: &str) -> Call {
    let other = Call { protocol: Protocol::Other(family), model: None, stream: false };
    if !method.eq_ignore_ascii_case("POST") {
        return other;
    }
    // As most clients write it.
    if let Some((_, protocol)) = USUAL.iter().find(|(usual, _)| *usual == path) {
        return Call { protocol: *protocol, model: None, stream: false };
    }
    recognise_any(path).unwrap_or(other)
}

/// Paths that need not be taken apart.
const USUAL: [(&str, Protocol); 4] = [
    ("/v1/chat/completions", Protocol::OpenAiChat),
    ("/v1/messages", Protocol::AnthropicMessages),
    ("/v1/responses", Protocol::OpenAiResponses),
    ("/api/chat", Protocol::OllamaChat),
];

fn recognise_any(path: &str) -> Option<Call> {
    let decoded = decoded_twice(path);
    let end = End::of(&decoded);
    end.by_verb().or_else(|| end.by_segments())
}

/// Twice: some servers do. Recognising too much only means that it is inspected.
pub(crate) fn decoded_twice(path: &str) -> Cow<'_, str> {
    match percent_decoded(path) {
        Cow::Borrowed(plain) => Cow::Borrowed(plain),
        Cow::Owned(once) => Cow::Owned(percent_decoded(&once).into_owned()),
    }
}

/// What of a path tells which call it is.
struct End<'p> {
    /// Its last segments, the last one first.
    last: [Option<&'p str>; 3],
    /// Azure's way of naming a model: `deployments/M/chat/completions`, by the first such segment.
    deployment: Option<&'p str>,
}

impl<'p> End<'p> {
    fn of(path: &'p str) -> End<'p> {
        let mut end = End { last: [None; 3], deployment: None };
        let mut after = None;
        for (from_end, segment) in segments_from_end(path).enumerate() {
            if let Some(place) = end.last.get_mut(from_end) {
                *place = Some(segment);
            }
            // The last segment is the call itself.
            if from_end > 0 {
                if segment.eq_ignore_ascii_case("deployments") {
                    end.deployment = after;
                }
                after = Some(segment);
            }
        }
        end
    }

    /// Google's way: `models/M:generateContent`.
    fn by_verb(&self) -> Option<Call> {
        let last = self.last[0]?;
        let colon = last.bytes().rposition(|b| b == b':')?;
        let (model, verb) = (last.get(..colon)?, last.get(colon + 1..)?);
        let call = |protocol, stream| Some(Call { protocol, model: Some(model.to_owned()), stream });
        match verb.to_ascii_lowercase().as_str() {
            "generatecontent" => call(Protocol::Gemini, false),
            "streamgeneratecontent" => call(Protocol::Gemini, true),
            "embedcontent" | "batchembedcontents" => call(Protocol::Embeddings(Family::Gemini), false),
            _ => None,
        }
    }

    fn by_segments(&self) -> Option<Call> {
        let is = |from_end: usize, word: &str| {
            self.last[from_end].is_some_and(|segment| segment == word || segment.eq_ignore_ascii_case(word))
        };
        let protocol = if is(0, "completions") {
            // Mistral's agents are asked with messages, as in a chat.
            if is(1, "chat") || is(1, "agents") { Protocol::OpenAiChat } else { Protocol::OpenAiCompletions }
        } else if is(0, "responses") {
            Protocol::OpenAiResponses
        } else if is(0, "messages") && !is(2, "threads") {
            Protocol::AnthropicMessages
        } else if is(1, "api") && is(0, "chat") {
            Protocol::OllamaChat
        } else if is(1, "api") && is(0, "generate") {
            Protocol::OllamaGenerate
        } else if is(1, "api") && (is(0, "embed") || is(0, "embeddings")) {
            Protocol::Embeddings(Family::Ollama)
        } else if is(0, "embeddings") {
            Protocol::Embeddings(Family::OpenAi)
        } else {
            return None;
        };
        Some(Call { protocol, model: self.deployment.map(str::to_owned), stream: false })
    }
}

/// The segments of a path as a lenient server reads them, the last one first.
pub(crate) fn segments_from_end(path: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(path);
    // Segments that a `..` after them takes back.
    let mut taken_back = 0;
    std::iter::from_fn(move || {
        loop {
            let path = rest?;
            let cut = path.bytes().rposition(|b| matches!(b, b'/' | b'\\'));
            rest = cut.and_then(|cut| path.get(..cut));
            match name(cut.and_then(|cut| path.get(cut + 1..)).unwrap_or(path)) {
                "" | "." => {}
                ".." => taken_back += 1,
                _ if taken_back > 0 => taken_back -= 1,
                name => return Some(name),
            }
        }
    })
}

/// A segment without its parameters, and without what lenient servers drop at its end.
fn name(segment: &str) -> &str {
    let end = segment.bytes().position(|b| matches!(b, b';' | b'?' | b'#'));
    let name = end.and_then(|end| segment.get(..end)).unwrap_or(segment);
    name.trim_end_matches(|c: char| c == '.' && name.len() > 2 || c.is_whitespace() || c.is_control())
}

fn percent_decoded(path: &str) -> Cow<'_, str> {
    if memchr::memchr(b'%', path.as_bytes()).is_none() {
        return Cow::Borrowed(path);
    }
    let mut out = Vec::with_capacity(path.len());
    let mut rest = path.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        let escaped = (byte == b'%').then(|| after.split_first_chunk::<2>()).flatten();
        let decoded = escaped.and_then(|(digits, after)| {
            let high = char::from(digits[0]).to_digit(16)?;
            let low = char::from(digits[1]).to_digit(16)?;
            Some((u8::try_from(high << 4 | low).ok()?, after))
        });
        let (byte, after) = decoded.unwrap_or((byte, after));
        out.push(byte);
        rest = after;
    }
    Cow::Owned(String::from_utf8_lossy(&out).into_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The definition, from front to back.
    fn slow_segments(path: &str) -> Vec<&str> {
        let mut segments = Vec::new();
        for segment in path.split(['/', '\\']) {
            let name = segment.split([';', '?', '#']).next().unwrap_or_default();
            match name
                .trim_end_matches(|c: char| c == '.' && name.len() > 2 || c.is_whitespace() || c.is_control())
            {
                "" | "." => {}
                ".." => drop(segments.pop()),
                name => segments.push(name),
            }
        }
        segments
    }

    fn slow_deployment<'a>(segments: &[&'a str]) -> Option<&'a str> {
        let at = segments.iter().position(|segment| segment.eq_ignore_ascii_case("deployments"))?;
        segments[..segments.len() - 1].get(at + 1).copied()
    }

    #[test]
    fn id_5_usual_paths_are_what_they_are_when_taken_apart() {
        for (path, protocol) in USUAL {
            let call = Call { protocol, model: None, stream: false };
            assert_eq!(recognise_any(path), Some(call.clone()), "{path}");
            assert_eq!(recognise(Family::Gemini, "post", path), call, "{path}");
        }
    }

    proptest! {
        #[test]
        fn id_5_segments_from_the_end_are_those_from_the_front(
            path in r"([/\\]|\.\.|\.|;|\?|#| |deployments|m|\u{85}|é|[a-zA-Z]{1,3}|[/\\]){0,16}",
        ) {
            let slow = slow_segments(&path);
            let mut fast: Vec<&str> = segments_from_end(&path).collect();
            fast.reverse();
            prop_assert_eq!(&fast, &slow);
            let end = End::of(&path);
            prop_assert!(end.last.iter().flatten().eq(slow.iter().rev().take(3)));
            prop_assert_eq!(end.deployment, slow_deployment(&slow));
        }
    }
}

//! Which call a path is.
//!
//! Recognised by the end of the path, so that any OpenAI-compatible base URL works. What is not recognised is
//! [`Protocol::Other`]: forwarded under the same gates, never a side door (ID-5). So that no odd spelling slips past,
//! a path is compared the way a lenient server might read it: percent-decoded, without empty and dot segments, in any
//! case.

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

impl Protocol {
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
    // Twice: some servers do. Recognising too much only means that it is inspected.
    let decoded = percent_decoded(&percent_decoded(path));
    let segments = segments(&decoded);
    by_verb(&segments).or_else(|| by_segments(&segments)).unwrap_or(other)
}

/// Google's way: `models/M:generateContent`.
fn by_verb(segments: &[&str]) -> Option<Call> {
    let (model, verb) = segments.last()?.rsplit_once(':')?;
    let call = |protocol, stream| Some(Call { protocol, model: Some(model.to_owned()), stream });
    match verb.to_ascii_lowercase().as_str() {
        "generatecontent" => call(Protocol::Gemini, false),
        "streamgeneratecontent" => call(Protocol::Gemini, true),
        "embedcontent" | "batchembedcontents" => call(Protocol::Embeddings(Family::Gemini), false),
        _ => None,
    }
}

fn by_segments(segments: &[&str]) -> Option<Call> {
    let is = |from_end: usize, word: &str| {
        let at = segments.len().checked_sub(from_end + 1);
        at.and_then(|at| segments.get(at)).is_some_and(|segment| segment.eq_ignore_ascii_case(word))
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
    Some(Call { protocol, model: deployment(segments), stream: false })
}

/// Azure's way of naming a model: `deployments/M/chat/completions`.
fn deployment(segments: &[&str]) -> Option<String> {
    let at = segments.iter().position(|segment| segment.eq_ignore_ascii_case("deployments"))?;
    // The last segment is the call itself.
    segments[..segments.len() - 1].get(at + 1).map(|&model| model.to_owned())
}

fn segments(path: &str) -> Vec<&str> {
    let mut segments = Vec::new();
    for segment in path.split(['/', '\\']) {
        // Parameters of a segment, and what lenient servers drop at its end.
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

fn percent_decoded(path: &str) -> String {
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
    String::from_utf8_lossy(&out).into_owned()
}

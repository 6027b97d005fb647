//! From a JSON document to what it says, by protocol.

use serde::Deserialize;
use serde_json::Deserializer;

use super::builder::ResponseBuilder;
use super::{anthropic, gemini, ollama, openai_chat, openai_responses};
use crate::protocol::{Family, Protocol};

/// A document of some protocol: a whole answer or a part of a stream.
pub(super) trait Document {
    /// Tells what it says.
    fn record(self, builder: &mut ResponseBuilder);
}

/// Reads a document. Broken JSON and keys that come twice are missed, not guessed.
pub(super) fn read(protocol: Protocol, json: &[u8], builder: &mut ResponseBuilder) {
    match protocol {
        Protocol::OpenAiChat
        | Protocol::OpenAiCompletions
        | Protocol::Embeddings(Family::OpenAi)
        | Protocol::Other(Family::OpenAi) => read_as::<openai_chat::Answer<'_>>(json, builder),
        Protocol::OpenAiResponses => read_as::<openai_responses::Event<'_>>(json, builder),
        Protocol::AnthropicMessages
        | Protocol::Embeddings(Family::Anthropic)
        | Protocol::Other(Family::Anthropic) => read_as::<anthropic::Event<'_>>(json, builder),
        Protocol::Gemini | Protocol::Embeddings(Family::Gemini) | Protocol::Other(Family::Gemini) => {
            read_as::<gemini::Answer<'_>>(json, builder);
        }
        Protocol::OllamaChat
        | Protocol::OllamaGenerate
        | Protocol::Embeddings(Family::Ollama)
        | Protocol::Other(Family::Ollama) => read_as::<ollama::Answer<'_>>(json, builder),
    }
}

/// Several documents may follow each other: Ollama's lines, sent with the wrong content type.
pub(super) fn read_as<'a, T: Document + Deserialize<'a>>(json: &'a [u8], builder: &mut ResponseBuilder) {
    // Checking all of it once is faster than string by string.
    let Ok(json) = std::str::from_utf8(json) else { return builder.miss() };
    // The library reads each byte a constant number of times, and passes over what nobody asks for without recursion.
    estop_core::steps::add(json.len());
    for document in Deserializer::from_str(json).into_iter::<T>() {
        match document {
            Ok(document) => document.record(builder),
            Err(_) => return builder.miss(),
        }
    }
}

/// The keys that begin the part of a whole answer with its usage, in any protocol.
const USAGE_KEYS: [&[u8]; 3] = [b"\"usage\"", b"\"usageMetadata\"", b"\"prompt_eval_count\""];

/// Reads the usage from the end of an answer whose beginning is lost.
///
/// From the last such key of the outermost object to the end, with a brace before it, is a document again. If
/// the key is not of the outermost object, braces do not match and nothing is read.
pub(super) fn read_end(protocol: Protocol, end: &[u8], builder: &mut ResponseBuilder) {
    let last = USAGE_KEYS.iter().filter_map(|key| memchr::memmem::rfind(end, key)).max();
    let Some(at) = last else { return };
    let mut document = Vec::with_capacity(1 + end.len() - at);
    document.push(b'{');
    document.extend_from_slice(&end[at..]);
    if serde_json::from_slice::<serde::de::IgnoredAny>(&document).is_ok() {
        read(protocol, &document, builder);
    }
}

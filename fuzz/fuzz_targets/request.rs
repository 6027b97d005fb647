//! Bodies of requests, in every protocol.
#![no_main]

use estop_fuzz::{bounded, chosen};
use estop_wire::protocol::{Family, Protocol};
use estop_wire::request;
use libfuzzer_sys::fuzz_target;

const PROTOCOLS: [Protocol; 9] = [
    Protocol::OpenAiChat,
    Protocol::OpenAiResponses,
    Protocol::OpenAiCompletions,
    Protocol::AnthropicMessages,
    Protocol::Gemini,
    Protocol::OllamaChat,
    Protocol::OllamaGenerate,
    Protocol::Embeddings(Family::OpenAi),
    Protocol::Other(Family::OpenAi),
];

fuzz_target!(|data: &[u8]| {
    let (first, body) = chosen(data);
    bounded(100, body.len(), || drop(request::read(PROTOCOLS[first % PROTOCOLS.len()], body)));
});

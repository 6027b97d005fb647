//! Embeddings of every family: small vectors, the same for the same text.

use serde_json::{Value, json};

use crate::ask::{list, text};

/// Which family's shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    OpenAi,
    GeminiOne,
    GeminiMany,
    OllamaEmbed,
    OllamaOld,
}

/// The answer to a request for embeddings.
pub(crate) fn plain(shape: Shape, body: &Value, body_bytes: usize) -> Value {
    let tokens = body_bytes / 4 + 1;
    match shape {
        Shape::OpenAi => {
            let as_base64 = body["encoding_format"] == "base64";
            let item = |(index, text): (usize, String)| {
                let vector = vector(&text);
                let embedding = if as_base64 { json!(base64_of(&vector)) } else { json!(vector) };
                json!({"object": "embedding", "index": index, "embedding": embedding})
            };
            let data: Vec<Value> = inputs(&body["input"]).into_iter().enumerate().map(item).collect();
            json!({"object": "list", "data": data, "model": text(&body["model"]),
                "usage": {"prompt_tokens": tokens, "total_tokens": tokens}})
        }
        Shape::GeminiOne => json!({"embedding": {"values": vector(&body["content"].to_string())}}),
        Shape::GeminiMany => {
            let one = |request: &Value| json!({"values": vector(&request["content"].to_string())});
            json!({"embeddings": list(&body["requests"]).iter().map(one).collect::<Vec<_>>()})
        }
        Shape::OllamaEmbed => {
            let vectors: Vec<_> = inputs(&body["input"]).iter().map(|text| vector(text)).collect();
            json!({"model": text(&body["model"]), "embeddings": vectors, "total_duration": 1_000_000,
                "load_duration": 100_000, "prompt_eval_count": tokens})
        }
        Shape::OllamaOld => json!({"embedding": vector(&text(&body["prompt"]))}),
    }
}

/// One text, or several; token lists count as one text.
fn inputs(input: &Value) -> Vec<String> {
    let many = list(input);
    if many.iter().any(|item| item.is_string() || item.is_array()) {
        return many.iter().map(Value::to_string).collect();
    }
    vec![input.to_string()]
}

fn vector(text: &str) -> Vec<f32> {
    let sum = |lane: usize| text.bytes().skip(lane).step_by(8).fold(lane as u8, u8::wrapping_add);
    (0..8).map(|lane| f32::from(sum(lane)) / 255.0).collect()
}

fn base64_of(vector: &[f32]) -> String {
    use base64::Engine as _;
    let bytes: Vec<u8> = vector.iter().flat_map(|number| number.to_le_bytes()).collect();
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

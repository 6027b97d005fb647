//! Lists and descriptions of models, and small talk: what clients ask before they begin.

use serde_json::{Value, json};

/// Names that do something special come first.
const MODELS: &[&str] = &[
    "fake",
    "fake-loop",
    "fake-loop-turns",
    "fake-chant",
    "fake-endless",
    "fake-slow",
    "fake-hold",
    "fake-error",
    "fake-limited",
    "gpt-5.4",
    "claude-sonnet-4-5",
    "gemini-2.5-pro",
    "llama3.2",
];

/// The answer to a path that generates nothing, if it is known.
pub(crate) fn answer(path: &str, is_post: bool, body: &Value) -> Option<Value> {
    let date = "2026-01-01T00:00:00Z";
    if path.ends_with("/api/hello") || path == "/" {
        return Some(json!({"message": "hello"}));
    }
    if path.ends_with("/api/version") {
        return Some(json!({"version": "0.99.0"}));
    }
    if path.ends_with("/api/tags") || path.ends_with("/api/ps") {
        let model = |name: &&str| {
            json!({"name": name, "model": name, "modified_at": date, "size": 1_000_000, "digest": "0".repeat(64),
                "details": {"parent_model": "", "format": "gguf", "family": "fake", "families": ["fake"],
                    "parameter_size": "1B", "quantization_level": "Q4_0"}})
        };
        return Some(json!({"models": MODELS.iter().map(model).collect::<Vec<_>>()}));
    }
    if path.ends_with("/api/show") && is_post {
        return Some(
            json!({"modelfile": "", "parameters": "", "template": "", "details": {"family": "fake"},
            "model_info": {"general.architecture": "fake", "fake.context_length": 131_072},
            "capabilities": ["completion", "tools"], "model": body["model"]}),
        );
    }
    if path.ends_with("/models") {
        // Both OpenAI's and Anthropic's and Gemini's readers find their fields.
        let data: Vec<Value> = MODELS.iter().map(|name| model(name)).collect();
        let gemini: Vec<Value> = MODELS.iter().map(|name| gemini_model(name)).collect();
        return Some(json!({"object": "list", "data": data, "has_more": false, "first_id": MODELS.first(),
            "last_id": MODELS.last(), "models": gemini}));
    }
    let (_, name) = path.rsplit_once("/models/")?;
    let mut whole = model(name);
    if let (Some(whole), Value::Object(gemini)) = (whole.as_object_mut(), gemini_model(name)) {
        whole.extend(gemini);
    }
    (!is_post).then_some(whole)
}

fn model(name: &str) -> Value {
    json!({"id": name, "object": "model", "created": 1_767_225_600, "owned_by": "estop", "type": "model",
        "display_name": name, "created_at": "2026-01-01T00:00:00Z"})
}

fn gemini_model(name: &str) -> Value {
    json!({"name": format!("models/{name}"), "version": "001", "displayName": name, "inputTokenLimit": 1_048_576,
        "outputTokenLimit": 65_536, "supportedGenerationMethods": ["generateContent", "countTokens"]})
}

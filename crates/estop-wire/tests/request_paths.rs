//! Which call a path is (ID-5).

use estop_wire::protocol::{Call, Family, Protocol, recognise};

fn post(path: &str) -> Call {
    recognise(Family::OpenAi, "POST", path)
}

#[track_caller]
fn check(protocol: Protocol, paths: &[&str]) {
    for path in paths {
        assert_eq!(post(path).protocol, protocol, "{path}");
    }
}

#[test]
fn id_5_calls_are_recognised_by_the_end_of_their_path() {
    check(
        Protocol::OpenAiChat,
        &[
            "/v1/chat/completions",
            "/chat/completions",
            "/openai/deployments/gpt-4o/chat/completions",
            "/v1beta/openai/chat/completions",
            "/openai/v1/chat/completions",
            "/v1/agents/completions",
        ],
    );
    check(Protocol::OpenAiResponses, &["/v1/responses", "/responses", "/openai/v1/responses"]);
    check(
        Protocol::OpenAiCompletions,
        &["/v1/completions", "/completions", "/v1/fim/completions", "/beta/completions"],
    );
    check(Protocol::AnthropicMessages, &["/v1/messages", "/messages", "/anthropic/v1/messages"]);
    check(
        Protocol::Gemini,
        &[
            "/v1beta/models/gemini-2.5-pro:generateContent",
            "/v1/models/gemini-2.5-pro:streamGenerateContent",
            "/v1/projects/p/locations/l/publishers/google/models/m:generateContent",
        ],
    );
    check(Protocol::OllamaChat, &["/api/chat"]);
    check(Protocol::OllamaGenerate, &["/api/generate"]);
    check(
        Protocol::Embeddings(Family::OpenAi),
        &["/v1/embeddings", "/embeddings", "/openai/deployments/e/embeddings"],
    );
    check(
        Protocol::Embeddings(Family::Gemini),
        &["/v1beta/models/e:embedContent", "/v1beta/models/e:batchEmbedContents"],
    );
    check(Protocol::Embeddings(Family::Ollama), &["/api/embed", "/api/embeddings"]);
}

#[test]
fn id_5_odd_spellings_are_no_side_door() {
    check(
        Protocol::OpenAiChat,
        &[
            "/v1/chat/completions/",
            "//v1//chat///completions//",
            "/V1/Chat/COMPLETIONS",
            "/v1/chat%2Fcompletions",
            "/v1/ch%61t/completions",
            "/v1/%63hat/./completions",
            "/v1/models/../chat/completions",
            "chat/completions",
            "/v1/chat/completions;x=y",
            "/v1/chat/completions%3bx",
            "/v1/chat;v=1/completions",
            "/v1/chat/completions%3fx",
            "/v1/chat/completions%20",
            "/v1/chat/completions%00",
            "/v1/chat/completions.",
            "/v1/chat%5ccompletions",
            "/v1/ch%2561t/completions",
        ],
    );
    check(Protocol::Gemini, &["/v1beta/models/m%3AgenerateContent", "/v1beta/models/m:GENERATECONTENT/"]);
    check(Protocol::AnthropicMessages, &["/v1/messages//", "/v1/Messages"]);
    assert_eq!(recognise(Family::Gemini, "post", "/v1/chat/completions").protocol, Protocol::OpenAiChat);
}

#[test]
fn id_5_everything_else_is_other_of_its_family() {
    check(
        Protocol::Other(Family::OpenAi),
        &[
            "",
            "/",
            "/v1/threads/thread_1/messages",
            "/v1/messages/count_tokens",
            "/v1/messages/batches",
            "/v1/responses/resp_1/cancel",
            "/v1/responses/compact",
            "/v1/models",
            "/v1/batches",
            "/v1/audio/speech",
            "/v1beta/models/m:countTokens",
            "/api/pull",
            "/v1/mychat/completions2",
            "/api/chat/x",
            "/%",
            "/%zz/%f",
            "/../..",
        ],
    );
    for method in ["GET", "HEAD", "DELETE", "OPTIONS", ""] {
        let call = recognise(Family::Anthropic, method, "/v1/messages");
        assert_eq!(call, Call { protocol: Protocol::Other(Family::Anthropic), model: None, stream: false });
    }
}

#[test]
fn id_5_some_paths_name_the_model_and_the_stream() {
    let named = |path: &str| (post(path).model, post(path).stream);
    let model = |name: &str| Some(name.to_owned());
    assert_eq!(named("/v1/chat/completions"), (None, false));
    assert_eq!(named("/openai/deployments/gpt-4o/chat/completions"), (model("gpt-4o"), false));
    assert_eq!(named("/openai/deployments/My%20Model/embeddings"), (model("My Model"), false));
    assert_eq!(named("/deployments/completions"), (None, false));
    assert_eq!(named("/v1beta/models/Gemini-2.5:generateContent"), (model("Gemini-2.5"), false));
    assert_eq!(named("/v1beta/models/gemini-2.5:streamGenerateContent"), (model("gemini-2.5"), true));
}

#[test]
fn id_5_a_call_has_the_shape_of_its_path_and_not_of_its_provider() {
    let family = |path: &str| recognise(Family::Ollama, "POST", path).protocol.family();
    assert_eq!(family("/v1/chat/completions"), Family::OpenAi);
    assert_eq!(family("/v1/messages"), Family::Anthropic);
    assert_eq!(family("/api/chat"), Family::Ollama);
    assert_eq!(family("/api/tags"), Family::Ollama);
    assert!(post("/v1/completions").protocol.is_generation());
    assert!(!post("/v1/embeddings").protocol.is_generation());
    assert!(!post("/v1/files").protocol.is_generation());
}

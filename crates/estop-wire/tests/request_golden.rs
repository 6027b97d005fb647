//! Requests as real clients send them, and what is read from each (`tests/golden/request/`, one pair a request).
//!
//! `ESTOP_BLESS=1` writes the `.expect` files anew; read the difference before you commit it.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use estop_wire::protocol::{Family, Protocol};
use estop_wire::request::{RequestIn, StepIn, read};

/// Which protocol a file is of, by the start of its name.
const PROTOCOLS: &[(&str, Protocol)] = &[
    ("chat_", Protocol::OpenAiChat),
    ("responses_", Protocol::OpenAiResponses),
    ("completions_", Protocol::OpenAiCompletions),
    ("anthropic_", Protocol::AnthropicMessages),
    ("gemini_", Protocol::Gemini),
    ("ollama_chat_", Protocol::OllamaChat),
    ("ollama_generate_", Protocol::OllamaGenerate),
    ("embeddings_", Protocol::Embeddings(Family::OpenAi)),
];

fn goldens() -> Vec<(Protocol, PathBuf)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/request");
    let files = fs::read_dir(folder).expect("the folder is there").map(|file| file.expect("a file").path());
    let mut bodies: Vec<_> = files
        .filter(|path| path.extension().is_some_and(|ending| ending == "json"))
        .map(|path| {
            let name = path.file_name().and_then(|name| name.to_str()).expect("a name");
            let known = PROTOCOLS.iter().find(|(prefix, _)| name.starts_with(prefix));
            (known.expect("a name that starts with its protocol").1, path)
        })
        .collect();
    bodies.sort_by(|a, b| a.1.cmp(&b.1));
    bodies
}

fn rendered(request: &RequestIn<'_>) -> String {
    let mut out = String::new();
    let mut line = |key: &str, value: &str| {
        let value = value.replace('\n', "⏎");
        writeln!(out, "{key}: {value}").expect("a string takes everything");
    };
    let number = |value: Option<u32>| value.map_or("-".to_owned(), |value| value.to_string());
    line("model", request.model.as_deref().unwrap_or("-"));
    line("stream", if request.stream { "yes" } else { "no" });
    line("max output tokens", &number(request.max_output_tokens));
    line("system", &request.system);
    line("first user", &request.first_user);
    line("last user", &request.last_user);
    line("continues", if request.continues { "yes" } else { "no" });
    if let Some(previous) = &request.previous_response {
        line("previous response", previous);
    }
    line("text bytes", &request.text_bytes.to_string());
    for step in &request.steps {
        let StepIn { tool, args, result, ended, call_id } = step;
        line("step", if tool.is_empty() { "-" } else { tool });
        if let Some(id) = call_id {
            line("  call id", id);
        }
        line("  args", args);
        line("  result", result);
        line("  ended", &format!("{ended:?}"));
    }
    out
}

#[test]
fn id_5_requests_of_real_clients_are_read_as_expected() {
    let bless = std::env::var_os("ESTOP_BLESS").is_some();
    let mut wrong = Vec::new();
    let goldens = goldens();
    assert!(goldens.len() >= 25, "only {} bodies", goldens.len());
    for (protocol, path) in goldens {
        let body = fs::read(&path).expect("a body");
        let request = match read(protocol, &body) {
            Ok(request) => request,
            Err(error) => {
                wrong.push(format!("{}: {error}", path.display()));
                continue;
            }
        };
        let expect = path.with_extension("expect");
        if bless {
            fs::write(&expect, rendered(&request)).expect("written");
        }
        let expected = fs::read_to_string(&expect).unwrap_or_default();
        if rendered(&request) != expected {
            wrong.push(format!("{}:\n{}", path.display(), rendered(&request)));
        }
    }
    assert!(wrong.is_empty(), "not as expected:\n{}", wrong.join("\n"));
}

#[test]
fn id_5_white_space_changes_nothing() {
    for (protocol, path) in goldens() {
        let body = fs::read(&path).expect("a body");
        let value: serde_json::Value = serde_json::from_slice(&body).expect("JSON");
        let sorted = serde_json::to_vec(&value).expect("JSON");
        let pretty = serde_json::to_vec_pretty(&value).expect("JSON");
        let compare = |body: &[u8]| {
            let request = read(protocol, body).expect("still a request");
            (rendered(&request).lines().filter(|line| !depends_on_spelling(line)).collect::<Vec<_>>())
                .join("\n")
        };
        assert_eq!(compare(&sorted), compare(&pretty), "{}", path.display());
    }
}

/// JSON that counts as it is written. The core's signature of arguments does not depend on white space; of the rest
/// it does, but no client changes its way of writing from one request to the next.
fn depends_on_spelling(line: &str) -> bool {
    let spelled = ["  args: ", "  result: {", "text bytes: "];
    spelled.iter().any(|start| line.starts_with(start))
        || line.contains("<part:")
        || line.contains("<tokens:")
}

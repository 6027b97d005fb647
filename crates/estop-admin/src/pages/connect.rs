//! The first minutes: a line for each client, and a light that turns green with the first request.

use askama::Template;
use axum::Extension;
use axum::extract::State;

use super::frame::Frame;
use super::{Page, made};
use crate::access::Caller;
use crate::state::App;

#[derive(Template)]
#[template(path = "connect.html")]
struct Connect {
    frame: Frame,
    clients: Vec<Client>,
    called: bool,
}

struct Client {
    id: &'static str,
    name: &'static str,
    line: String,
}

pub(super) async fn page(State(app): State<App>, Extension(caller): Extension<Caller>) -> Page {
    made(app, move |app| {
        let base = format!("{}/agents/my-agent", app.place.data_url);
        let client = |id, name, line: String| Client { id, name, line };
        Ok(Connect {
            frame: Frame::of(app, &caller, "/connect", "Connect")?,
            clients: vec![
                client("run", "Any coding agent, nothing to configure", "estop run -- claude".to_owned()),
                client(
                    "openai",
                    "OpenAI SDKs, LiteLLM, LangChain, …",
                    format!("export OPENAI_BASE_URL={base}/openai/v1"),
                ),
                client(
                    "anthropic",
                    "Anthropic SDKs, Claude Code",
                    format!("export ANTHROPIC_BASE_URL={base}/anthropic"),
                ),
                client(
                    "gemini",
                    "Google GenAI, Gemini CLI",
                    format!("export GOOGLE_GEMINI_BASE_URL={base}/gemini"),
                ),
                client("codex", "Codex", format!("codex -c 'openai_base_url=\"{base}/openai/v1\"'")),
                client("ollama", "Ollama", format!("export OLLAMA_HOST={base}/ollama")),
            ],
            called: app
                .operator
                .agents()
                .iter()
                .any(|view| view.score.is_some() || view.spent_this_month.tokens > 0 || view.in_flight > 0),
        })
    })
    .await
}

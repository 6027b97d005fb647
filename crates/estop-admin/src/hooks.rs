//! Hooks of coding agents over HTTP (TL-1): our own form for every framework, and each client's own for those that can
//! post their hooks and for `estop hook`.
//!
//! What it never does: look into a payload. Reading, judging and answering are the operator's.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use bytes::Bytes;
use estop_core::operator::{HOOK_BODY_MAX, HookCall, HookFault, HookReply};
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::access::Caller;
use crate::input::{BODY_MAX, BODY_TIMEOUT, InPath, PathIn, QueryIn, is_json, read};
use crate::problem::{Kind, Problem};
use crate::state::{App, at_once};

pub(crate) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::default()
        .routes(routes!(session_start))
        .routes(routes!(prompt_submit))
        .routes(routes!(pre_tool_use))
        .routes(routes!(post_tool_use))
        .routes(routes!(turn_end))
        .routes(routes!(subagent_end))
        .routes(routes!(session_end))
        .routes(routes!(of_client))
}

/// Who must wait longer with a large body is refused: others may take 10 s each, and a client does not wait for that.
const LARGE_TIMEOUT: Duration = Duration::from_secs(1);

/// The client whose contract is our own form.
const GENERIC: &str = "generic";

/// Who works, and at what. Keys and tickets say it themselves and can say nothing else.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
#[expect(dead_code, reason = "read by `Asked::of`")]
struct Headers {
    /// The agent; it counts before the body's `agent`. Without both: `default`.
    #[param(rename = "x-estop-agent", value_type = String, required = false,
        pattern = "^[A-Za-z0-9_][A-Za-z0-9._-]{0,63}$")]
    agent: Option<String>,
    /// The run; it counts before the body's `run`. Without both the session is the run.
    #[param(rename = "x-estop-run", value_type = String, required = false,
        pattern = "^[A-Za-z0-9_][A-Za-z0-9._-]{0,63}$")]
    run: Option<String>,
    /// The branch it works on.
    #[param(rename = "x-estop-branch", value_type = String, required = false)]
    branch: Option<String>,
}

/// The same, for clients that take an error for "go on": a name that is none is refused in their words.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
#[expect(dead_code, reason = "read by `Asked::of`")]
struct AnyHeaders {
    /// The agent. Without it: `default`.
    #[param(rename = "x-estop-agent", value_type = String, required = false)]
    agent: Option<String>,
    /// The run. Without it the session is the run.
    #[param(rename = "x-estop-run", value_type = String, required = false)]
    run: Option<String>,
    /// The branch it works on.
    #[param(rename = "x-estop-branch", value_type = String, required = false)]
    branch: Option<String>,
}

/// What any hook may say. Keys that are not known are ignored.
#[derive(ToSchema)]
#[expect(dead_code, reason = "for the document: the data plane reads it")]
struct HookIn {
    #[schema(pattern = "^[A-Za-z0-9_][A-Za-z0-9._-]{0,63}$")]
    agent: Option<String>,
    #[schema(pattern = "^[A-Za-z0-9_][A-Za-z0-9._-]{0,63}$")]
    run: Option<String>,
    /// Your own id of the session. Without a `run`, the session is the run.
    session: Option<String>,
    /// Where it works.
    cwd: Option<Value>,
    /// The model it uses.
    model: Option<Value>,
    /// The person's words, with `prompt-submit`.
    prompt: Option<Value>,
    /// The agent's last words, with `turn-end`: the summary of a run that was stopped.
    last_words: Option<Value>,
}

/// A tool call, before and after.
#[derive(ToSchema)]
#[expect(dead_code, reason = "for the document: the data plane reads it")]
struct ToolHookIn {
    #[schema(pattern = "^[A-Za-z0-9_][A-Za-z0-9._-]{0,63}$")]
    agent: Option<String>,
    #[schema(pattern = "^[A-Za-z0-9_][A-Za-z0-9._-]{0,63}$")]
    run: Option<String>,
    /// Your own id of the session. Without a `run`, the session is the run.
    session: Option<String>,
    /// The tool.
    #[schema(min_length = 1)]
    tool: String,
    /// Its arguments.
    args: Option<Value>,
    /// Your own id of the call, the same before and after.
    call: Option<String>,
    /// Where it works.
    cwd: Option<Value>,
    /// The model it uses.
    model: Option<Value>,
    /// What came out, after a tool.
    result: Option<Value>,
    /// The exit code of a command, after a tool.
    exit_code: Option<Value>,
    /// Whether it failed, after a tool.
    failed: Option<Value>,
}

/// Whether it may go on.
#[derive(ToSchema)]
#[expect(dead_code, reason = "for the document: the data plane writes it")]
struct HookOut {
    /// `allow` or `deny`.
    #[schema(pattern = "^(allow|deny)$")]
    permission: String,
    /// Why not, and what to do now; for the model.
    #[schema(required = true)]
    reason: Option<String>,
    /// What the model should be told beside it: a warning.
    #[schema(required = true)]
    context: Option<String>,
    /// The whole run should end.
    end: bool,
}

macro_rules! event {
    ($(#[$doc:meta])* $name:ident, $path:literal, $event:literal, $body:ty) => {
        $(#[$doc])*
        #[utoipa::path(post, path = $path, tag = "hooks", params(Headers), request_body = $body,
            responses((status = 200, body = HookOut)))]
        async fn $name(app: State<App>, caller: Extension<Caller>, request: Request) -> Result<Response, Problem> {
            in_our_form(app, caller, $event, request).await
        }
    };
}

event!(
    /// A session begins or is resumed.
    session_start, "/api/hooks/session-start", "session-start", HookIn
);
event!(
    /// A person submitted a prompt: a turn.
    prompt_submit, "/api/hooks/prompt-submit", "prompt-submit", HookIn
);
event!(
    /// A tool is about to run: may it?
    pre_tool_use, "/api/hooks/pre-tool-use", "pre-tool-use", ToolHookIn
);
event!(
    /// A tool ran, well or not.
    post_tool_use, "/api/hooks/post-tool-use", "post-tool-use", ToolHookIn
);
event!(
    /// The agent is done with its turn and waits.
    turn_end, "/api/hooks/turn-end", "turn-end", HookIn
);
event!(
    /// A sub-agent is done.
    subagent_end, "/api/hooks/subagent-end", "subagent-end", HookIn
);
event!(
    /// The session is over, and its run with it.
    session_end, "/api/hooks/session-end", "session-end", HookIn
);

async fn in_our_form(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    event: &str,
    request: Request,
) -> Result<Response, Problem> {
    let asked = Asked::of(&caller, GENERIC, event, request.headers())?;
    let said_json = is_json(request.headers());
    let body = body_of(&app, request).await?;
    if !said_json {
        return Err(Problem::new(Kind::NotJson, "Send the body with `content-type: application/json`."));
    }
    let reply = asked.answer(&app, body).await?;
    match reply.fault {
        None => Ok(json(reply.stdout)),
        Some(HookFault::Unread { field, why }) => Err(Problem::field(field, why)),
        Some(HookFault::NotYours(why)) => Err(Problem::new(Kind::Forbidden, why)),
        Some(HookFault::UnknownClient(why)) => Err(Problem::new(Kind::NotFound, why)),
    }
}

/// Which hook of which client.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
struct ClientPath {
    /// As in `estop hook <client>`.
    #[param(pattern = "^[a-z0-9-]{1,32}$")]
    client: String,
    /// The event in the client's own words.
    #[param(pattern = "^[A-Za-z0-9_-]{1,64}$")]
    event: String,
}

impl InPath for ClientPath {}

/// In which form the answer is wanted.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct As {
    /// `command`: what a hook command prints and how it exits, as `estop hook` does.
    #[serde(rename = "as")]
    #[param(rename = "as", inline)]
    form: Option<Form>,
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum Form {
    Command,
}

/// What a hook command prints, and how it exits.
#[derive(Serialize, ToSchema)]
struct CommandOut {
    stdout: String,
    stderr: String,
    exit_code: u8,
}

/// A hook in its client's own contract, for clients that can post their hooks.
///
/// The answer is what the client reads; with `as=command` it is `{"stdout", "stderr", "exit_code"}`. A payload that cannot be
/// read is answered with a refusal in the client's words, because clients take an error for "go on".
#[utoipa::path(post, path = "/api/hooks/{client}/{event}", tag = "hooks", params(ClientPath, As, AnyHeaders),
    request_body(content = Value, description = "What the client says, as it says it."),
    responses((status = 200, body = Value, description = "The client's own form; `{}` = no objection, nothing to say.")))]
async fn of_client(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    PathIn(path): PathIn<ClientPath>,
    QueryIn(form): QueryIn<As>,
    request: Request,
) -> Result<Response, Problem> {
    let asked = Asked::of(&caller, &path.client, &path.event, request.headers());
    let replied = async {
        let body = body_of(&app, request).await?;
        asked?.answer(&app, body).await
    };
    let reply = match (replied.await, &form.form) {
        (Ok(reply), _) => reply,
        // `estop hook` refuses for it, in the client's words.
        (Err(problem), Some(Form::Command)) => return Err(problem),
        // A client that posts its hooks takes an error for "go on".
        (Err(problem), None) => lost(&app, path, problem).await?,
    };
    if let Some(HookFault::UnknownClient(why)) = reply.fault {
        return Err(Problem::new(Kind::NotFound, why));
    }
    let HookReply { stdout, stderr, exit_code, .. } = reply;
    Ok(match form.form {
        Some(Form::Command) => Json(CommandOut { stdout, stderr, exit_code }).into_response(),
        None if stdout.is_empty() => json("{}".to_owned()),
        None => json(stdout),
    })
}

/// The client's own refusal for a hook that was not taken.
async fn lost(app: &App, path: ClientPath, problem: Problem) -> Result<HookReply, Problem> {
    let app = Arc::clone(app);
    at_once(move || {
        let (client, event) = (path.client.as_str(), path.event.as_str());
        let lost = Some(problem.detail());
        Ok(app.operator.hook(HookCall { client, event, lost, ..HookCall::default() }))
    })
    .await
}

fn json(text: String) -> Response {
    ([(CONTENT_TYPE, HeaderValue::from_static("application/json"))], text).into_response()
}

/// A hook, without its body.
struct Asked {
    client: String,
    event: String,
    agent: Option<String>,
    run: Option<String>,
    branch: Option<String>,
    bound: bool,
    supervised: bool,
}

impl Asked {
    fn of(caller: &Caller, client: &str, event: &str, headers: &HeaderMap) -> Result<Asked, Problem> {
        let (agent, run) = (named(headers, "x-estop-agent"), named(headers, "x-estop-run"));
        let branch = named(headers, "x-estop-branch").filter(|branch| !branch.is_empty());
        let (client, event) = (client.to_owned(), event.to_owned());
        let Some(only) = &caller.only else {
            return Ok(Asked { client, event, agent, run, branch, bound: false, supervised: false });
        };
        caller.may_act_for(agent.as_deref().unwrap_or(&only.agent), run.as_deref())?;
        let own = only.run.as_deref().map(str::to_owned);
        Ok(Asked {
            client,
            event,
            agent: Some((*only.agent).to_owned()),
            supervised: own.is_some(),
            run: own.or(run),
            branch,
            bound: true,
        })
    }

    async fn answer(self, app: &App, body: Bytes) -> Result<HookReply, Problem> {
        let permit = permit(&app.hooks).await?;
        let app = Arc::clone(app);
        at_once(move || {
            // Held until it is answered, also if nobody waits for that any more.
            let _permit = permit;
            Ok(app.operator.hook(HookCall {
                client: &self.client,
                event: &self.event,
                body: &body,
                agent: self.agent.as_deref(),
                run: self.run.as_deref(),
                bound: self.bound,
                supervised: self.supervised,
                branch: self.branch.as_deref(),
                lost: None,
            }))
        })
        .await
    }
}

/// What a header says. Sent twice, or not in UTF-8, it names nothing anybody is called, and is refused as such.
fn named(headers: &HeaderMap, name: &'static str) -> Option<String> {
    let mut values = headers.get_all(name).iter().map(|value| String::from_utf8_lossy(value.as_bytes()));
    values.next().map(|first| values.fold(first.into_owned(), |all, more| format!("{all}, {more}")))
}

/// The whole body. Few large ones are taken in at a time: tool results of megabytes are real, but rare.
async fn body_of(app: &App, request: Request) -> Result<Bytes, Problem> {
    let length = request.headers().get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
    if length.is_some_and(|length: usize| length <= BODY_MAX) {
        return read(request.into_body(), BODY_MAX, BODY_TIMEOUT).await;
    }
    let within = tokio::time::timeout(LARGE_TIMEOUT, permit(&app.large_hooks)).await;
    let busy = |_| Problem::new(Kind::Unavailable, "Too many large hooks come in at a time.").retry_after(1);
    let _permit = within.map_err(busy)??;
    read(request.into_body(), HOOK_BODY_MAX, BODY_TIMEOUT).await
}

async fn permit(semaphore: &Arc<Semaphore>) -> Result<OwnedSemaphorePermit, Problem> {
    let permit = Arc::clone(semaphore).acquire_owned().await;
    permit.map_err(|_| Problem::new(Kind::Unavailable, "estop is stopping."))
}

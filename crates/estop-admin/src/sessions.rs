//! Sessions of the dashboard: logging in and out, and which there are.

use std::sync::Arc;

use axum::extract::State;
use axum::{Extension, Json};
use estop_core::ids::Name;
use estop_store::{Session, TokenRole};
use http::header::{SET_COOKIE, USER_AGENT};
use http::{HeaderMap, HeaderValue, StatusCode};
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::access::{Caller, Peer, SESSION_MS, Sessions, is_idle, role_name, shown_id};
use crate::input::{InPath, JsonIn, PathIn};
use crate::output::{Answer, moment};
use crate::problem::{Kind, Problem};
use crate::state::App;

pub(crate) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::default()
        .routes(routes!(log_in, session, log_out))
        .routes(routes!(list_sessions))
        .routes(routes!(revoke_session))
}

/// A login.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct LoginIn {
    /// A token.
    #[serde(deserialize_with = "secret")]
    #[schema(value_type = String, format = Password)]
    token: SecretString,
}

fn secret<'de, D: Deserializer<'de>>(d: D) -> Result<SecretString, D::Error> {
    String::deserialize(d).map(Into::into)
}

/// A session. Its id is in a cookie that scripts cannot read.
#[derive(Serialize, ToSchema)]
#[schema(as = Session)]
struct SessionOut {
    /// The token's name.
    name: String,
    role: &'static str,
    /// It ends then at the latest, and after half an hour without use.
    expires_at: Option<String>,
}

/// A session that has just begun.
#[derive(Serialize, ToSchema)]
#[schema(as = NewSession)]
struct NewSessionOut {
    #[serde(flatten)]
    session: SessionOut,
    /// The session's second secret: requests that change something carry it in the header `x-estop-csrf`. It is answered
    /// this once: the cookie alone, which browsers send to every port of this host, does not get it again.
    csrf: String,
}

/// Logs in: trades a token for a session cookie, and a second secret for whatever changes something.
#[utoipa::path(post, path = "/api/session", tag = "access", request_body = LoginIn,
    responses((status = 201, body = NewSessionOut, headers(("set-cookie" = String)))))]
async fn log_in(
    State(app): State<App>,
    Extension(peer): Extension<Peer>,
    headers: HeaderMap,
    JsonIn(login): JsonIn<LoginIn>,
) -> Result<(StatusCode, HeaderMap, Json<NewSessionOut>), Problem> {
    let now = app.now();
    let known = app.tokens.find(&login.token, peer, now, false).await?;
    let user_agent = headers.get(USER_AGENT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let begun = Sessions::begin(known.id.clone(), user_agent, now)?;
    let kept = begun.kept.clone();
    app.store(move |store| {
        store.sweep_sessions(now)?;
        store.insert_session(&kept)
    })
    .await?;
    app.sessions.remember(begun.kept);
    let cookie = cookie(&app, begun.id.expose_secret(), SESSION_MS / 1000)?;
    let out = NewSessionOut {
        session: SessionOut {
            name: known.name.into(),
            role: role_name(known.role),
            expires_at: Some(moment(now.saturating_add(SESSION_MS))),
        },
        csrf: begun.csrf.expose_secret().to_owned(),
    };
    Ok((StatusCode::CREATED, cookie, Json(out)))
}

/// `Secure` where there is https; see `Options::https`.
fn cookie(app: &App, value: &str, max_age_s: i64) -> Result<HeaderMap, Problem> {
    let name = app.options.cookie_name();
    let secure = if app.options.https { " Secure;" } else { "" };
    let text = format!("{name}={value}; Path=/; Max-Age={max_age_s};{secure} HttpOnly; SameSite=Strict");
    let mut value = HeaderValue::from_str(&text)
        .map_err(|_| Problem::new(Kind::Internal, "The cookie could not be written."))?;
    value.set_sensitive(true);
    Ok(HeaderMap::from_iter([(SET_COOKIE, value)]))
}

/// Shows who is logged in.
#[utoipa::path(get, path = "/api/session", tag = "access", responses((status = 200, body = SessionOut)))]
async fn session(Extension(caller): Extension<Caller>) -> Answer<SessionOut> {
    let expires_at = caller.session.as_ref().map(|session| moment(session.expires_at));
    Ok(Json(SessionOut { name: caller.by.into(), role: role_name(caller.role), expires_at }))
}

/// Logs out. Without a session there is nothing to end.
#[utoipa::path(delete, path = "/api/session", tag = "access", responses((status = 204)))]
async fn log_out(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
) -> Result<(StatusCode, HeaderMap), Problem> {
    let Some(session) = caller.session else { return Ok((StatusCode::NO_CONTENT, HeaderMap::new())) };
    app.sessions.forget(&session.sha256);
    app.store(move |store| store.delete_session(&session.sha256)).await?;
    // Again: a request with the same cookie may have read the row just before it was deleted.
    app.sessions.forget(&session.sha256);
    Ok((StatusCode::NO_CONTENT, cookie(&app, "", 0)?))
}

/// A session of the dashboard that has not ended.
pub(crate) struct OpenSession {
    /// What people call it by. It opens nothing.
    pub(crate) id: String,
    /// The name of its token.
    pub(crate) name: Name,
    pub(crate) role: TokenRole,
    pub(crate) created_at: i64,
    pub(crate) used_at: i64,
    pub(crate) expires_at: i64,
    pub(crate) user_agent: String,
    /// It is the caller's own.
    pub(crate) current: bool,
}

/// Sessions that have not ended, the newest first. May wait for the store.
pub(crate) fn open_sessions(app: &App, caller: &Caller) -> Result<Vec<OpenSession>, Problem> {
    let (own, now) = (caller.session.as_ref().map(|session| session.sha256), app.now());
    let open = |session: Session| {
        let token = app.tokens.by_id(&session.token, now)?;
        // Memory knows better; the store is told once a minute.
        let used_at = session.used_at.max(app.sessions.used_at(&session.sha256).unwrap_or(0));
        (!is_idle(used_at, now)).then(|| OpenSession {
            id: shown_id(&session.sha256),
            name: token.name,
            role: token.role,
            created_at: session.created_at,
            used_at,
            expires_at: session.expires_at,
            user_agent: session.user_agent,
            current: own == Some(session.sha256),
        })
    };
    Ok(app.store_here().sessions(now)?.into_iter().filter_map(open).collect())
}

/// Sessions of the dashboard that have not ended, the newest first.
#[derive(Serialize, ToSchema)]
struct SessionsOut {
    sessions: Vec<OpenSessionOut>,
}

/// A session of the dashboard.
#[derive(Serialize, ToSchema)]
#[schema(as = OpenSession)]
struct OpenSessionOut {
    /// What to call it by. It opens nothing.
    id: String,
    /// The name of its token.
    name: String,
    role: &'static str,
    created_at: String,
    last_used_at: String,
    expires_at: String,
    /// The browser it was begun in, as it calls itself.
    user_agent: String,
    /// It is the one that asks.
    current: bool,
}

impl From<OpenSession> for OpenSessionOut {
    fn from(session: OpenSession) -> OpenSessionOut {
        OpenSessionOut {
            id: session.id,
            name: session.name.into(),
            role: role_name(session.role),
            created_at: moment(session.created_at),
            last_used_at: moment(session.used_at),
            expires_at: moment(session.expires_at),
            user_agent: session.user_agent,
            current: session.current,
        }
    }
}

/// Lists the sessions of the dashboard.
#[utoipa::path(get, path = "/api/sessions", tag = "access", responses((status = 200, body = SessionsOut)))]
async fn list_sessions(State(app): State<App>, Extension(caller): Extension<Caller>) -> Answer<SessionsOut> {
    let asked = Arc::clone(&app);
    let sessions = app.work(move || open_sessions(&asked, &caller)).await?;
    Ok(Json(SessionsOut { sessions: sessions.into_iter().map(Into::into).collect() }))
}

/// Which session.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
struct SessionPath {
    /// The session's id, as the list shows it.
    #[param(value_type = String)]
    id: Name,
}

impl InPath for SessionPath {}

/// Ends a session of the dashboard.
#[utoipa::path(delete, path = "/api/sessions/{id}", tag = "access", params(SessionPath), responses((status = 204)))]
async fn revoke_session(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    PathIn(path): PathIn<SessionPath>,
) -> Result<StatusCode, Problem> {
    let asked = Arc::clone(&app);
    app.work(move || {
        let sessions = asked.store_here().sessions(asked.now())?;
        let Some(session) = sessions.into_iter().find(|session| shown_id(&session.sha256) == *path.id) else {
            return Err(Problem::not_found("session", &path.id));
        };
        asked.store_here().delete_session(&session.sha256)?;
        asked.sessions.forget(&session.sha256);
        let what = format!("session {} of token {} ended", path.id, session.token);
        asked.operator.access_changed(&what, &caller.by);
        Ok(StatusCode::NO_CONTENT)
    })
    .await
}

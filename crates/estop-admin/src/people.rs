//! Tokens of people, and sessions of the dashboard.

use std::sync::Arc;

use axum::extract::State;
use axum::{Extension, Json};
use estop_core::ids::Name;
use estop_store::{Token, TokenRole};
use http::header::SET_COOKIE;
use http::{HeaderMap, HeaderValue, StatusCode};
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::access::{Caller, ENV_NAME, Peer, SESSION_MS, Sessions, TOKENS_MAX, made_token, role_name};
use crate::input::{Checks, JsonIn, PathIn, Whole};
use crate::output::{Answer, moment};
use crate::problem::{Kind, Problem};
use crate::state::App;

pub(crate) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::default()
        .routes(routes!(list, add))
        .routes(routes!(revoke))
        .routes(routes!(log_in, session, log_out))
}

/// What a token allows.
#[derive(Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = Role)]
enum RoleIn {
    /// Everything.
    Admin,
    /// Look, and stop things.
    Operator,
    /// Look.
    Viewer,
}

impl From<RoleIn> for TokenRole {
    fn from(role: RoleIn) -> TokenRole {
        match role {
            RoleIn::Admin => TokenRole::Admin,
            RoleIn::Operator => TokenRole::Operator,
            RoleIn::Viewer => TokenRole::Viewer,
        }
    }
}

/// Tokens, the oldest first; those taken back are left out.
#[derive(Serialize, ToSchema)]
struct TokensOut {
    tokens: Vec<TokenOut>,
}

/// A token. The token itself is not kept.
#[derive(Serialize, ToSchema)]
#[schema(as = Token)]
struct TokenOut {
    id: String,
    name: String,
    role: &'static str,
    created_at: String,
    expires_at: Option<String>,
    last_used_at: Option<String>,
}

impl From<Token> for TokenOut {
    fn from(token: Token) -> TokenOut {
        TokenOut {
            id: token.id.into(),
            name: token.name.into(),
            role: role_name(token.role),
            created_at: moment(token.created_at),
            expires_at: token.expires_at.map(moment),
            last_used_at: token.last_used_at.map(moment),
        }
    }
}

pub(crate) fn good_tokens(app: &App) -> Result<Vec<Token>, Problem> {
    let now = app.now();
    let is_good = |token: &Token| token.revoked_at.is_none() && token.expires_at.is_none_or(|end| end > now);
    Ok(app.store_here().tokens()?.into_iter().filter(is_good).collect())
}

/// Lists tokens.
#[utoipa::path(get, path = "/api/tokens", tag = "access", responses((status = 200, body = TokensOut)))]
async fn list(State(app): State<App>) -> Answer<TokensOut> {
    let asked = Arc::clone(&app);
    let tokens = app.work(move || good_tokens(&asked)).await?;
    Ok(Json(TokensOut { tokens: tokens.into_iter().map(Into::into).collect() }))
}

/// A new token.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct TokenIn {
    /// What people call it; the journal names it as who did something.
    #[schema(pattern = "^[A-Za-z0-9_][A-Za-z0-9._-]{0,63}$")]
    name: String,
    role: RoleIn,
    /// It ends after so many days, up to ten years; never if left out.
    #[schema(value_type = Option<u16>, minimum = 1, maximum = 3650)]
    expires_in_days: Option<Whole>,
}

/// A token that was made.
#[derive(Serialize, ToSchema)]
struct NewTokenOut {
    /// The token. It is shown this once.
    token: String,
    #[serde(flatten)]
    shown: TokenOut,
}

/// Makes a token. It is shown once; afterwards only its hash is left.
#[utoipa::path(post, path = "/api/tokens", tag = "access", request_body = TokenIn,
    responses((status = 201, body = NewTokenOut)))]
async fn add(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    JsonIn(new): JsonIn<TokenIn>,
) -> Result<(StatusCode, Json<NewTokenOut>), Problem> {
    let mut checks = Checks::default();
    checks.name("name", &new.name);
    checks.expect(![ENV_NAME, "owner", "estop"].contains(&&*new.name), "name", "is reserved: choose another");
    let days = new.expires_in_days.map(|Whole(days)| days);
    checks.expect(
        days.is_none_or(|days| (1..=3650).contains(&days)),
        "expires_in_days",
        "must be from 1 to 3650",
    );
    checks.done()?;
    let asked = Arc::clone(&app);
    let work = move || {
        let _edit = asked.edit();
        if good_tokens(&asked)?.len() >= TOKENS_MAX {
            let detail = format!("There may be {TOKENS_MAX} tokens: take some back first.");
            return Err(Problem::new(Kind::Conflict, detail));
        }
        let now = asked.now();
        let (mut token, plain) = made_token(&new.name, new.role.into(), now)?;
        token.expires_at = days.map(|days| now.saturating_add(days * 86_400_000));
        asked.store_here().insert_token(&token)?;
        asked.tokens.reload(asked.store_here())?;
        asked.operator.access_changed(&format!("token {} ({}) made", token.id, token.name), &caller.by);
        Ok(NewTokenOut { token: plain.expose_secret().to_owned(), shown: token.into() })
    };
    Ok((StatusCode::CREATED, Json(app.work(work).await?)))
}

/// Which token.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
struct TokenPath {
    /// The token's id.
    #[param(value_type = String)]
    id: Name,
}

/// Takes a token back and ends its sessions. The last admin token stays.
#[utoipa::path(delete, path = "/api/tokens/{id}", tag = "access", params(TokenPath), responses((status = 204)))]
async fn revoke(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    PathIn(path): PathIn<TokenPath>,
) -> Result<StatusCode, Problem> {
    let asked = Arc::clone(&app);
    app.work(move || {
        let _edit = asked.edit();
        let good = good_tokens(&asked)?;
        let Some(token) = good.iter().find(|token| token.id == path.id) else {
            return Err(Problem::not_found("token", &path.id));
        };
        // One that ends some day does not count: nobody could get in afterwards.
        let stays = |token: &&Token| token.role == TokenRole::Admin && token.expires_at.is_none();
        let others = good.iter().filter(stays).filter(|other| other.id != path.id).count();
        if token.role == TokenRole::Admin && others == 0 {
            let detail = "This is the last admin token that does not end: make another one first.";
            return Err(Problem::new(Kind::Conflict, detail));
        }
        asked.store_here().revoke_token(&path.id, asked.now())?;
        asked.tokens.reload(asked.store_here())?;
        let what = format!("token {} ({}) taken back", token.id, token.name);
        asked.operator.access_changed(&what, &caller.by);
        Ok(StatusCode::NO_CONTENT)
    })
    .await
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
    /// Unsafe requests of this session carry it in the header `x-estop-csrf`.
    csrf: Option<String>,
    /// It ends then at the latest, and after half an hour without use.
    expires_at: Option<String>,
}

/// Logs in: trades a token for a session cookie.
#[utoipa::path(post, path = "/api/session", tag = "access", request_body = LoginIn,
    responses((status = 201, body = SessionOut, headers(("set-cookie" = String)))))]
async fn log_in(
    State(app): State<App>,
    Extension(peer): Extension<Peer>,
    JsonIn(login): JsonIn<LoginIn>,
) -> Result<(StatusCode, HeaderMap, Json<SessionOut>), Problem> {
    let now = app.now();
    let known = app.tokens.find(&login.token, peer, now).await?;
    let begun = Sessions::begin(known.id.clone(), now)?;
    let kept = begun.kept.clone();
    app.store(move |store| {
        store.sweep_sessions(now)?;
        store.insert_session(&kept)
    })
    .await?;
    app.sessions.remember(begun.kept, now);
    let cookie = cookie(&app, begun.id.expose_secret(), SESSION_MS / 1000)?;
    let out = SessionOut {
        name: known.name.into(),
        role: role_name(known.role),
        csrf: Some(begun.csrf.expose_secret().to_owned()),
        expires_at: Some(moment(now.saturating_add(SESSION_MS))),
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
    let csrf = caller.session.as_ref().map(|session| session.csrf.expose_secret().to_owned());
    let expires_at = caller.session.as_ref().map(|session| moment(session.expires_at));
    Ok(Json(SessionOut { name: caller.by.into(), role: role_name(caller.role), csrf, expires_at }))
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
    Ok((StatusCode::NO_CONTENT, cookie(&app, "", 0)?))
}

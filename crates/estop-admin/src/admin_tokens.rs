//! Tokens of people.

use std::sync::Arc;

use axum::extract::State;
use axum::{Extension, Json};
use estop_core::ids::Name;
use estop_core::operator::ADMIN_TOKEN_BY_OWNER;
use estop_store::{Token, TokenRole};
use http::StatusCode;
use secrecy::ExposeSecret;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::access::{Caller, ENV_NAME, TOKENS_MAX, made_token, role_name};
use crate::input::{Checks, InPath, JsonIn, PathIn, Whole};
use crate::output::{Answer, moment};
use crate::problem::{Kind, Problem};
use crate::state::App;

pub(crate) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::default().routes(routes!(list, add)).routes(routes!(revoke))
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
        let what = if caller.is_owner && token.role == TokenRole::Admin {
            format!("{ADMIN_TOKEN_BY_OWNER}: token {} ({}) made", token.id, token.name)
        } else {
            format!("token {} ({}) made", token.id, token.name)
        };
        asked.operator.access_changed(&what, &caller.by);
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

impl InPath for TokenPath {}

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

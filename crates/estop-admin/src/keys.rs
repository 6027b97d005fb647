//! Keys of agents (ID-2): made here, shown once, kept as hashes.

use std::sync::Arc;

use axum::extract::State;
use axum::{Extension, Json};
use estop_core::ids::Name;
use estop_core::operator::Operator;
use estop_store::AgentKey;
use http::StatusCode;
use secrecy::ExposeSecret;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::access::{AGENT_KEY_PREFIX, Caller, make, random_id};
use crate::agents::{AgentPath, row};
use crate::input::{InPath, PathIn};
use crate::output::{Answer, moment};
use crate::problem::{Kind, Problem};
use crate::state::App;

/// Good keys of one agent: two are enough to change one for another.
const KEYS_MAX: usize = 100;

pub(crate) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::default().routes(routes!(list, add)).routes(routes!(revoke))
}

/// An agent's keys, the oldest first; those taken back are left out.
#[derive(Serialize, ToSchema)]
struct KeysOut {
    keys: Vec<KeyOut>,
}

/// A key. The key itself is not kept.
#[derive(Serialize, ToSchema)]
#[schema(as = AgentKey)]
struct KeyOut {
    id: String,
    /// How it begins.
    prefix: String,
    created_at: String,
    last_used_at: Option<String>,
}

impl From<AgentKey> for KeyOut {
    fn from(key: AgentKey) -> KeyOut {
        KeyOut {
            id: key.id.into(),
            prefix: key.prefix.into(),
            created_at: moment(key.created_at),
            last_used_at: key.last_used_at.map(moment),
        }
    }
}

/// An agent's keys that open something.
pub(crate) fn good_keys(app: &App, agent: &str) -> Result<Vec<AgentKey>, Problem> {
    let keys = app.store_here().keys()?.into_iter();
    Ok(keys.filter(|key| *key.agent == *agent && key.revoked_at.is_none()).collect())
}

/// Lists an agent's keys.
#[utoipa::path(get, path = "/api/agents/{id}/keys", tag = "keys", params(AgentPath),
    responses((status = 200, body = KeysOut)))]
async fn list(State(app): State<App>, PathIn(path): PathIn<AgentPath>) -> Answer<KeysOut> {
    let asked = Arc::clone(&app);
    app.work(move || {
        row::find(&asked, &path.id)?;
        let keys = good_keys(&asked, &path.id)?;
        Ok(Json(KeysOut { keys: keys.into_iter().map(Into::into).collect() }))
    })
    .await
}

/// A new key.
#[derive(Serialize, ToSchema)]
struct NewKeyOut {
    /// The key. It is shown this once.
    key: String,
    #[serde(flatten)]
    shown: KeyOut,
}

/// Makes a key. It is shown once; afterwards only its hash is left.
#[utoipa::path(post, path = "/api/agents/{id}/keys", tag = "keys", params(AgentPath),
    responses((status = 201, body = NewKeyOut)))]
async fn add(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    PathIn(path): PathIn<AgentPath>,
) -> Result<(StatusCode, Json<NewKeyOut>), Problem> {
    let asked = Arc::clone(&app);
    let work = move || {
        let _edit = asked.edit();
        row::find(&asked, &path.id)?;
        if good_keys(&asked, &path.id)?.len() >= KEYS_MAX {
            let detail = format!("An agent may have {KEYS_MAX} keys: take some back first.");
            return Err(Problem::new(Kind::Conflict, detail));
        }
        let made = make(AGENT_KEY_PREFIX)?;
        let key = AgentKey {
            id: format!("k-{}", random_id()?).into(),
            agent: path.id,
            sha256: made.sha256,
            prefix: made.prefix.into(),
            created_at: asked.now(),
            revoked_at: None,
            last_used_at: None,
        };
        asked.store_here().insert_key(&key)?;
        asked.tell_keys(asked.store_here())?;
        asked.operator.access_changed(&format!("key {} of {} made", key.id, key.agent), &caller.by);
        Ok(NewKeyOut { key: made.plain.expose_secret().to_owned(), shown: key.into() })
    };
    Ok((StatusCode::CREATED, Json(app.work(work).await?)))
}

/// Which key of which agent.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub(crate) struct KeyPath {
    /// The agent's name.
    #[param(value_type = String)]
    pub(crate) id: Name,
    /// The key's id.
    #[param(value_type = String)]
    key_id: Name,
}

impl InPath for KeyPath {
    fn make_canonical(&mut self, operator: &dyn Operator) {
        self.id = operator.canonical(&self.id);
    }
}

/// Takes a key back; it opens nothing from here on.
#[utoipa::path(delete, path = "/api/agents/{id}/keys/{key_id}", tag = "keys", params(KeyPath), responses((status = 204)))]
async fn revoke(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    PathIn(path): PathIn<KeyPath>,
) -> Result<StatusCode, Problem> {
    let asked = Arc::clone(&app);
    app.work(move || {
        let _edit = asked.edit();
        let known = good_keys(&asked, &path.id)?.into_iter().any(|key| key.id == path.key_id);
        if !known {
            return Err(Problem::not_found("key", &path.key_id));
        }
        asked.store_here().revoke_key(&path.key_id, asked.now())?;
        asked.tell_keys(asked.store_here())?;
        let what = format!("key {} of {} taken back", path.key_id, path.id);
        asked.operator.access_changed(&what, &caller.by);
        Ok(StatusCode::NO_CONTENT)
    })
    .await
}

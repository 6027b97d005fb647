//! Everybody's preset, tokens, triggers of the button, the proof test.

use askama::Template;
use axum::Extension;
use axum::extract::State;
use estop_core::operator::AgentView;
use estop_core::policy::Preset;
use estop_core::system::proof_test::CANARY;
use estop_store::TokenRole;

use super::frame::Frame;
use super::preset;
use super::shown::{Badge, when};
use super::{Page, made};
use crate::access::{Caller, rank, role_name};
use crate::admin_tokens::good_tokens;
use crate::agents::shown::preset_name;
use crate::presets;
use crate::sessions::{OpenSession, open_sessions};
use crate::state::App;

#[derive(Template)]
#[template(path = "settings.html")]
struct Settings {
    frame: Frame,
    preset: preset::Shown,
    /// How it is switched, taken back, and the bodies.
    preset_calls: (&'static str, &'static str, (String, &'static str)),
    /// Agents with a preset of their own.
    others: Vec<Own>,
    proof: String,
    triggers: Vec<Trigger>,
    tokens: Vec<TokenRow>,
    sessions: Vec<SessionRow>,
    version: &'static str,
}

struct Own {
    agent: String,
    preset: &'static str,
}

struct Trigger {
    name: String,
    badge: Badge,
    what: String,
}

struct TokenRow {
    id: String,
    name: String,
    role: &'static str,
    used: String,
}

struct SessionRow {
    id: String,
    name: String,
    role: &'static str,
    since: String,
    used: String,
    browser: String,
    current: bool,
}

impl SessionRow {
    fn of(session: OpenSession, now: i64) -> SessionRow {
        SessionRow {
            id: session.id,
            name: session.name.into(),
            role: role_name(session.role),
            since: when(session.created_at, now),
            used: when(session.used_at, now),
            browser: session.user_agent,
            current: session.current,
        }
    }
}

pub(super) async fn page(State(app): State<App>, Extension(caller): Extension<Caller>) -> Page {
    made(app, move |app| {
        let now = app.now();
        let is_admin = rank(caller.role) >= rank(TokenRole::Admin);
        let tokens = if is_admin { good_tokens(app)? } else { Vec::new() };
        let sessions = if is_admin { open_sessions(app, &caller)? } else { Vec::new() };
        let badge = |working| {
            if working { Badge::new("ok", "yes") } else { Badge::new("stop", "no") }
        };
        let triggers = app.operator.triggers().into_iter().map(|trigger| Trigger {
            name: trigger.name.into(),
            badge: badge(trigger.working),
            what: trigger.what.into(),
        });
        let (preset, origin) = presets::now(app);
        let shown = preset::Shown::of(app, None, preset, origin)?;
        Ok(Settings {
            others: others(app, preset),
            preset_calls: calls(&shown),
            preset: shown,
            frame: Frame::of(app, &caller, "/settings", "Settings")?,
            proof: crate::prooftest::sentence(&app.operator.proof_tests(), |at| when(at, now)),
            triggers: triggers.collect(),
            tokens: tokens
                .into_iter()
                .map(|token| TokenRow {
                    id: token.id.into(),
                    name: token.name.into(),
                    role: role_name(token.role),
                    used: token.last_used_at.map_or_else(|| "never".to_owned(), |at| when(at, now)),
                })
                .collect(),
            sessions: sessions.into_iter().map(|session| SessionRow::of(session, now)).collect(),
            version: env!("CARGO_PKG_VERSION"),
        })
    })
    .await
}

/// Names on the page.
const OTHERS_MAX: usize = 50;

fn others(app: &App, everybodys: Preset) -> Vec<Own> {
    let differ = app
        .operator
        .agents()
        .into_iter()
        .filter(|view| view.policy.preset != everybodys && &*view.name != CANARY);
    let own = |view: AgentView| Own { agent: view.name.to_string(), preset: preset_name(view.policy.preset) };
    differ.take(OTHERS_MAX).map(own).collect()
}

fn calls(shown: &preset::Shown) -> (&'static str, &'static str, (String, &'static str)) {
    let body = serde_json::json!({"preset": shown.other}).to_string();
    ("PUT /api/preset", "DELETE /api/preset", (body, ""))
}

//! Tokens, triggers of the button, the proof test.

use askama::Template;
use axum::Extension;
use axum::extract::State;
use estop_store::TokenRole;

use super::frame::Frame;
use super::shown::{Badge, when};
use super::{Page, made};
use crate::access::{Caller, rank, role_name};
use crate::people::good_tokens;
use crate::state::App;

#[derive(Template)]
#[template(path = "settings.html")]
struct Settings {
    frame: Frame,
    proof: String,
    triggers: Vec<Trigger>,
    tokens: Vec<TokenRow>,
    version: &'static str,
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

pub(super) async fn page(State(app): State<App>, Extension(caller): Extension<Caller>) -> Page {
    made(app, move |app| {
        let now = app.now();
        let is_admin = rank(caller.role) >= rank(TokenRole::Admin);
        let tokens = if is_admin { good_tokens(app)? } else { Vec::new() };
        let badge = |working| {
            if working { Badge { class: "ok", text: "yes" } } else { Badge { class: "stop", text: "no" } }
        };
        let triggers = app.operator.triggers().into_iter().map(|trigger| Trigger {
            name: trigger.name.into(),
            badge: badge(trigger.working),
            what: trigger.what.into(),
        });
        Ok(Settings {
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
            version: env!("CARGO_PKG_VERSION"),
        })
    })
    .await
}

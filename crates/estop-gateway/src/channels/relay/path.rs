//! A path of the relay, taken apart: which relay, which way, and what is the target's.

use std::collections::BTreeMap;

use super::Way;
use crate::auth::identity;
use crate::exchange::rejection::Rejection;
use crate::upstream::relays::{Relay, Side};

/// Where a message goes.
#[derive(Clone, Copy)]
pub(super) struct RelayPath<'a> {
    /// The relay's name.
    pub(super) name: &'a str,
    pub(super) relay: &'a Relay,
    pub(super) way: Way,
    /// The target.
    pub(super) side: &'a Side,
    /// What is appended to the target's path: empty, or with a slash first.
    pub(super) path: &'a str,
}

/// The way a path seems to name, before anything is known of its relay: decides what a refusal looks like. What names
/// neither is the concern of whoever calls from outside.
pub(super) fn way(path: &str) -> Way {
    match path.split('/').nth(3) {
        Some("out") => Way::Out,
        Some(_) | None => Way::In,
    }
}

/// Whether a path plainly leads in.
pub(super) fn leads_in(path: &str) -> bool {
    path.split('/').nth(3) == Some("in")
}

/// Takes a path apart: `/relay/{name}/out/…`, `/relay/{name}/in/…`, or `/relay/{name}/in/{secret}/…`.
pub(super) fn read<'a>(
    path: &'a str,
    relays: &'a BTreeMap<Box<str>, Relay>,
) -> Result<RelayPath<'a>, Rejection> {
    let way = way(path);
    let route = identity::route(path).map_err(|_| {
        Rejection::bad(400, "bad_path", "The path must not have `.` or `..` in it.").closing()
    })?;
    let rest = route.path.strip_prefix('/').unwrap_or_default();
    let (name, rest) = first_segment(rest);
    let (name, relay) = relays.get_key_value(name).ok_or_else(|| unknown_relay(relays))?;
    let (segment, rest) = first_segment(rest.strip_prefix('/').unwrap_or_default());
    let side = match segment {
        "in" => relay.into.as_ref(),
        "out" => relay.out.as_ref(),
        _ => return Err(no_way(name, relay)),
    };
    let side = side.ok_or_else(|| no_way(name, relay))?;
    let path = match (way, &relay.secret) {
        (Way::In, Some(secret)) => {
            let (said, rest) = first_segment(rest.strip_prefix('/').unwrap_or_default());
            if !secret.is(said) {
                return Err(wrong_secret(name));
            }
            rest
        }
        (Way::In, None) | (Way::Out, _) => rest,
    };
    Ok(RelayPath { name, relay, way, side, path })
}

fn unknown_relay(relays: &BTreeMap<Box<str>, Relay>) -> Rejection {
    let known: Vec<&str> = relays.keys().map(AsRef::as_ref).collect();
    let message = match known.as_slice() {
        [] => "There is no relay: name one in the configuration, under `relays`.".to_owned(),
        known => format!(
            "There is no such relay. Known: {}. Use /relay/{{name}}/in/… or /relay/{{name}}/out/….",
            known.join(", ")
        ),
    };
    Rejection::bad(404, "unknown_relay", message).closing()
}

fn no_way(name: &str, relay: &Relay) -> Rejection {
    let ways = match (&relay.into, &relay.out) {
        (Some(_), Some(_)) => format!("/relay/{name}/in/… and /relay/{name}/out/…"),
        (Some(_), None) => format!("/relay/{name}/in/… alone: it has no `out`"),
        (None, Some(_)) => format!("/relay/{name}/out/… alone: it has no `in`"),
        (None, None) => "nothing".to_owned(),
    };
    Rejection::bad(404, "unknown_path", format!("The relay `{name}` takes {ways}.")).closing()
}

fn wrong_secret(name: &str) -> Rejection {
    let message = format!("The relay `{name}` takes what comes in at /relay/{name}/in/SECRET/… alone.");
    Rejection::bad(404, "unknown_path", message).closing()
}

/// The first segment, and what follows: empty, or with a slash first.
fn first_segment(path: &str) -> (&str, &str) {
    path.split_at(path.find('/').unwrap_or(path.len()))
}

//! A message that does not pass: why, and the answer in its place (KS-10).
//!
//! What comes in is answered 503, because platforms try that again later; what goes out 403, because apps do not.

use std::collections::BTreeMap;

use bytes::Bytes;
use estop_wire::refusal::Kind;
use http::header::{CACHE_CONTROL, CONNECTION, CONTENT_TYPE, HeaderName, RETRY_AFTER};
use http::{HeaderMap, HeaderValue, Response, StatusCode};

use super::Way;
use crate::auth::http_checks::Screened;
use crate::auth::identity::{IdentityError, KEY_HEADER, TOO_MANY_GUESSES, agent_unknown, key_needed};
use crate::body::response_body::{self, ResponseBody};
use crate::body::upload;
use crate::killswitch::in_flight::Cut;
use crate::upstream::UpstreamError;
use crate::upstream::relays::Relay;

/// The word for a pressed button on this channel.
const SHUTDOWN: &str = "system_shutdown";
pub(super) const TOO_MANY: &str =
    "This relay has too many messages under way: try again, or raise relays.NAME.concurrency.";

/// A message that does not pass, and why.
pub(super) struct No {
    way: Way,
    kind: Kind,
    reason: &'static str,
    message: String,
    close: bool,
}

impl No {
    pub(super) fn new(way: Way, kind: Kind, code: &'static str, message: impl Into<String>) -> No {
        let reason = if code == "system" { SHUTDOWN } else { code };
        No { way, kind, reason, message: message.into(), close: false }
    }

    pub(super) fn bad(way: Way, status: u16, code: &'static str, message: impl Into<String>) -> No {
        No::new(way, Kind::BadRequest { status }, code, message)
    }

    pub(super) fn overload(way: Way, message: &str) -> No {
        No::new(way, Kind::Overload, "overload", message)
    }

    /// What cannot be written down is not let through.
    pub(super) fn no_journal(way: Way, failed: bool) -> No {
        No::overload(
            way,
            if failed {
                "estop cannot write its journal, so nothing is let through: mend its data directory and restart it."
            } else {
                "estop cannot write its journal fast enough: try again."
            },
        )
    }

    pub(super) fn screened(way: Way, screened: &Screened) -> No {
        let message = match screened.code {
            "websocket_not_supported" => {
                "estop does not relay WebSockets: receive messages by webhook (Slack: turn Socket Mode off; \
                 Discord: set an interactions endpoint) or by long polling (Telegram)."
            }
            _ => screened.message,
        };
        No::bad(way, screened.status, screened.code, message).closing()
    }

    pub(super) fn too_large(way: Way) -> No {
        let message = match way {
            Way::In => "The message is too large. Send less, or raise limits.body_bytes.",
            Way::Out => upload::TOO_LARGE,
        };
        No::bad(way, 413, "body_too_large", message)
    }

    pub(super) fn unknown_relay(way: Way, relays: &BTreeMap<Box<str>, Relay>) -> No {
        let known: Vec<&str> = relays.keys().map(AsRef::as_ref).collect();
        let message = match known.as_slice() {
            [] => "There is no relay: name one in the configuration, under `relays`.".to_owned(),
            known => format!(
                "There is no such relay. Known: {}. Use /relay/{{name}}/in/… or /relay/{{name}}/out/….",
                known.join(", ")
            ),
        };
        No::bad(way, 404, "unknown_relay", message).closing()
    }

    pub(super) fn no_way(way: Way, name: &str, relay: &Relay) -> No {
        let ways = match (&relay.into, &relay.out) {
            (Some(_), Some(_)) => format!("/relay/{name}/in/… and /relay/{name}/out/…"),
            (Some(_), None) => format!("/relay/{name}/in/… alone: it has no `out`"),
            (None, Some(_)) => format!("/relay/{name}/out/… alone: it has no `in`"),
            (None, None) => "nothing".to_owned(),
        };
        No::bad(way, 404, "unknown_path", format!("The relay `{name}` takes {ways}.")).closing()
    }

    pub(super) fn wrong_secret(name: &str) -> No {
        let message = format!("The relay `{name}` takes what comes in at /relay/{name}/in/SECRET/… alone.");
        No::bad(Way::In, 404, "unknown_path", message).closing()
    }

    pub(super) fn identity(error: &IdentityError, headers: &HeaderMap) -> No {
        let no = |status, code, message: String| No::bad(Way::Out, status, code, message).closing();
        match error {
            IdentityError::KeyMissing => no(401, "key_missing", KEY_MISSING.to_owned()),
            // The other credentials are the platform's, whose key is none of ours.
            IdentityError::KeyUnknown if !headers.contains_key(KEY_HEADER) => {
                no(401, "key_missing", KEY_MISSING.to_owned())
            }
            IdentityError::KeyUnknown => {
                no(401, "key_unknown", "x-estop-key is no agent's key: check agents.NAME.key_env.".to_owned())
            }
            IdentityError::KeyNeeded { agent, .. } => no(401, "key_missing", key_needed(agent)),
            IdentityError::TooManyGuesses => no(429, "too_many_attempts", TOO_MANY_GUESSES.to_owned()),
            IdentityError::AgentUnknown { agent } => no(403, "agent_unknown", agent_unknown(agent)),
            IdentityError::KeyOfAnother { agent } => no(
                403,
                "key_of_another",
                format!("This key belongs to the agent `{agent}`, and the relay to another."),
            ),
            IdentityError::BadName(what) => no(400, "bad_name", format!("The {what}'s name cannot be one.")),
            IdentityError::BadTags(bad) => {
                no(400, "bad_header", format!("The header {} must {}.", bad.header, bad.must))
            }
            IdentityError::NoProvider
            | IdentityError::DotSegments
            | IdentityError::TicketUnknown
            | IdentityError::TicketOfAnother(_) => no(400, "bad_path", "The path leads nowhere.".to_owned()),
        }
    }

    /// It was under way and was ended.
    pub(super) fn cut(way: Way, cut: &Cut) -> No {
        let other = other_side(way);
        let message = match cut.code {
            "upstream_timeout" => format!("{other} did not answer in time (not estop's refusal)."),
            "body_too_large" => return No::too_large(way),
            _ => cut.message.clone(),
        };
        No::new(way, cut.kind, cut.code, message)
    }

    pub(super) fn stopped(way: Way) -> No {
        No::new(way, Kind::Stop, "stopped", "Stopped by estop.")
    }

    pub(super) fn unreachable(way: Way, error: &UpstreamError) -> No {
        let other = other_side(way);
        let message = match error {
            UpstreamError::Crowded => {
                return No::new(way, Kind::Overload, "overload", format!("estop: {error}."));
            }
            UpstreamError::Unreachable(why) => {
                format!("{other} cannot be reached (not estop's refusal): {why}.")
            }
            UpstreamError::Broken(why) => format!("{other} gave no answer (not estop's refusal): {why}."),
        };
        No::new(way, Kind::Upstream { status: 502 }, "upstream_unreachable", message)
    }

    pub(super) fn switched(way: Way) -> No {
        let message = format!("{} switched protocols, which nobody asked for.", other_side(way));
        No::new(way, Kind::Upstream { status: 502 }, "upstream_error", message)
    }

    /// The connection is closed after the answer: what is left of the request was not read.
    pub(super) fn closing(mut self) -> No {
        self.close = true;
        self
    }

    pub(super) fn answer(self) -> Response<ResponseBody> {
        let mut response = Response::new(response_body::full(Bytes::from(self.body())));
        *response.status_mut() =
            StatusCode::from_u16(self.status()).unwrap_or(StatusCode::SERVICE_UNAVAILABLE);
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        headers.insert(REASON, HeaderValue::from_static(self.reason));
        if let Some(seconds) = self.retry_after() {
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        if self.close {
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }

    fn status(&self) -> u16 {
        match (self.kind, self.way) {
            (Kind::Stop | Kind::Wait { .. }, Way::In) => 503,
            (Kind::Stop, Way::Out) => 403,
            (Kind::Wait { .. }, Way::Out) => 429,
            (Kind::BadRequest { status } | Kind::Upstream { status }, _) => status,
            (Kind::Overload, _) => 503,
        }
    }

    fn retry_after(&self) -> Option<u64> {
        match self.kind {
            Kind::Wait { after_ms } => Some(after_ms.div_ceil(1000).max(1)),
            Kind::Overload => Some(1),
            Kind::Stop | Kind::BadRequest { .. } | Kind::Upstream { .. } => None,
        }
    }

    /// A pressed button is answered in exactly the words people's checks wait for; everything else says more.
    fn body(&self) -> String {
        let status = match (self.kind, self.way) {
            (Kind::Upstream { .. }, _) => "failed",
            (_, Way::In) => "rejected",
            (_, Way::Out) => "blocked",
        };
        let reason = self.reason;
        if reason == SHUTDOWN {
            return format!(r#"{{"status":"{status}","reason":"{reason}"}}"#);
        }
        format!(r#"{{"status":"{status}","reason":"{reason}","message":"{}"}}"#, escaped(&self.message))
    }
}

const REASON: HeaderName = HeaderName::from_static("x-estop-reason");
const KEY_MISSING: &str =
    "estop wants the key of this relay's agent in the header x-estop-key; the others are the platform's.";

fn other_side(way: Way) -> &'static str {
    match way {
        Way::In => "The app",
        Way::Out => "The platform",
    }
}

/// A text as it stands in a JSON string.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => out.extend(format!("\\u{:04x}", u32::from(c)).chars()),
            c => out.push(c),
        }
    }
    out
}

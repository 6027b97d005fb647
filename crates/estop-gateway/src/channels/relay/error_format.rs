//! A rejected message, as platforms and apps read it (KS-10).
//!
//! What comes in is answered 503, because platforms try that again later; what goes out 403, because apps do not.

use estop_wire::refusal::Kind;
use http::Response;

use super::Way;
use crate::body::response_body::ResponseBody;
use crate::exchange::rejection::Rejection;

/// The word for a pressed button on this channel.
const SHUTDOWN: &str = "system_shutdown";

/// Writes a rejection.
pub(super) fn render(way: Way, rejection: &Rejection) -> Response<ResponseBody> {
    let Rejection { kind, code, ref message, close, stops, ref incident } = *rejection;
    let message = match code {
        "websocket_not_supported" => {
            "estop does not relay WebSockets: receive messages by webhook (Slack: turn Socket Mode off; \
             Discord: set an interactions endpoint) or by long polling (Telegram)."
        }
        _ => message,
    };
    let code = if code == "system" { SHUTDOWN } else { code };
    let rejection =
        Rejection { kind, code, message: message.to_owned(), close, stops, incident: incident.clone() };
    rejection.response(status(way, kind), body(way, &rejection))
}

fn status(way: Way, kind: Kind) -> u16 {
    match (kind, way) {
        (Kind::Stop | Kind::Wait { .. }, Way::In) => 503,
        (Kind::Stop, Way::Out) => 403,
        (Kind::Wait { .. }, Way::Out) => 429,
        (Kind::BadRequest { status } | Kind::Upstream { status }, _) => status,
        (Kind::Overload, _) => 503,
    }
}

/// A pressed button is answered in exactly the words people's checks wait for; everything else says more.
fn body(way: Way, rejection: &Rejection) -> String {
    let status = match (rejection.kind, way) {
        (Kind::Upstream { .. }, _) => "failed",
        (_, Way::In) => "rejected",
        (_, Way::Out) => "blocked",
    };
    let reason = rejection.code;
    if reason == SHUTDOWN {
        return format!(r#"{{"status":"{status}","reason":"{reason}"}}"#);
    }
    format!(r#"{{"status":"{status}","reason":"{reason}","message":"{}"}}"#, escaped(&rejection.message))
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

//! Paths that are about the fake model itself: `/_seen`, `/_script`, `/_reset`, `/_wait`. They are not counted.

use std::io;
use std::time::{Duration, Instant};

use http::Response;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use serde_json::{Value, json};

use crate::body::Outgoing;
use crate::connection::{Connection, Shared};
use crate::script::{Rule, Script};
use crate::seen::{Outcome, Seen};

/// Answers a request about the model itself.
pub(crate) async fn handle(
    parts: &http::request::Parts,
    body: Incoming,
    connection: &Connection,
) -> io::Result<Response<Outgoing>> {
    let shared = connection.shared();
    let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
    let query = parts.uri.query().unwrap_or_default();
    let (status, answer) = match (parts.method.as_str(), parts.uri.path()) {
        ("GET", "/_seen") => (200, seen(shared)),
        ("GET", "/_wait") => wait(shared, query).await,
        ("POST", "/_reset") => {
            shared.log.reset();
            shared.script(|script| *script = Script::default());
            (200, json!({"ok": true}))
        }
        ("POST", "/_script") => script(shared, &body),
        _ => (
            404,
            json!({"error": "known: GET /_seen, GET /_wait?request=N&timeout_ms=T, POST /_script, POST /_reset"}),
        ),
    };
    let response = Response::builder().status(status).header("content-type", "application/json");
    response.body(Outgoing::whole(answer.to_string().into_bytes())).map_err(io::Error::other)
}

fn seen(shared: &Shared) -> Value {
    json!({"requests": shared.log.all(), "count": shared.log.requests(), "connections": shared.log.connections()})
}

/// Replaces all rules.
fn script(shared: &Shared, body: &[u8]) -> (u16, Value) {
    match serde_json::from_slice::<Vec<Rule>>(body) {
        Ok(rules) => {
            let count = rules.len();
            shared.script(|script| *script = Script::new(rules));
            (200, json!({"ok": true, "rules": count}))
        }
        Err(error) => (400, json!({"error": error.to_string()})),
    }
}

/// Waits until a request has ended: 200 with the request, or 408.
async fn wait(shared: &Shared, query: &str) -> (u16, Value) {
    let number = |key: &str| {
        let pair = query.split('&').filter_map(|pair| pair.split_once('=')).find(|(name, _)| *name == key);
        pair.and_then(|(_, value)| value.parse::<u64>().ok())
    };
    let Some(request) = number("request") else {
        return (400, json!({"error": "which request? /_wait?request=N&timeout_ms=T"}));
    };
    let deadline = Instant::now() + Duration::from_millis(number("timeout_ms").unwrap_or(10_000));
    let has_ended = |seen: &Seen| seen.outcome != Outcome::Open;
    loop {
        if let Some(seen) = shared.log.request(request).filter(has_ended) {
            return (200, json!(seen));
        }
        if Instant::now() > deadline {
            return (408, json!({"error": "it has not ended"}));
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

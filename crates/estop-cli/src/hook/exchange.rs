//! One question to the running estop and its answer.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use estop_wire::hooks::{HookAnswer, HookClient};
use http::{HeaderValue, StatusCode};
use serde::Deserialize;

use super::payload::{self, Moment, Payload};
use super::unreachable::NoAnswer;
use super::{Args, TIME_LIMIT, branch};
use crate::client::{Client, Endpoint, Received, path, post};

/// Reads the payload, asks, and reads the answer.
pub(super) fn ask(args: &Args, client: HookClient, is_read: &AtomicBool) -> Result<HookAnswer, NoAnswer> {
    let payload = payload::read(std::io::stdin().lock(), client, args.event.as_deref());
    is_read.store(true, Ordering::Relaxed);
    let payload = payload.map_err(NoAnswer::Unread)?;
    let unreachable = |why: String| NoAnswer::Unreachable { moment: payload.moment.clone(), why };
    let misused = |why: String| NoAnswer::Misused { moment: payload.moment.clone(), why };
    let mut transport = args.caller().caller().map_err(|error| misused(error.to_string()))?.transport;
    if let Some(branch) = branch_of(&payload) {
        transport.headers.insert("x-estop-branch", branch);
    }
    let endpoint = transport.endpoint.clone();
    let target = path(&["hooks", payload.moment.client.name(), &payload.event]) + "?as=command";
    let request = post(&target, payload.bytes).map_err(|error| misused(error.to_string()))?;
    let client = Client::over(transport).map_err(|error| unreachable(error.to_string()))?.within(TIME_LIMIT);
    let received = client.exchange(request).map_err(|error| unreachable(error.clause()))?;
    judge(&received, &payload.moment, &endpoint)
}

/// A branch may have any letters, but nothing that ends a header.
fn branch_of(payload: &Payload) -> Option<HeaderValue> {
    let folder = payload.cwd.as_ref().map(PathBuf::from).or_else(|| std::env::current_dir().ok())?;
    let branch = branch::branch(&folder).filter(|name| !name.contains(char::is_control))?;
    HeaderValue::from_bytes(branch.as_bytes()).ok()
}

#[derive(Deserialize)]
struct CommandAnswer {
    stdout: String,
    stderr: String,
    exit_code: u8,
}

fn judge(received: &Received, moment: &Moment, endpoint: &Endpoint) -> Result<HookAnswer, NoAnswer> {
    let strange = |what: String| NoAnswer::Unreachable {
        moment: moment.clone(),
        why: format!("what answers at {endpoint} {what}; after an update of estop, restart it"),
    };
    if received.status != StatusCode::OK {
        return Err(match received.own_detail() {
            // It is estop, and it has no yes: then no tool runs, whatever holds when it is away.
            Some(why) => NoAnswer::Refused { moment: moment.clone(), why },
            None => strange(format!("has no answer to hooks (status {})", received.status.as_u16())),
        });
    }
    match serde_json::from_slice(&received.body) {
        // No other code has a meaning that is the same everywhere.
        Ok(CommandAnswer { stdout, stderr, exit_code: exit_code @ (0 | 2) }) => {
            Ok(HookAnswer { stdout, stderr, exit_code })
        }
        Ok(_) | Err(_) => Err(strange("has an answer that no client would understand".to_owned())),
    }
}

//! What the client wrote, and what it is about as far as the answer depends on it.

use std::io::Read;

use estop_wire::hooks::{self, HookAnswer, HookClient, HookEvent, PAYLOAD_BYTES_MAX};

/// Which hook is to be answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Moment {
    pub(super) client: HookClient,
    pub(super) event: HookEvent,
    /// In the client's words.
    pub(super) name: String,
}

impl Moment {
    /// By the event's name. Fails closed: what nobody knows may be a tool.
    pub(super) fn of_name(client: HookClient, name: Option<&str>) -> Moment {
        let known = |name: &str| client.events().iter().find(|(known, _)| *known == name);
        let before_tool = || client.events().iter().find(|(_, event)| *event == HookEvent::ToolRequested);
        let (name, event) =
            name.and_then(known).or_else(before_tool).copied().unwrap_or(("", HookEvent::ToolRequested));
        Moment { client, event, name: name.to_owned() }
    }
}

/// The payload, and what it says about itself.
pub(super) struct Payload {
    pub(super) bytes: Vec<u8>,
    pub(super) moment: Moment,
    /// For the path of the request: as the command line says, or else the payload.
    pub(super) event: String,
    /// Where the client works.
    pub(super) cwd: Option<String>,
}

/// Reads the payload. An answer instead, if there is too much of it or nobody says which event it is of.
pub(super) fn read(
    mut from: impl Read,
    client: HookClient,
    event: Option<&str>,
) -> Result<Payload, HookAnswer> {
    let mut bytes = Vec::new();
    let limit = PAYLOAD_BYTES_MAX as u64 + 1;
    // What breaks off cannot be read either, and that is what is answered.
    let _ = from.by_ref().take(limit).read_to_end(&mut bytes);
    if bytes.len() > PAYLOAD_BYTES_MAX {
        // To the end: a client whose pipe breaks may take the hook for broken.
        let _ = std::io::copy(&mut from, &mut std::io::sink());
    }
    let understood = hooks::read(client, event, &bytes);
    let is_too_large = bytes.len() > PAYLOAD_BYTES_MAX;
    match (understood, event) {
        (Err(error), None) => Err(hooks::refuse_unread(client, &error)),
        (Err(error), Some(_)) if is_too_large => Err(hooks::refuse_unread(client, &error)),
        // The running estop answers, and writes down that it was asked something strange.
        (Err(_), Some(event)) => Ok(Payload {
            bytes,
            moment: Moment::of_name(client, Some(event)),
            event: event.to_owned(),
            cwd: None,
        }),
        (Ok(hook), _) => {
            let moment = Moment { client, event: hook.event, name: hook.event_name };
            let event = event.map_or_else(|| moment.name.clone(), str::to_owned);
            Ok(Payload { bytes, moment, event, cwd: hook.cwd })
        }
    }
}

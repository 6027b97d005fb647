//! Messages without a call that do more than a stopped agent may: those that read, and answers to a server. They pass
//! while the agent may work (TL-3).

use estop_wire::mcp::{self, Id, Message, Part};

use super::daemon::Asked;
use super::session::{Parts, Session};

/// What must be answered in place of the server, or of the client, if a message does not pass.
#[derive(Default)]
pub(super) struct ErrorReplies {
    /// Requests of the client.
    requests: Vec<Id>,
    /// Requests of the server that the client answered.
    answered: Vec<Id>,
    is_batch: bool,
}

impl ErrorReplies {
    pub(super) fn of(message: &Message<'_>) -> ErrorReplies {
        let mut unpassed = ErrorReplies { is_batch: message.is_batch, ..ErrorReplies::default() };
        for part in message.parts() {
            match part {
                Part::Call(call) => unpassed.requests.push(call.id.clone()),
                Part::Request { id, .. } => unpassed.requests.push(id.clone()),
                Part::Answer { id, .. } => unpassed.answered.push(id.clone()),
                Part::Notice { .. } | Part::Other => {}
            }
        }
        unpassed
    }

    /// The client is told of its requests; the server gets an error where it waits for an answer, and nothing of the
    /// answer itself.
    fn refuse(&self, why: &str, parts: &Parts) {
        let error = |id: &Id| mcp::error(Some(id), mcp::SERVER_ERROR, why);
        let answers: Vec<String> = self.requests.iter().map(error).collect();
        match answers.as_slice() {
            [] => {}
            [only] if !self.is_batch => parts.to_client.say(only),
            all => parts.to_client.say(&mcp::batch(all)),
        }
        self.answered.iter().for_each(|id| parts.to_server.say(&error(id)));
    }
}

impl Session {
    /// Passes a message on if the agent may work. The client is not read meanwhile: its messages keep their order.
    pub(super) fn pass_if_working(&self, line: Vec<u8>, unpassed: &ErrorReplies) {
        let shut = self.state().shut.clone();
        let refusal = shut.or_else(|| self.parts.runtime.block_on(self.may_work()));
        // Pressed while it was asked: the button counts.
        match refusal.or_else(|| self.state().shut.clone()) {
            None => self.parts.to_server.pass(line),
            Some(why) => unpassed.refuse(&why, &self.parts),
        }
    }

    /// Why the agent may not work.
    async fn may_work(&self) -> Option<String> {
        let Parts { daemon, rule, .. } = &self.parts;
        match daemon.may_work().await {
            Asked::Allowed => {
                rule.heard();
                None
            }
            Asked::Denied(reason) => {
                rule.heard();
                Some(reason)
            }
            Asked::Unreachable(why) => rule.refusal(&why),
        }
    }
}

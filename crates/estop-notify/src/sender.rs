//! Sends one message through one channel.

use std::sync::Arc;

use estop_core::ids::Name;
use estop_store::Alerts;

use crate::channel::{Channel, HeaderError, Sending};
use crate::message::Message;
use crate::net::{Call, Dialer, Network, Resolve, TrustError};
use crate::outcome::{SendOutcome, of_answer};
use crate::{email, github};

/// A channel that is ready to send.
pub(crate) struct Sender {
    name: Name,
    channel: Channel,
    network: Network,
}

impl Sender {
    pub(crate) fn new(
        name: Name,
        channel: Channel,
        resolver: Arc<dyn Resolve>,
    ) -> Result<Sender, TrustError> {
        let dialer = Dialer::new(resolver, channel.reach, &channel.ca)?;
        let network = Network { dialer, within: channel.timeout, secrets: channel.kind.secrets() };
        Ok(Sender { name, channel, network })
    }

    /// Sends. `now` is the time the receiver is told.
    pub(crate) async fn send(&self, store: &dyn Alerts, now: i64, message: &Message) -> SendOutcome {
        let tried = match self.channel.kind.sending(now, message) {
            Sending::Call(call) => self.post(call).await,
            Sending::Mail(mail) => email::send(&self.network.dialer, &self.channel, mail, message).await,
            Sending::GitHub(github) => {
                let sink = github::Sink { network: &self.network, github, store, channel: &self.name, now };
                sink.send(message).await
            }
        };
        tried.map(|detail| self.network.redacted(&detail))
    }

    async fn post(&self, call: Result<Call, HeaderError>) -> SendOutcome {
        let call = match call {
            Ok(call) => call,
            Err(problem) => return SendOutcome::Refused(problem.to_string()),
        };
        match self.network.call(call).await {
            Ok(answer) => of_answer(&answer),
            Err(problem) => SendOutcome::failed(problem),
        }
    }
}

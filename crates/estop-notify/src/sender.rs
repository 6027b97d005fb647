//! Sends one message through one channel.

use std::sync::Arc;

use estop_core::ids::Name;
use estop_store::Alerts;
use http::HeaderValue;
use http::header::AUTHORIZATION;
use secrecy::{ExposeSecret, SecretString};

use crate::channel::{Channel, ChannelKind, Ntfy, PagerDuty, Telegram, Webhook};
use crate::message::Message;
use crate::net::{Call, Dialer, Network, Resolve};
use crate::outcome::{Tried, of_answer};
use crate::{email, github, shape, sign};

/// A channel that is ready to send.
pub(crate) struct Sender {
    name: Name,
    channel: Channel,
    network: Network,
}

impl Sender {
    pub(crate) fn new(name: Name, channel: Channel, resolver: Arc<dyn Resolve>) -> Result<Sender, String> {
        let dialer = Dialer::new(resolver, channel.reach, &channel.ca)?;
        let network = Network { dialer, within: channel.timeout, secrets: secrets(&channel.kind) };
        Ok(Sender { name, channel, network })
    }

    /// Sends. `now` is the time the receiver is told.
    pub(crate) async fn send(&self, store: &dyn Alerts, now: i64, message: &Message) -> Tried {
        let tried = match &self.channel.kind {
            ChannelKind::Email(mail) => email::send(&self.network.dialer, &self.channel, mail, message).await,
            ChannelKind::GitHub(repository) => {
                let (network, github) = (&self.network, repository);
                let sink = github::Sink { network, github, store, channel: &self.name, now };
                sink.send(message).await
            }
            ChannelKind::Webhook(webhook) => self.post(signed(webhook, now, message)).await,
            ChannelKind::Slack(endpoint) => {
                self.post(Ok(Call::post(endpoint.clone(), &shape::slack(message)))).await
            }
            ChannelKind::Discord(endpoint) => {
                self.post(Ok(Call::post(endpoint.clone(), &shape::discord(message)))).await
            }
            ChannelKind::Teams(endpoint) => {
                self.post(Ok(Call::post(endpoint.clone(), &shape::teams(message)))).await
            }
            ChannelKind::Telegram(telegram) => self.post(Ok(to_telegram(telegram, message))).await,
            ChannelKind::Ntfy(ntfy) => self.post(to_ntfy(ntfy, message)).await,
            ChannelKind::PagerDuty(PagerDuty { endpoint, routing_key }) => {
                let event = shape::pagerduty(message, routing_key.expose_secret());
                self.post(Ok(Call::post(endpoint.clone(), &event))).await
            }
        };
        tried.map(|detail| self.network.redacted(&detail))
    }

    async fn post(&self, call: Result<Call, String>) -> Tried {
        let call = match call {
            Ok(call) => call,
            Err(problem) => return Tried::Refused(problem),
        };
        match self.network.call(call).await {
            Ok(answer) => of_answer(&answer),
            Err(problem) => Tried::failed(problem),
        }
    }
}

fn signed(webhook: &Webhook, now: i64, message: &Message) -> Result<Call, String> {
    let Webhook { endpoint, secrets } = webhook;
    let call = Call::post(endpoint.clone(), &shape::generic(message));
    let timestamp = now.div_euclid(1000);
    let header = |text: &str| {
        HeaderValue::from_str(text).map_err(|_| "the message's id cannot stand in a header".to_owned())
    };
    let signature = sign::signatures(secrets, &message.id, timestamp, &call.body);
    let call = call
        .with("webhook-id", header(&message.id)?)
        .with("webhook-timestamp", header(&timestamp.to_string())?);
    if signature.is_empty() {
        return Ok(call);
    }
    Ok(call.with("webhook-signature", header(&signature)?))
}

fn to_telegram(telegram: &Telegram, message: &Message) -> Call {
    let Telegram { api, token, chat } = telegram;
    let endpoint = api.below(&format!("/bot{}/sendMessage", token.expose_secret()));
    Call::post(endpoint, &shape::telegram(message, chat))
}

fn to_ntfy(ntfy: &Ntfy, message: &Message) -> Result<Call, String> {
    let Ntfy { server, topic, token } = ntfy;
    let mut call = Call::post(server.below("/"), &shape::ntfy(message, topic));
    if let Some(token) = token {
        let mut bearer = HeaderValue::from_str(&format!("Bearer {}", token.expose_secret()))
            .map_err(|_| "the token cannot stand in a header".to_owned())?;
        bearer.set_sensitive(true);
        call.headers.push((AUTHORIZATION, bearer));
    }
    Ok(call)
}

fn secrets(kind: &ChannelKind) -> Vec<SecretString> {
    let mut all: Vec<SecretString> = Vec::new();
    match kind {
        ChannelKind::Webhook(Webhook { endpoint, .. })
        | ChannelKind::Slack(endpoint)
        | ChannelKind::Discord(endpoint)
        | ChannelKind::Teams(endpoint) => all.push(endpoint.path().to_owned().into()),
        ChannelKind::Telegram(telegram) => all.push(telegram.token.clone()),
        ChannelKind::Ntfy(ntfy) => all.extend(ntfy.token.clone()),
        ChannelKind::PagerDuty(pagerduty) => all.push(pagerduty.routing_key.clone()),
        ChannelKind::Email(mail) => all.extend(mail.login.as_ref().map(|(_, password)| password.clone())),
        ChannelKind::GitHub(repository) => all.push(repository.token.clone()),
    }
    // A path of a few letters is no secret, and would make every text unreadable.
    all.retain(|secret| secret.expose_secret().len() >= 6);
    all
}

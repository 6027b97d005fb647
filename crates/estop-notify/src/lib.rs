//! estop-notify: telling people.
//!
//! An [`AlertEvent`] is told to the [`Notifier`]; rules decide who hears of it ([`AlertRouter`]), messages say it in words that a
//! tired person understands, and the [`Outbox`] sends them until they arrive:
//!
//! - rules by type and agent, repeat intervals, reminders, recovery notices, mutes, digests in a storm (AL-1)
//! - webhooks (signed; Slack, Discord, Telegram, ntfy, PagerDuty and Teams shapes) and e-mail (AL-1)
//! - escalations to GitHub issues, comments and commit statuses (AL-2)
//!
//! What it never does: delay a decision or a kill, drop an alert because an endpoint is down, follow a redirect,
//! or put a prompt or a key into a message, a log or an error.
//!
//! It may use `estop-store` and `estop-core`, and is used by `estop-config` and `estop-daemon`.

mod alert_event;
mod message;
mod plain;
mod words;

mod alert_router;
mod ids;
mod rule;
mod storm;

mod outbox;
mod outcome;
mod store_with_timeout;

mod channel;
mod email;
mod escalation;
mod github;
mod net;
mod render;
mod sender;
mod sign;

mod file;
mod notifier;

pub use alert_event::{AlertEvent, AlertType, BudgetSeen, Cost, Detail, EscalationSeen, Phase};
pub use alert_router::AlertRouter;
pub use channel::*;
pub use file::{AlertsIn, Problem};
pub use message::{Fact, Message, MessageKind, Severity, Step};
pub use net::{CallError, Endpoint, EndpointError, Poster, Reach, Resolve, SystemResolver, TrustError};
pub use notifier::{CHANNELS_MAX, ChannelHealth, Notifier, NotifierEnv, NotifyError, Settings};
pub use outbox::{GIVE_UP_AFTER_MS, Outbox};
pub use outcome::SendOutcome;
pub use rule::{ChannelScope, MUTE_MAX_MS, Mute, Rule, RuleBook, RuleError};
pub use sign::{SecretError, SigningSecret};
pub use storm::STORM_AFTER;
pub use words::Words;

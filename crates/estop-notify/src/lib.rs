//! estop-notify: telling people.
//!
//! Empty so far. It will hold the alert rules, the durable outbox and the senders:
//!
//! - rules by type and agent, repeat intervals, recovery notices, a delivery log (AL-1)
//! - webhook (signed; Slack, Discord, Telegram, ntfy and PagerDuty shapes) and e-mail (AL-1)
//! - escalations to GitHub issues, comments and commit statuses (AL-2)
//!
//! What it never does: delay a decision or a kill, drop an alert because an endpoint is down, follow a redirect,
//! or put a prompt or a key into a message.
//!
//! It may use `estop-store` and `estop-core`, and is used by `estop`.

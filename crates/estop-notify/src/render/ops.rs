//! PagerDuty, ntfy, and plain JSON for everybody else.

use serde_json::{Value, json};

use crate::message::{Fact, Message, MessageKind, Severity};
use crate::plain::within_bytes;

/// PagerDuty takes so much of a summary.
const SUMMARY_MAX: usize = 1_024;
/// ntfy takes 4,096 bytes of a message; more becomes an attachment.
const NTFY_MAX: usize = 4_000;

fn moment(at: i64) -> String {
    jiff::Timestamp::from_millisecond(at).map(|moment| moment.to_string()).unwrap_or_default()
}

/// PagerDuty's Events API v2. An alert, its reminders and its recovery have the same `dedup_key`. A test is an incident
/// of severity `info`, which whoever tests closes.
pub(crate) fn pagerduty(message: &Message, routing_key: &str) -> Value {
    let action = match message.kind {
        MessageKind::Recovery => "resolve",
        MessageKind::Alert | MessageKind::Reminder | MessageKind::Digest | MessageKind::Test => "trigger",
    };
    let severity = match message.severity {
        Severity::Critical => "critical",
        Severity::Warning => "warning",
        Severity::Info => "info",
    };
    let details: serde_json::Map<String, Value> = message
        .facts
        .iter()
        .map(|Fact { label, text }| (label.clone(), json!(text)))
        .chain(message.steps.iter().map(|step| (step.say.clone(), json!(step.command))))
        .collect();
    let mut event = json!({
        "routing_key": routing_key,
        "event_action": action,
        // At most 255 characters; names of agents and runs may be longer together.
        "dedup_key": format!("estop/{}", within_bytes(&message.key, 240)),
        "client": "estop",
        "payload": {
            "summary": within_bytes(&message.title, SUMMARY_MAX),
            "source": message.agent.as_deref().unwrap_or("estop"),
            "severity": severity,
            "timestamp": moment(message.at),
            "class": message.alert.name(),
            "custom_details": details,
        },
    });
    // PagerDuty wants texts; what is not there is left out.
    for (key, value) in [("component", &message.agent), ("group", &message.run)] {
        if let Some(value) = value {
            event["payload"][key] = json!(value);
        }
    }
    if let Some(link) = &message.link {
        event["client_url"] = json!(link);
        event["links"] = json!([{"href": link, "text": "View"}]);
    }
    event
}

/// ntfy's JSON: title and text are values, not headers, so that no line end can become one.
pub(crate) fn ntfy(message: &Message, topic: &str) -> Value {
    let (priority, tag) = match (message.kind, message.severity) {
        (MessageKind::Recovery, _) => (3, "white_check_mark"),
        (MessageKind::Test, _) => (3, "bell"),
        (_, Severity::Critical) => (5, "octagonal_sign"),
        (_, Severity::Warning) => (4, "warning"),
        (_, Severity::Info) => (2, "information_source"),
    };
    let text = message.text();
    // The title is shown above the text.
    let body = text.split_once("\n\n").map_or("", |(_, body)| body);
    let body = if body.trim().is_empty() { &message.title } else { body };
    let mut event = json!({
        "topic": topic,
        "title": message.title,
        "message": within_bytes(body, NTFY_MAX),
        "priority": priority,
        "tags": [tag],
    });
    if let Some(link) = &message.link {
        event["click"] = json!(link);
    }
    event
}

/// For programs: the form that Standard Webhooks recommends.
pub(crate) fn generic(message: &Message) -> Value {
    let kind = match message.kind {
        MessageKind::Alert => "alert",
        MessageKind::Reminder => "reminder",
        MessageKind::Recovery => "recovery",
        MessageKind::Digest => "digest",
        MessageKind::Test => "test",
    };
    json!({
        "type": format!("estop.{kind}.{}", message.alert.name()),
        "timestamp": moment(message.at),
        "data": {
            "id": message.id,
            "key": message.key,
            "kind": kind,
            "alert_type": message.alert.name(),
            "severity": message.severity,
            "agent": message.agent,
            "run": message.run,
            "title": message.title,
            "facts": message.facts,
            "steps": message.steps,
            "link": message.link,
            "escalation": message.escalation,
            "text": message.text(),
        },
    })
}

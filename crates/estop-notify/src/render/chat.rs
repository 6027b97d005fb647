//! Slack, Discord, Telegram and Microsoft Teams.

use serde_json::{Value, json};

use super::escape::{code, html, markdown, slack as mrkdwn, slack_code};
use crate::message::{Fact, Message, MessageKind, Severity, Step};
use crate::plain::within_bytes;

/// What a service takes; beyond it the message would be refused.
const SLACK_TEXT_MAX: usize = 2_900;
const DISCORD_TEXT_MAX: usize = 3_900;
const TELEGRAM_TEXT_MAX: usize = 3_900;

/// A mark that is seen before it is read.
fn mark(message: &Message) -> &'static str {
    match (message.kind, message.severity) {
        (MessageKind::Recovery, _) => "✅",
        (MessageKind::Test, _) => "🔔",
        (_, Severity::Critical) => "🛑",
        (_, Severity::Warning) => "⚠️",
        (_, Severity::Info) => "ℹ️",
    }
}

/// How a language writes foreign text, bold words and commands.
struct Language {
    text: fn(&str) -> String,
    bold: &'static str,
    command: fn(&str) -> String,
}

/// The lines of a message.
fn lines(message: &Message, language: &Language) -> String {
    let Language { text: escape, bold, command: block } = language;
    let mut out = Vec::new();
    for Fact { label, text } in &message.facts {
        out.push(format!("{bold}{}:{bold} {}", escape(label), escape(text)));
    }
    for Step { say, command } in &message.steps {
        out.push(escape(say));
        if !command.is_empty() {
            out.push(block(command));
        }
    }
    out.join("\n")
}

/// Slack's incoming webhook: blocks, and a plain text for notifications.
pub(crate) fn slack(message: &Message) -> Value {
    let title = format!("{} {}", mark(message), message.title);
    let command = |text: &str| format!("```{}```", slack_code(text));
    let body = lines(message, &Language { text: mrkdwn, bold: "*", command });
    let mut blocks = vec![
        json!({"type": "header", "text": {"type": "plain_text", "text": within_bytes(&title, 150), "emoji": true}}),
        json!({"type": "section", "text": {"type": "mrkdwn", "text": within_bytes(&body, SLACK_TEXT_MAX), "verbatim": true}}),
    ];
    if let Some(link) = &message.link {
        let button = json!({"type": "button", "text": {"type": "plain_text", "text": "View"}, "url": link});
        blocks.push(json!({"type": "actions", "elements": [button]}));
    }
    json!({"text": mrkdwn(&title), "blocks": blocks, "unfurl_links": false, "unfurl_media": false})
}

/// Discord's webhook: one embed; nobody is mentioned, whatever the text says.
pub(crate) fn discord(message: &Message) -> Value {
    let color = match (message.kind, message.severity) {
        (MessageKind::Recovery | MessageKind::Test, _) => 0x002e_7d32,
        (_, Severity::Critical) => 0x00c6_2828,
        (_, Severity::Warning) => 0x00f9_a825,
        (_, Severity::Info) => 0x0015_65c0,
    };
    let title = format!("{} {}", mark(message), markdown(&message.title));
    let command = |text: &str| format!("```\n{}\n```", code(text));
    let body = lines(message, &Language { text: markdown, bold: "**", command });
    let mut embed = json!({
        "title": within_bytes(&title, 250),
        "description": within_bytes(&body, DISCORD_TEXT_MAX),
        "color": color,
    });
    if let Ok(moment) = jiff::Timestamp::from_millisecond(message.at) {
        embed["timestamp"] = json!(moment.to_string());
    }
    if let Some(link) = &message.link {
        embed["url"] = json!(link);
    }
    json!({"username": "estop", "embeds": [embed], "allowed_mentions": {"parse": []}})
}

/// Telegram's `sendMessage`, in its HTML.
pub(crate) fn telegram(message: &Message, chat: &str) -> Value {
    let mut text = format!("{} <b>{}</b>\n", mark(message), html(&message.title));
    // Cut line by line: half a tag would be refused.
    let mut add = |line: String| {
        if text.len() + line.len() < TELEGRAM_TEXT_MAX {
            text.push('\n');
            text.push_str(&line);
        }
    };
    for Fact { label, text } in &message.facts {
        add(format!("<b>{}:</b> {}", html(label), html(text)));
    }
    for Step { say, command } in &message.steps {
        add(html(say));
        if !command.is_empty() {
            add(format!("<code>{}</code>", html(command)));
        }
    }
    if let Some(link) = &message.link {
        add(html(link));
    }
    json!({
        "chat_id": chat,
        "text": text,
        "parse_mode": "HTML",
        "link_preview_options": {"is_disabled": true},
        "disable_notification": message.severity == Severity::Info,
    })
}

/// An Adaptive Card for a Teams workflow ("When a Teams webhook request is received").
pub(crate) fn teams(message: &Message) -> Value {
    let facts: Vec<Value> = message
        .facts
        .iter()
        .map(|Fact { label, text }| json!({"title": label, "value": markdown(text)}))
        .collect();
    let color = match (message.kind, message.severity) {
        (MessageKind::Recovery | MessageKind::Test, _) => "Good",
        (_, Severity::Critical) => "Attention",
        (_, Severity::Warning) => "Warning",
        (_, Severity::Info) => "Accent",
    };
    let title = format!("{} {}", mark(message), markdown(&message.title));
    let mut body = vec![
        json!({"type": "TextBlock", "text": title, "weight": "Bolder", "size": "Medium", "wrap": true, "color": color}),
        json!({"type": "FactSet", "facts": facts}),
    ];
    for Step { say, command } in &message.steps {
        body.push(json!({"type": "TextBlock", "text": markdown(say), "wrap": true}));
        if !command.is_empty() {
            // A rich text is shown as it is: nothing in it is Markdown.
            let run = json!({"type": "TextRun", "text": command, "fontType": "Monospace"});
            body.push(json!({"type": "RichTextBlock", "inlines": [run]}));
        }
    }
    let mut card = json!({
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "body": body,
    });
    if let Some(link) = &message.link {
        card["actions"] = json!([{"type": "Action.OpenUrl", "title": "View", "url": link}]);
    }
    let attachment = json!({
        "contentType": "application/vnd.microsoft.card.adaptive",
        "contentUrl": null,
        "content": card,
    });
    json!({"type": "message", "attachments": [attachment]})
}

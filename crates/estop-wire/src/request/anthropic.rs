//! Anthropic Messages. Calls and results are parts of messages: results travel inside user messages.

use std::borrow::Cow;

use estop_core::ended::Ended;

use super::content::{Part, Said, scan, scan_unseen};
use super::limit::Limit;
use super::talk::{Called, Came, Few, InARow, Orphans, Talk};
use super::{RequestIn, missing};
use crate::json::{Fault, Fields, Raw, Scanner};

#[derive(Clone, Copy, PartialEq)]
enum Field {
    Model,
    Stream,
    MaxTokens,
    System,
    Messages,
    Tools,
    Elsewhere,
}

const REQUEST: &Fields<Field> = &[
    ("model", Field::Model),
    ("stream", Field::Stream),
    ("max_tokens", Field::MaxTokens),
    ("system", Field::System),
    ("messages", Field::Messages),
    ("tools", Field::Tools),
    ("container", Field::Elsewhere),
    ("mcp_servers", Field::Elsewhere),
];

pub(super) fn read<'a>(s: &mut Scanner<'a>) -> Result<RequestIn<'a>, Fault> {
    let start = s.place();
    let mut request = RequestIn::default();
    let (mut talk, mut limit) = (Talk::default(), Limit::default());
    let (mut system, mut messages) = (None, false);
    s.object(REQUEST, |s, field| {
        match field {
            Field::Model => request.model = s.text()?,
            Field::Stream => request.stream = s.flag()?.unwrap_or(false),
            Field::MaxTokens => limit.at_most(s.count()?),
            Field::System => system = scan_unseen(s, &mut talk.text_bytes)?,
            Field::Messages => {
                messages = true;
                s.list("a list of messages", |s| message(s, &mut talk))?;
            }
            Field::Tools => talk.text_bytes += s.skip()?.text.len(),
            Field::Elsewhere => request.refers_to_more |= !matches!(s.skip()?.text, "null" | "[]"),
        }
        Ok(())
    })?;
    if !messages {
        return Err(missing(start, "messages"));
    }
    limit.tell(&mut request);
    talk.finish(Orphans::Dropped, &mut request)?;
    if let Some(system) = system {
        request.system = Said::parts(Some(system)).system()?;
    }
    Ok(request)
}

#[derive(Clone, Copy, PartialEq)]
enum MessageField {
    Role,
    Content,
}

const MESSAGE: &Fields<MessageField> = &[("role", MessageField::Role), ("content", MessageField::Content)];

fn message<'a>(s: &mut Scanner<'a>, talk: &mut Talk<'a>) -> Result<(), Fault> {
    let start = s.place();
    let (mut role, mut content) = (None, None);
    let (mut calls, mut results) = (Few::calls(), Few::results());
    s.object(MESSAGE, |s, field| {
        match field {
            MessageField::Role => role = s.text()?,
            MessageField::Content => {
                content = scan(s, &mut talk.text_bytes, &mut |part| {
                    if part.is_call() {
                        calls.push(called(&part)?, part.at())?;
                    } else if part.is_result() {
                        results.push(came(&part)?, part.at())?;
                    }
                    Ok(())
                })?;
            }
        }
        Ok(())
    })?;
    let said = Said::parts(content);
    match role.ok_or(missing(start, "role"))?.as_ref() {
        "system" => talk.system(said),
        // Clients put reminders of their own beside results: the text there is no person's.
        "user" if results.is_empty() => talk.user(said, InARow::Together, start)?,
        "user" => talk.came(results, start)?,
        "assistant" => {
            talk.assistant(InARow::Together);
            talk.says(said, start)?;
            talk.calls(calls, start)?;
            talk.came_at_once(results, start)?;
        }
        // A role we do not know is neither a person's words nor the agent's.
        _ => {}
    }
    Ok(())
}

fn called<'a>(part: &Part<'a>) -> Result<Called<'a>, Fault> {
    Ok(Called { id: decoded(part.id)?, tool: decoded(part.name)?, args: part.input })
}

fn came<'a>(part: &Part<'a>) -> Result<Came<'a>, Fault> {
    let ended = part.is_error.map(|failed| if failed { Ended::Failed } else { Ended::Ok });
    Ok(Came { id: decoded(part.tool_use_id)?, said: Said::parts(part.content), ended, telling: None })
}

fn decoded(raw: Option<Raw<'_>>) -> Result<Cow<'_, str>, Fault> {
    raw.map_or(Ok(Cow::Borrowed("")), |raw| raw.decoded())
}

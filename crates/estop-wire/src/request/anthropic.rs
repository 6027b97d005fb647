//! Anthropic Messages. Calls and results are parts of messages: results travel inside user messages.

use std::borrow::Cow;

use estop_core::ended::Ended;

use super::content::{MessageContent, Part, scan, scan_unseen};
use super::conversation::{AssistantCall, BoundedVec, CallOutput, Consecutive, Conversation, Orphans};
use super::limit::Limit;
use super::{RequestIn, missing};
use crate::json::{Fields, ParseError, Raw, Scanner};

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

pub(super) fn read<'a>(s: &mut Scanner<'a>) -> Result<RequestIn<'a>, ParseError> {
    let start = s.place();
    let mut request = RequestIn::default();
    let (mut conversation, mut limit) = (Conversation::default(), Limit::default());
    let (mut system, mut messages) = (None, false);
    s.object(REQUEST, |s, field| {
        match field {
            Field::Model => request.model = s.text()?,
            Field::Stream => request.stream = s.flag()?.unwrap_or(false),
            Field::MaxTokens => limit.at_most(s.count()?),
            Field::System => system = scan_unseen(s, &mut conversation.text_bytes)?,
            Field::Messages => {
                messages = true;
                s.list("a list of messages", |s| message(s, &mut conversation))?;
            }
            Field::Tools => conversation.text_bytes += s.skip()?.text.len(),
            Field::Elsewhere => request.refers_to_more |= !matches!(s.skip()?.text, "null" | "[]"),
        }
        Ok(())
    })?;
    if !messages {
        return Err(missing(start, "messages"));
    }
    limit.record(&mut request);
    conversation.finish(Orphans::Dropped, &mut request)?;
    if let Some(system) = system {
        request.system = MessageContent::parts(Some(system)).system()?;
    }
    Ok(request)
}

#[derive(Clone, Copy, PartialEq)]
enum MessageField {
    Role,
    Content,
}

const MESSAGE: &Fields<MessageField> = &[("role", MessageField::Role), ("content", MessageField::Content)];

fn message<'a>(s: &mut Scanner<'a>, conversation: &mut Conversation<'a>) -> Result<(), ParseError> {
    let start = s.place();
    let (mut role, mut content) = (None, None);
    let (mut calls, mut results) = (BoundedVec::calls(), BoundedVec::results());
    s.object(MESSAGE, |s, field| {
        match field {
            MessageField::Role => role = s.text()?,
            MessageField::Content => {
                content = scan(s, &mut conversation.text_bytes, &mut |part| {
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
    let said = MessageContent::parts(content);
    match role.ok_or(missing(start, "role"))?.as_ref() {
        "system" => conversation.system(said),
        // Clients put reminders of their own beside results: the text there is no person's.
        "user" if results.is_empty() => conversation.user(said, Consecutive::Together, start)?,
        "user" => conversation.came(results, start)?,
        "assistant" => {
            conversation.assistant(Consecutive::Together);
            conversation.says(said, start)?;
            conversation.calls(calls, start)?;
            conversation.push_server_results(results, start)?;
        }
        // A role we do not know is neither a person's words nor the agent's.
        _ => {}
    }
    Ok(())
}

fn called<'a>(part: &Part<'a>) -> Result<AssistantCall<'a>, ParseError> {
    Ok(AssistantCall { id: decoded(part.id)?, tool: decoded(part.name)?, args: part.input })
}

fn came<'a>(part: &Part<'a>) -> Result<CallOutput<'a>, ParseError> {
    let ended = part.is_error.map(|failed| if failed { Ended::Failed } else { Ended::Ok });
    Ok(CallOutput {
        id: decoded(part.tool_use_id)?,
        said: MessageContent::parts(part.content),
        ended,
        telling: None,
    })
}

fn decoded(raw: Option<Raw<'_>>) -> Result<Cow<'_, str>, ParseError> {
    raw.map_or(Ok(Cow::Borrowed("")), |raw| raw.decoded())
}

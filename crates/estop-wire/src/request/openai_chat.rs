//! OpenAI Chat Completions, and all who speak it. Agrees with the rules for recorded traces (docs/traces.md).

use std::borrow::Cow;

use super::content::{MessageContent, scan_unseen};
use super::conversation::{AssistantCall, BoundedVec, CallOutput, Consecutive, Conversation, Orphans};
use super::limit::Limit;
use super::{RequestIn, missing};
use crate::json::{Fields, Kind, ParseError, ParseErrorKind, Scanner};

#[derive(Clone, Copy, PartialEq)]
enum Field {
    Model,
    Stream,
    MaxTokens,
    MaxCompletionTokens,
    Choices,
    Messages,
    Tools,
    Functions,
    OtherModels,
}

const REQUEST: &Fields<Field> = &[
    ("model", Field::Model),
    ("models", Field::OtherModels),
    ("stream", Field::Stream),
    ("max_tokens", Field::MaxTokens),
    ("max_completion_tokens", Field::MaxCompletionTokens),
    ("n", Field::Choices),
    ("messages", Field::Messages),
    ("tools", Field::Tools),
    ("functions", Field::Functions),
];

pub(super) fn read<'a>(s: &mut Scanner<'a>) -> Result<RequestIn<'a>, ParseError> {
    let start = s.place();
    let mut request = RequestIn::default();
    let (mut conversation, mut limit, mut messages) = (Conversation::default(), Limit::default(), false);
    s.object(REQUEST, |s, field| {
        match field {
            Field::Model => request.model = s.text()?,
            Field::Stream => request.stream = s.flag()?.unwrap_or(false),
            Field::MaxTokens | Field::MaxCompletionTokens => limit.at_most(s.count()?),
            Field::Choices => limit.times(s.count()?),
            Field::Messages => {
                messages = true;
                s.list("a list of messages", |s| message(s, &mut conversation))?;
            }
            Field::OtherModels if s.kind()? == Kind::Null => drop(s.skip()?),
            Field::OtherModels => other_models(s, &mut request.other_models)?,
            Field::Tools | Field::Functions => conversation.text_bytes += s.skip()?.text.len(),
        }
        Ok(())
    })?;
    if !messages {
        return Err(missing(start, "messages"));
    }
    limit.record(&mut request);
    conversation.finish(Orphans::Dropped, &mut request)?;
    Ok(request)
}

/// Models that OpenRouter may take instead. More than these are refused: each of them must be judged and priced.
const OTHER_MODELS_MAX: usize = 8;

fn other_models<'a>(s: &mut Scanner<'a>, models: &mut Vec<Cow<'a, str>>) -> Result<(), ParseError> {
    s.list("a list of models", |s| {
        let at = s.place();
        if models.len() == OTHER_MODELS_MAX {
            return Err(ParseError {
                at,
                what: ParseErrorKind::TooMany { what: "models", max: OTHER_MODELS_MAX },
            });
        }
        models.extend(s.text()?);
        Ok(())
    })
}

#[derive(Clone, Copy, PartialEq)]
enum MessageField {
    Role,
    Content,
    ToolCalls,
    ToolCallId,
    FunctionCall,
    Images,
}

const MESSAGE: &Fields<MessageField> = &[
    ("role", MessageField::Role),
    ("content", MessageField::Content),
    ("tool_calls", MessageField::ToolCalls),
    ("tool_call_id", MessageField::ToolCallId),
    ("function_call", MessageField::FunctionCall),
    ("images", MessageField::Images),
];

/// One message; Ollama's have the same shape.
pub(super) fn message<'a>(
    s: &mut Scanner<'a>,
    conversation: &mut Conversation<'a>,
) -> Result<(), ParseError> {
    let start = s.place();
    let (mut role, mut content, mut images, mut id) = (None, None, None, None);
    let mut calls = BoundedVec::calls();
    s.object(MESSAGE, |s, field| {
        match field {
            MessageField::Role => role = s.text()?,
            MessageField::Content => content = scan_unseen(s, &mut conversation.text_bytes)?,
            MessageField::ToolCalls if s.kind()? == Kind::Null => drop(s.skip()?),
            MessageField::ToolCalls => s.list("a list of calls", |s| {
                let at = s.place();
                calls.push(tool_call(s)?, at)
            })?,
            MessageField::ToolCallId => id = s.text()?,
            MessageField::FunctionCall if s.kind()? == Kind::Null => drop(s.skip()?),
            MessageField::FunctionCall => calls.push(function(s)?, start)?,
            MessageField::Images => images = Some(s.skip()?),
        }
        Ok(())
    })?;
    conversation.text_bytes += calls.iter().filter_map(|call| call.args).map(|args| args.said).sum::<usize>();
    let said = MessageContent { images, ..MessageContent::parts(content) };
    match role.ok_or(missing(start, "role"))?.as_ref() {
        "system" | "developer" => conversation.system(said),
        "user" => conversation.user(said, Consecutive::Apart, start)?,
        "assistant" => {
            conversation.assistant(Consecutive::Apart);
            conversation.says(said, start)?;
            conversation.calls(calls, start)?;
        }
        "tool" | "function" => {
            let came = CallOutput { id: id.unwrap_or_default(), said, ended: None, telling: None };
            conversation.push_result(came, start)?;
        }
        // A role we do not know is neither a person's words nor the agent's.
        _ => {}
    }
    Ok(())
}

#[derive(Clone, Copy, PartialEq)]
enum CallField {
    Id,
    Function,
    Custom,
}

const CALL: &Fields<CallField> =
    &[("id", CallField::Id), ("function", CallField::Function), ("custom", CallField::Custom)];

fn tool_call<'a>(s: &mut Scanner<'a>) -> Result<AssistantCall<'a>, ParseError> {
    let start = s.place();
    let (mut id, mut called) = (None, None);
    s.object(CALL, |s, field| {
        match field {
            CallField::Id => id = s.text()?,
            CallField::Function | CallField::Custom => called = Some(function(s)?),
        }
        Ok(())
    })?;
    let called = called.ok_or(missing(start, "function"))?;
    Ok(AssistantCall { id: id.unwrap_or_default(), ..called })
}

#[derive(Clone, Copy, PartialEq)]
enum FunctionField {
    Name,
    Arguments,
    Input,
}

const FUNCTION: &Fields<FunctionField> = &[
    ("name", FunctionField::Name),
    ("arguments", FunctionField::Arguments),
    ("input", FunctionField::Input),
];

fn function<'a>(s: &mut Scanner<'a>) -> Result<AssistantCall<'a>, ParseError> {
    let start = s.place();
    let (mut name, mut args) = (None, None);
    s.object(FUNCTION, |s, field| {
        match field {
            FunctionField::Name => name = s.text()?,
            FunctionField::Arguments | FunctionField::Input => args = Some(s.skip()?),
        }
        Ok(())
    })?;
    Ok(AssistantCall { id: Cow::Borrowed(""), tool: name.ok_or(missing(start, "name"))?, args })
}

//! The usual shape of a chat completion, read in one pass: what nearly every answer and chunk looks like.
//!
//! Whatever looks otherwise is left to the careful reader beside it, and so is everything that is not JSON.

use super::super::field::{ArgsText, Content, Count, Each, FEW_MAX, Maybe, Text};
use super::super::openai_usage::{InputDetails, OutputDetails, Usage};
use super::{Answer, Choice, Function, Message, ToolCall};
use crate::json::{Fault, Fields, Kind, Scanner, scan};

/// Reads a document; `None` if it is not of the usual shape. What it reads, the careful reader would read the same.
pub(in crate::response) fn usual(json: &str) -> Option<Answer<'_>> {
    scan(json, answer).ok()
}

#[derive(Clone, Copy, PartialEq)]
enum AnswerField {
    Id,
    Object,
    Choices,
    Usage,
    Rare,
}

const ANSWER: &Fields<AnswerField> = &[
    ("id", AnswerField::Id),
    ("object", AnswerField::Object),
    ("choices", AnswerField::Choices),
    ("usage", AnswerField::Usage),
    ("error", AnswerField::Rare),
    ("x_groq", AnswerField::Rare),
];

fn answer<'a>(s: &mut Scanner<'a>) -> Result<Answer<'a>, Fault> {
    let mut answer = Answer::default();
    s.loose_object(ANSWER, |s, field| {
        match field {
            AnswerField::Id => answer.id = text(s)?,
            AnswerField::Object => answer.object = text(s)?,
            AnswerField::Choices => answer.choices = each(s, choice)?,
            AnswerField::Usage => answer.usage = maybe(s, |s| usage(s).map(Box::new))?,
            AnswerField::Rare => nothing(s)?,
        }
        Ok(())
    })?;
    Ok(answer)
}

#[derive(Clone, Copy, PartialEq)]
enum ChoiceField {
    Index,
    Delta,
    Message,
    Text,
    FinishReason,
    Rare,
}

const CHOICE: &Fields<ChoiceField> = &[
    ("index", ChoiceField::Index),
    ("delta", ChoiceField::Delta),
    ("message", ChoiceField::Message),
    ("text", ChoiceField::Text),
    ("finish_reason", ChoiceField::FinishReason),
    ("usage", ChoiceField::Rare),
];

fn choice<'a>(s: &mut Scanner<'a>) -> Result<Choice<'a>, Fault> {
    let mut choice = Choice::default();
    s.loose_object(CHOICE, |s, field| {
        match field {
            ChoiceField::Index => choice.index = count(s)?,
            ChoiceField::Delta => choice.delta = maybe(s, message)?,
            ChoiceField::Message => choice.message = maybe(s, |s| message(s).map(Box::new))?,
            ChoiceField::Text => choice.text = text(s)?,
            ChoiceField::FinishReason => choice.finish_reason = text(s)?,
            ChoiceField::Rare => nothing(s)?,
        }
        Ok(())
    })?;
    Ok(choice)
}

#[derive(Clone, Copy, PartialEq)]
enum MessageField {
    Content,
    Refusal,
    ReasoningContent,
    Reasoning,
    ToolCalls,
    Rare,
}

const MESSAGE: &Fields<MessageField> = &[
    ("content", MessageField::Content),
    ("refusal", MessageField::Refusal),
    ("reasoning_content", MessageField::ReasoningContent),
    ("reasoning", MessageField::Reasoning),
    ("tool_calls", MessageField::ToolCalls),
    ("function_call", MessageField::Rare),
];

fn message<'a>(s: &mut Scanner<'a>) -> Result<Message<'a>, Fault> {
    let mut message = Message::default();
    s.loose_object(MESSAGE, |s, field| {
        match field {
            MessageField::Content => message.content = Content::Text(text(s)?.0),
            MessageField::Refusal => message.refusal = text(s)?,
            MessageField::ReasoningContent => message.reasoning_content = text(s)?,
            MessageField::Reasoning => message.reasoning = text(s)?,
            MessageField::ToolCalls => message.tool_calls = each(s, tool_call)?,
            MessageField::Rare => nothing(s)?,
        }
        Ok(())
    })?;
    Ok(message)
}

#[derive(Clone, Copy, PartialEq)]
enum CallField {
    Index,
    Id,
    Function,
    Rare,
}

const CALL: &Fields<CallField> = &[
    ("index", CallField::Index),
    ("id", CallField::Id),
    ("function", CallField::Function),
    ("custom", CallField::Rare),
];

fn tool_call<'a>(s: &mut Scanner<'a>) -> Result<ToolCall<'a>, Fault> {
    let mut call = ToolCall::default();
    s.loose_object(CALL, |s, field| {
        match field {
            CallField::Index => call.index = count(s)?,
            CallField::Id => call.id = text(s)?,
            CallField::Function => call.function = maybe(s, function)?,
            CallField::Rare => nothing(s)?,
        }
        Ok(())
    })?;
    Ok(call)
}

#[derive(Clone, Copy, PartialEq)]
enum FunctionField {
    Name,
    Arguments,
    Rare,
}

const FUNCTION: &Fields<FunctionField> =
    &[("name", FunctionField::Name), ("arguments", FunctionField::Arguments), ("input", FunctionField::Rare)];

fn function<'a>(s: &mut Scanner<'a>) -> Result<Function<'a>, Fault> {
    let mut function = Function::default();
    s.loose_object(FUNCTION, |s, field| {
        match field {
            FunctionField::Name => function.name = text(s)?,
            FunctionField::Arguments => function.arguments = ArgsText(text(s)?.0),
            FunctionField::Rare => nothing(s)?,
        }
        Ok(())
    })?;
    Ok(function)
}

#[derive(Clone, Copy, PartialEq)]
enum UsageField {
    Prompt,
    Completion,
    Total,
    PromptDetails,
    CompletionDetails,
    Rare,
}

const USAGE: &Fields<UsageField> = &[
    ("prompt_tokens", UsageField::Prompt),
    ("completion_tokens", UsageField::Completion),
    ("total_tokens", UsageField::Total),
    ("prompt_tokens_details", UsageField::PromptDetails),
    ("completion_tokens_details", UsageField::CompletionDetails),
    ("input_tokens", UsageField::Rare),
    ("output_tokens", UsageField::Rare),
    ("input_tokens_details", UsageField::Rare),
    ("output_tokens_details", UsageField::Rare),
    ("prompt_cache_hit_tokens", UsageField::Rare),
];

fn usage(s: &mut Scanner<'_>) -> Result<Usage, Fault> {
    let mut usage = Usage::default();
    s.loose_object(USAGE, |s, field| {
        match field {
            UsageField::Prompt => usage.prompt_tokens = count(s)?,
            UsageField::Completion => usage.completion_tokens = count(s)?,
            UsageField::Total => usage.total_tokens = count(s)?,
            UsageField::PromptDetails => usage.prompt_tokens_details = maybe(s, input_details)?,
            UsageField::CompletionDetails => usage.completion_tokens_details = maybe(s, output_details)?,
            UsageField::Rare => nothing(s)?,
        }
        Ok(())
    })?;
    Ok(usage)
}

fn input_details(s: &mut Scanner<'_>) -> Result<InputDetails, Fault> {
    let mut details = InputDetails::default();
    s.loose_object(&[("cached_tokens", true), ("cache_write_tokens", false)], |s, is_read| {
        if is_read {
            details.cached_tokens = count(s)?;
            return Ok(());
        }
        nothing(s)
    })?;
    Ok(details)
}

fn output_details(s: &mut Scanner<'_>) -> Result<OutputDetails, Fault> {
    let mut details = OutputDetails::default();
    s.loose_object(&[("reasoning_tokens", ())], |s, ()| {
        details.reasoning_tokens = count(s)?;
        Ok(())
    })?;
    Ok(details)
}

/// A text or null.
fn text<'a>(s: &mut Scanner<'a>) -> Result<Text<'a>, Fault> {
    s.text().map(|text| Text(text.unwrap_or_default()))
}

/// Plain digits or null.
fn count(s: &mut Scanner<'_>) -> Result<Count, Fault> {
    let raw = s.skip()?;
    match (raw.text.parse(), raw.kind()) {
        (Ok(count), _) => Ok(Count(Some(count))),
        (Err(_), Kind::Null) => Ok(Count(None)),
        (Err(_), found @ (Kind::Bool | Kind::Number | Kind::String | Kind::Array | Kind::Object)) => {
            Err(s.shape("plain digits", found))
        }
    }
}

/// What is usually not there, or null.
fn nothing(s: &mut Scanner<'_>) -> Result<(), Fault> {
    match s.kind()? {
        Kind::Null => s.skip().map(drop),
        found @ (Kind::Bool | Kind::Number | Kind::String | Kind::Array | Kind::Object) => {
            Err(s.shape("null", found))
        }
    }
}

/// An object or null.
fn maybe<'a, T>(
    s: &mut Scanner<'a>,
    read: impl FnOnce(&mut Scanner<'a>) -> Result<T, Fault>,
) -> Result<Maybe<T>, Fault> {
    match s.kind()? {
        Kind::Null => s.skip().map(|_| Maybe(None)),
        Kind::Bool | Kind::Number | Kind::String | Kind::Array | Kind::Object => {
            read(s).map(|value| Maybe(Some(value)))
        }
    }
}

/// A list of a few objects, or null. A long one is for the careful reader, which holds one element at a time.
fn each<'a, T>(
    s: &mut Scanner<'a>,
    mut read: impl FnMut(&mut Scanner<'a>) -> Result<T, Fault>,
) -> Result<Each<'a, T>, Fault> {
    let mut list = Vec::new();
    if s.kind()? == Kind::Null {
        s.skip()?;
        return Ok(Each::Few(list));
    }
    s.list("a list of objects", |s| {
        if list.len() == FEW_MAX {
            return Err(s.shape("a list of a few objects", Kind::Array));
        }
        list.push(read(s)?);
        Ok(())
    })?;
    Ok(Each::Few(list))
}

#[cfg(test)]
mod tests {
    use super::super::super::gather::Gather;
    use super::super::super::read::{Document, read_as};
    use super::*;

    const DOCUMENTS: [&str; 6] = [
        r#"{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"It is \"four\".","refusal":null},"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":42,"completion_tokens":34,"total_tokens":76,"prompt_tokens_details":{"cached_tokens":3},"completion_tokens_details":{"reasoning_tokens":5}}}"#,
        r#"{"id":"c","choices":[{"index":0,"message":{"content":null,"tool_calls":[{"id":"t","type":"function","function":{"name":"f","arguments":"{\"a\": 1}"}}]},"finish_reason":"tool_calls"}],"usage":null}"#,
        r#"{"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"tool_calls":[{"index":1,"id":"t","function":{"name":"f","arguments":"x"}}]},"finish_reason":null}]}"#,
        r#" { "choices" : [ { "index" : 1, "delta" : { "reasoning" : "hm", "reasoning_content" : "hmm" } } , {"text":"old"} ] } "#,
        r#"{"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":10,"completion_tokens_details":{"reasoning_tokens":7}},"error":null,"x_groq":null}"#,
        r#"{"id":"\u00fc","id2":1,"id2":2,"ID":3,"choices":[{"message":{"content":"\ud83d\ude00"}}]}"#,
    ];

    fn reads_alike(json: &str) -> bool {
        let Some(answer) = usual(json) else { return false };
        let (mut quick, mut careful) = (Gather::default(), Gather::default());
        answer.tell(&mut quick);
        read_as::<Answer<'_>>(json.as_bytes(), &mut careful);
        assert_eq!(quick.into_observed(), careful.into_observed(), "{json}");
        true
    }

    #[test]
    fn the_usual_shape_is_read_in_one_pass() {
        assert!(DOCUMENTS.into_iter().all(reads_alike));
        for other in [
            "",
            "{}{}",
            "[]",
            r#"{"id":1}"#,
            r#"{"id":"a","id":"b"}"#,
            r#"{"choices":[null]}"#,
            r#"{"error":{}}"#,
        ] {
            assert!(usual(other).is_none(), "{other}");
        }
    }

    /// Whatever one byte more, less or other makes of a document: both read the same, or only the careful one does.
    #[test]
    fn no_document_is_read_in_two_ways() {
        let mut alike = 0;
        for document in DOCUMENTS {
            for at in 0..document.len() {
                for put in [
                    "",
                    "0",
                    "-",
                    "\"",
                    "{",
                    "}",
                    "[",
                    "]",
                    ",",
                    ":",
                    "null",
                    "1.5",
                    "\\",
                    " ",
                    "1e999",
                    "\"id\":\"x\",",
                ] {
                    for skipped in [0, 1] {
                        let (Some(before), Some(after)) = (document.get(..at), document.get(at + skipped..))
                        else {
                            continue;
                        };
                        alike += u32::from(reads_alike(&format!("{before}{put}{after}")));
                    }
                }
            }
        }
        assert!(alike > 1000, "only {alike} of them were read at all");
    }
}

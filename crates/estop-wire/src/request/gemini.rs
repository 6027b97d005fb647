//! Google Gemini. Every key has two spellings, of which a request may use one; a list of one may be written without
//! brackets; who speaks without a role is a person.

use std::borrow::Cow;

use estop_core::ended::Ended;

use super::content::{Joined, MessageContent, Speaker, media};
use super::conversation::{AssistantCall, BoundedVec, CallOutput, Consecutive, Conversation, Orphans};
use super::limit::Limit;
use super::{RequestIn, missing};
use crate::json::{Fields, Kind, ParseError, Raw, Scanner};

#[derive(Clone, Copy, PartialEq)]
enum Field {
    Model,
    System,
    Contents,
    Generation,
    Tools,
    Kept,
}

const REQUEST: &Fields<Field> = &[
    ("model", Field::Model),
    ("systemInstruction", Field::System),
    ("system_instruction", Field::System),
    ("contents", Field::Contents),
    ("generationConfig", Field::Generation),
    ("generation_config", Field::Generation),
    ("tools", Field::Tools),
    ("cachedContent", Field::Kept),
    ("cached_content", Field::Kept),
];

pub(super) fn read<'a>(s: &mut Scanner<'a>) -> Result<RequestIn<'a>, ParseError> {
    let start = s.place();
    let mut request = RequestIn::default();
    let (mut conversation, mut limit) = (Conversation::default(), Limit::default());
    let (mut system, mut contents) = (None, false);
    s.object(REQUEST, |s, field| {
        match field {
            Field::Model => request.model = s.text()?,
            Field::System if s.kind()? == Kind::Null => drop(s.skip()?),
            Field::System => system = content(s, &mut conversation.text_bytes)?.parts,
            Field::Contents => {
                contents = true;
                one_or_more(s, "a list of contents", &mut |s| contents_one(s, &mut conversation))?;
            }
            Field::Generation if s.kind()? == Kind::Null => drop(s.skip()?),
            Field::Generation => generation(s, &mut limit)?,
            Field::Tools => conversation.text_bytes += s.skip()?.text.len(),
            Field::Kept => request.refers_to_more |= s.skip()?.kind() != Kind::Null,
        }
        Ok(())
    })?;
    if !contents {
        return Err(missing(start, "contents"));
    }
    limit.record(&mut request);
    conversation.finish(Orphans::Dropped, &mut request)?;
    if system.is_some() {
        request.system = said(system).system()?;
    }
    Ok(request)
}

#[derive(Clone, Copy, PartialEq)]
enum GenerationField {
    MaxOutputTokens,
    Candidates,
}

const GENERATION: &Fields<GenerationField> = &[
    ("maxOutputTokens", GenerationField::MaxOutputTokens),
    ("max_output_tokens", GenerationField::MaxOutputTokens),
    ("candidateCount", GenerationField::Candidates),
    ("candidate_count", GenerationField::Candidates),
];

fn generation(s: &mut Scanner<'_>, limit: &mut Limit) -> Result<(), ParseError> {
    s.object(GENERATION, |s, field| {
        match field {
            GenerationField::MaxOutputTokens => limit.at_most(s.count()?),
            GenerationField::Candidates => limit.times(s.count()?),
        }
        Ok(())
    })
}

fn contents_one<'a>(s: &mut Scanner<'a>, conversation: &mut Conversation<'a>) -> Result<(), ParseError> {
    let start = s.place();
    let Content { role, parts, calls, results } = content(s, &mut conversation.text_bytes)?;
    match role.as_ref() {
        "system" => conversation.system(said(parts)),
        "model" => {
            conversation.assistant(Consecutive::Together);
            conversation.says(said(parts), start)?;
            conversation.calls(calls, start)?;
        }
        "" | "user" | "function" | "tool" if !results.is_empty() => {
            conversation.came(results, start)?;
        }
        "" | "user" => conversation.user(said(parts), Consecutive::Together, start)?,
        // A role we do not know is neither a person's words nor the agent's.
        _ => {}
    }
    Ok(())
}

/// One content: who speaks, and the parts.
struct Content<'a> {
    role: Cow<'a, str>,
    parts: Option<Raw<'a>>,
    calls: BoundedVec<AssistantCall<'a>>,
    results: BoundedVec<CallOutput<'a>>,
}

#[derive(Clone, Copy, PartialEq)]
enum ContentField {
    Role,
    Parts,
}

const CONTENT: &Fields<ContentField> = &[("role", ContentField::Role), ("parts", ContentField::Parts)];

fn content<'a>(s: &mut Scanner<'a>, text_bytes: &mut usize) -> Result<Content<'a>, ParseError> {
    let (calls, results) = (BoundedVec::calls(), BoundedVec::results());
    let mut content = Content { role: Cow::Borrowed(""), parts: None, calls, results };
    s.object(CONTENT, |s, field| {
        match field {
            ContentField::Role => content.role = s.text()?.unwrap_or_default(),
            ContentField::Parts if s.kind()? == Kind::Null => drop(s.skip()?),
            ContentField::Parts => {
                let (calls, results) = (&mut content.calls, &mut content.results);
                let mut look = |s: &mut Scanner<'a>| {
                    let at = s.place();
                    let part = part(s)?;
                    *text_bytes += part.text_bytes;
                    if let Some(call) = part.call {
                        calls.push(call, at)?;
                    }
                    part.result.map_or(Ok(()), |result| results.push(result, at))
                };
                let through = |s: &mut Scanner<'a>| one_or_more(s, "a list of parts", &mut look);
                content.parts = Some(s.both(through)?.0);
            }
        }
        Ok(())
    })?;
    Ok(content)
}

#[derive(Clone, Copy, PartialEq)]
enum PartField {
    Text,
    Thought,
    Inline,
    File,
    Call,
    Result,
}

const PART: &Fields<PartField> = &[
    ("text", PartField::Text),
    ("thought", PartField::Thought),
    ("inlineData", PartField::Inline),
    ("inline_data", PartField::Inline),
    ("fileData", PartField::File),
    ("file_data", PartField::File),
    ("functionCall", PartField::Call),
    ("function_call", PartField::Call),
    ("functionResponse", PartField::Result),
    ("function_response", PartField::Result),
];

#[derive(Default)]
struct Part<'a> {
    text: Option<Raw<'a>>,
    thought: bool,
    media: Option<Raw<'a>>,
    call: Option<AssistantCall<'a>>,
    result: Option<CallOutput<'a>>,
    text_bytes: usize,
}

fn part<'a>(s: &mut Scanner<'a>) -> Result<Part<'a>, ParseError> {
    let mut part = Part::default();
    s.object(PART, |s, field| {
        match field {
            PartField::Text => part.text = s.undecoded()?,
            PartField::Thought => part.thought = s.flag()?.unwrap_or(false),
            PartField::Inline | PartField::File => part.media = Some(s.skip()?),
            PartField::Call => part.call = Some(function(s)?.called()),
            PartField::Result => part.result = Some(function(s)?.came()),
        }
        Ok(())
    })?;
    let args = part.call.as_ref().and_then(|call| call.args);
    let response = part.result.as_ref().and_then(|result| result.said.content);
    part.text_bytes = [part.text, args, response].iter().flatten().map(|raw| raw.said).sum();
    Ok(part)
}

/// A call or what came of it.
#[derive(Default)]
struct Function<'a> {
    id: Cow<'a, str>,
    name: Cow<'a, str>,
    args: Option<Raw<'a>>,
    response: Option<Raw<'a>>,
    failed: bool,
    telling: Option<Raw<'a>>,
}

#[derive(Clone, Copy, PartialEq)]
enum FunctionField {
    Id,
    Name,
    Args,
    Response,
}

const FUNCTION: &Fields<FunctionField> = &[
    ("id", FunctionField::Id),
    ("name", FunctionField::Name),
    ("args", FunctionField::Args),
    ("response", FunctionField::Response),
];

#[derive(Clone, Copy, PartialEq)]
enum ResponseField {
    Output,
    Result,
    Error,
}

const RESPONSE: &Fields<ResponseField> =
    &[("output", ResponseField::Output), ("result", ResponseField::Result), ("error", ResponseField::Error)];

fn function<'a>(s: &mut Scanner<'a>) -> Result<Function<'a>, ParseError> {
    let mut function = Function::default();
    s.object(FUNCTION, |s, field| {
        match field {
            FunctionField::Id => function.id = s.text()?.unwrap_or_default(),
            FunctionField::Name => function.name = s.text()?.unwrap_or_default(),
            FunctionField::Args => function.args = Some(s.skip()?),
            FunctionField::Response if s.kind()? == Kind::Object => {
                let (failed, telling) = (&mut function.failed, &mut function.telling);
                function.response = Some(s.both(|s| response(s, failed, telling))?.0);
            }
            FunctionField::Response => function.response = Some(s.skip()?),
        }
        Ok(())
    })?;
    Ok(function)
}

fn response<'a>(
    s: &mut Scanner<'a>,
    failed: &mut bool,
    telling: &mut Option<Raw<'a>>,
) -> Result<(), ParseError> {
    s.object(RESPONSE, |s, field| {
        let value = s.skip()?;
        match field {
            ResponseField::Output | ResponseField::Result if value.kind() == Kind::String => {
                *telling = Some(value);
            }
            ResponseField::Output | ResponseField::Result => {}
            ResponseField::Error => *failed = value.kind() != Kind::Null,
        }
        Ok(())
    })
}

impl<'a> Function<'a> {
    fn called(self) -> AssistantCall<'a> {
        AssistantCall { id: self.id, tool: self.name, args: self.args }
    }

    fn came(self) -> CallOutput<'a> {
        let ended = self.failed.then_some(Ended::Failed);
        CallOutput { id: self.id, said: MessageContent::json(self.response), ended, telling: self.telling }
    }
}

/// A list, or one element without its brackets, as Google's own examples have it.
fn one_or_more<'a>(
    s: &mut Scanner<'a>,
    expected: &'static str,
    each: &mut dyn FnMut(&mut Scanner<'a>) -> Result<(), ParseError>,
) -> Result<(), ParseError> {
    if s.kind()? == Kind::Object { each(s) } else { s.list(expected, each) }
}

fn said(parts: Option<Raw<'_>>) -> MessageContent<'_> {
    MessageContent { write, ..MessageContent::parts(parts) }
}

fn write<'a>(raw: Raw<'a>, speaker: Speaker, out: &mut Joined<'a>) -> Result<(), ParseError> {
    one_or_more(&mut raw.scanner(), "a list of parts", &mut |s| {
        let (whole, part) = s.both(part)?;
        let assistant = speaker == Speaker::Assistant;
        match part {
            Part { call: Some(_), .. } | Part { result: Some(_), .. } => {}
            Part { thought: true, .. } if assistant => {}
            Part { text: Some(text), .. } => out.push(text.decoded()?),
            _ if assistant => {}
            Part { media: Some(bytes), .. } => media(label(bytes.text), bytes, out)?,
            _ => media("part", whole, out)?,
        }
        Ok(())
    })
}

fn label(blob: &str) -> &'static str {
    let head = blob.get(..200).unwrap_or(blob);
    if head.contains("image/") {
        "image"
    } else if head.contains("audio/") {
        "audio"
    } else {
        "file"
    }
}

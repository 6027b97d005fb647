//! OpenAI Responses. The history is a list of items, or is kept by the provider; then a result comes without its call.

use std::borrow::Cow;

use estop_core::ended::Ended;

use super::content::{MessageContent, scan_unseen};
use super::conversation::{AssistantCall, BoundedVec, CallOutput, Consecutive, Conversation, Orphans};
use super::limit::Limit;
use super::{RequestIn, missing};
use crate::json::{Fields, Kind, ParseError, Raw, Scanner};

#[derive(Clone, Copy, PartialEq)]
enum Field {
    Model,
    Stream,
    MaxOutputTokens,
    Instructions,
    Input,
    PreviousResponse,
    Kept,
    Tools,
    Background,
}

const REQUEST: &Fields<Field> = &[
    ("model", Field::Model),
    ("stream", Field::Stream),
    ("max_output_tokens", Field::MaxOutputTokens),
    ("instructions", Field::Instructions),
    ("input", Field::Input),
    ("previous_response_id", Field::PreviousResponse),
    ("conversation", Field::Kept),
    ("prompt", Field::Kept),
    ("tools", Field::Tools),
    ("background", Field::Background),
];

pub(super) fn read<'a>(s: &mut Scanner<'a>) -> Result<RequestIn<'a>, ParseError> {
    let mut request = RequestIn::default();
    let (mut conversation, mut limit, mut instructions) = (Conversation::default(), Limit::default(), None);
    s.object(REQUEST, |s, field| {
        match field {
            Field::Model => request.model = s.text()?,
            Field::Stream => request.stream = s.flag()?.unwrap_or(false),
            Field::MaxOutputTokens => limit.at_most(s.count()?),
            Field::Instructions => instructions = scan_unseen(s, &mut conversation.text_bytes)?,
            Field::Input => input(s, &mut conversation)?,
            Field::PreviousResponse => request.previous_response = s.text()?,
            Field::Kept => request.refers_to_more |= s.skip()?.kind() != Kind::Null,
            Field::Tools => conversation.text_bytes += s.skip()?.text.len(),
            Field::Background => request.background = s.flag()?.unwrap_or(false),
        }
        Ok(())
    })?;
    limit.record(&mut request);
    request.refers_to_more |= request.previous_response.is_some() || conversation.refers;
    conversation.finish(Orphans::Kept, &mut request)?;
    let instructions = MessageContent::parts(instructions).system()?;
    if !instructions.is_empty() {
        request.system = instructions;
    }
    Ok(request)
}

fn input<'a>(s: &mut Scanner<'a>, conversation: &mut Conversation<'a>) -> Result<(), ParseError> {
    match s.kind()? {
        Kind::String => {
            let raw = s.skip()?;
            conversation.text_bytes += raw.said;
            conversation.user(MessageContent::parts(Some(raw)), Consecutive::Together, raw.at)
        }
        Kind::Null => s.skip().map(drop),
        Kind::Array => s.list("a list of items", |s| item(s, conversation)),
        found @ (Kind::Bool | Kind::Number | Kind::Object) => Err(s.shape("text or a list of items", found)),
    }
}

#[derive(Clone, Copy, PartialEq)]
enum ItemField {
    Kind,
    Role,
    Content,
    CallId,
    Name,
    Arguments,
    Input,
    Action,
    Operation,
    Output,
    Error,
}

const ITEM: &Fields<ItemField> = &[
    ("type", ItemField::Kind),
    ("role", ItemField::Role),
    ("content", ItemField::Content),
    ("call_id", ItemField::CallId),
    ("name", ItemField::Name),
    ("arguments", ItemField::Arguments),
    ("input", ItemField::Input),
    ("action", ItemField::Action),
    ("operation", ItemField::Operation),
    ("output", ItemField::Output),
    ("error", ItemField::Error),
];

/// One item of the input, whatever its type.
#[derive(Default)]
struct Item<'a> {
    kind: Cow<'a, str>,
    role: Cow<'a, str>,
    content: Option<Raw<'a>>,
    call_id: Cow<'a, str>,
    name: Option<Cow<'a, str>>,
    args: Option<Raw<'a>>,
    output: Option<MessageContent<'a>>,
    failed: bool,
}

fn item<'a>(s: &mut Scanner<'a>, conversation: &mut Conversation<'a>) -> Result<(), ParseError> {
    let start = s.place();
    let mut item = Item::default();
    s.object(ITEM, |s, field| {
        match field {
            ItemField::Kind => item.kind = s.text()?.unwrap_or_default(),
            ItemField::Role => item.role = s.text()?.unwrap_or_default(),
            ItemField::Content => item.content = scan_unseen(s, &mut conversation.text_bytes)?,
            ItemField::CallId => item.call_id = s.text()?.unwrap_or_default(),
            ItemField::Name => item.name = s.text()?,
            ItemField::Arguments | ItemField::Input | ItemField::Action | ItemField::Operation => {
                let args = s.skip()?;
                conversation.text_bytes += args.said;
                item.args = item.args.or(Some(args).filter(|args| args.kind() != Kind::Null));
            }
            ItemField::Output => item.output = output(s, &mut conversation.text_bytes)?,
            ItemField::Error => item.failed = s.skip()?.kind() != Kind::Null,
        }
        Ok(())
    })?;
    let a_message = item.kind == "message" || item.kind.is_empty() && !item.role.is_empty();
    if a_message && item.role.is_empty() {
        return Err(missing(start, "role"));
    }
    if a_message { said(&item, conversation, start) } else { done(item, conversation, start) }
}

/// A result: text or parts, or an object as the shell tools have it.
fn output<'a>(s: &mut Scanner<'a>, text_bytes: &mut usize) -> Result<Option<MessageContent<'a>>, ParseError> {
    if s.kind()? == Kind::Object {
        let raw = s.skip()?;
        *text_bytes += raw.said;
        return Ok(Some(MessageContent::json(Some(raw))));
    }
    Ok(scan_unseen(s, text_bytes)?.map(|raw| MessageContent::parts(Some(raw))))
}

fn said<'a>(item: &Item<'a>, conversation: &mut Conversation<'a>, at: usize) -> Result<(), ParseError> {
    let said = MessageContent::parts(item.content);
    match item.role.as_ref() {
        "system" | "developer" => conversation.system(said),
        "user" => conversation.user(said, Consecutive::Together, at)?,
        "assistant" => {
            conversation.assistant(Consecutive::Together);
            conversation.says(said, at)?;
        }
        // A role we do not know is neither a person's words nor the agent's.
        _ => {}
    }
    Ok(())
}

/// A call, a result, a thought, or a type nobody knows, which rides along.
fn done<'a>(item: Item<'a>, conversation: &mut Conversation<'a>, at: usize) -> Result<(), ParseError> {
    let Item { kind, call_id, name, args, output, failed, .. } = item;
    if kind.ends_with("_call_output") {
        let said = output.unwrap_or(MessageContent::parts(None));
        return conversation.push_result(CallOutput { id: call_id, said, ended: None, telling: None }, at);
    }
    let Some(tool) = kind.strip_suffix("_call") else {
        // A reference may leave out its type.
        conversation.refers |= kind.is_empty() || kind == "item_reference";
        // References are to items the provider wrote; between two results they part two turns.
        if kind == "reasoning" || kind == "item_reference" || kind == "mcp_approval_request" {
            conversation.assistant(Consecutive::Together);
        }
        return Ok(());
    };
    conversation.assistant(Consecutive::Together);
    // What the provider runs by itself has no call id; only some of it shows what came out (MCP).
    let at_once = output.is_some() || failed;
    if call_id.is_empty() && !at_once {
        return Ok(());
    }
    let tool = name.unwrap_or_else(|| Cow::Owned(tool.to_owned()));
    conversation.call(AssistantCall { id: call_id.clone(), tool, args }, at)?;
    if at_once {
        let ended = failed.then_some(Ended::Failed);
        let said = output.unwrap_or(MessageContent::parts(None));
        let mut results = BoundedVec::results();
        results.push(CallOutput { id: call_id, said, ended, telling: None }, at)?;
        conversation.push_server_results(results, at)?;
    }
    Ok(())
}

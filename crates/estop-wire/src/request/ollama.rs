//! Ollama's own API: chat, and generate. Streams unless told not to; without messages or a prompt it only loads the
//! model.

use super::RequestIn;
use super::content::MessageContent;
use super::conversation::{Consecutive, Conversation, Orphans};
use super::limit::Limit;
use super::openai_chat::message;
use crate::json::{Fields, Kind, ParseError, Scanner};

#[derive(Clone, Copy, PartialEq)]
enum Field {
    Model,
    Stream,
    Options,
    Messages,
    Tools,
    System,
    Prompt,
    Suffix,
    Images,
}

const CHAT: &Fields<Field> = &[
    ("model", Field::Model),
    ("stream", Field::Stream),
    ("options", Field::Options),
    ("messages", Field::Messages),
    ("tools", Field::Tools),
];

const GENERATE: &Fields<Field> = &[
    ("model", Field::Model),
    ("stream", Field::Stream),
    ("options", Field::Options),
    ("system", Field::System),
    ("prompt", Field::Prompt),
    ("suffix", Field::Suffix),
    ("images", Field::Images),
];

pub(super) fn read_chat<'a>(s: &mut Scanner<'a>) -> Result<RequestIn<'a>, ParseError> {
    read(s, CHAT)
}

pub(super) fn read_generate<'a>(s: &mut Scanner<'a>) -> Result<RequestIn<'a>, ParseError> {
    read(s, GENERATE)
}

fn read<'a>(s: &mut Scanner<'a>, fields: &Fields<Field>) -> Result<RequestIn<'a>, ParseError> {
    let start = s.place();
    let mut request = RequestIn { stream: true, ..RequestIn::default() };
    let (mut conversation, mut limit) = (Conversation::default(), Limit::default());
    let (mut system, mut prompt, mut suffix, mut images) = (None, None, None, None);
    s.object(fields, |s, field| {
        match field {
            Field::Model => request.model = s.text()?,
            Field::Stream => request.stream = s.flag()?.unwrap_or(true),
            Field::Options | Field::Messages if s.kind()? == Kind::Null => drop(s.skip()?),
            Field::Options => options(s, &mut limit)?,
            Field::Messages => s.list("a list of messages", |s| message(s, &mut conversation))?,
            Field::Tools => conversation.text_bytes += s.skip()?.text.len(),
            Field::System => system = s.undecoded()?,
            Field::Prompt => prompt = s.undecoded()?,
            Field::Suffix => suffix = s.undecoded()?,
            Field::Images => images = Some(s.skip()?),
        }
        Ok(())
    })?;
    conversation.text_bytes += [system, prompt, suffix].iter().flatten().map(|raw| raw.said).sum::<usize>();
    if system.is_some() {
        conversation.system(MessageContent::parts(system));
    }
    if prompt.is_some() || images.is_some() {
        conversation.user(
            MessageContent { images, ..MessageContent::parts(prompt) },
            Consecutive::Apart,
            start,
        )?;
    }
    limit.record(&mut request);
    conversation.finish(Orphans::Dropped, &mut request)?;
    Ok(request)
}

#[derive(Clone, Copy, PartialEq)]
struct NumPredict;

fn options(s: &mut Scanner<'_>, limit: &mut Limit) -> Result<(), ParseError> {
    s.object(&[("num_predict", NumPredict)], |s, NumPredict| {
        limit.at_most(s.count()?);
        Ok(())
    })
}

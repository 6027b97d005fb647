//! What a message holds, in the shapes of OpenAI, Anthropic and Ollama: a text, or a list of parts with a `type`.
//!
//! Texts of several parts are joined by line breaks. Images, sound and files count by a hash of their bytes, as
//! `<image:ghijklmnopabcdef>`; so does a part of a type nobody knows, because it may be what changed.

use std::borrow::Cow;

use estop_core::fingerprint::signature;
use estop_core::ids::Hash64;
use estop_core::{hex, steps};

use crate::json::{Fields, Kind, ParseError, Raw, Scanner};

/// Something that was said, not decoded yet.
#[derive(Clone, Copy)]
pub(super) struct MessageContent<'a> {
    pub(super) content: Option<Raw<'a>>,
    /// Images beside the content (Ollama).
    pub(super) images: Option<Raw<'a>>,
    /// How the protocol's content becomes text.
    pub(super) write: Write,
}

/// Appends what a content says in this voice.
pub(super) type Write = for<'a> fn(Raw<'a>, Speaker, &mut Joined<'a>) -> Result<(), ParseError>;

/// Whose words they are: what else a content may hold counts differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Speaker {
    /// The system prompt, without what clients put into it for billing.
    System,
    /// A person's words or a tool's result: all that is not text counts by its hash.
    Input,
    /// The assistant's text alone: no thoughts, no calls.
    Assistant,
}

impl<'a> MessageContent<'a> {
    /// A content in the shape of OpenAI, Anthropic and Ollama.
    pub(super) fn parts(content: Option<Raw<'a>>) -> MessageContent<'a> {
        MessageContent { content, images: None, write }
    }

    /// JSON that counts as it is written.
    pub(super) fn json(content: Option<Raw<'a>>) -> MessageContent<'a> {
        fn write<'a>(raw: Raw<'a>, _: Speaker, out: &mut Joined<'a>) -> Result<(), ParseError> {
            out.push(Cow::Borrowed(raw.text));
            Ok(())
        }
        MessageContent { content, images: None, write }
    }

    pub(super) fn input(&self) -> Result<Cow<'a, str>, ParseError> {
        text([self], Speaker::Input)
    }

    pub(super) fn system(&self) -> Result<Cow<'a, str>, ParseError> {
        text([self], Speaker::System)
    }

    /// Where it stands in the document; no two are at the same place.
    pub(super) fn place(&self) -> Option<usize> {
        self.content.or(self.images).map(|raw| raw.at)
    }

    fn append(&self, speaker: Speaker, out: &mut Joined<'a>) -> Result<(), ParseError> {
        if let Some(content) = self.content {
            (self.write)(content, speaker, out)?;
        }
        match self.images {
            Some(images) if images.kind() == Kind::Array => {
                images.scanner().list("a list of images", |s| media("image", s.skip()?, out))
            }
            Some(_) | None => Ok(()),
        }
    }
}

/// What several contents say in one voice.
pub(super) fn text<'s, 'a: 's>(
    said: impl IntoIterator<Item = &'s MessageContent<'a>>,
    speaker: Speaker,
) -> Result<Cow<'a, str>, ParseError> {
    let mut out = Joined::default();
    for said in said {
        said.append(speaker, &mut out)?;
    }
    Ok(out.into_text())
}

/// How many hashes of images, files and unknown parts a text has. Those that follow become one hash of all of them, behind
/// the text: a part of three bytes would add 24 (SE-1). Providers take at most some hundred images.
const HASHES_MAX: usize = 4_096;

/// Texts, joined by line breaks; borrowed as long as there is only one.
#[derive(Default)]
pub(super) struct Joined<'a> {
    text: Cow<'a, str>,
    hashes: usize,
    /// Of all parts beyond [`HASHES_MAX`].
    others: Option<Hash64>,
}

impl<'a> Joined<'a> {
    pub(super) fn into_text(mut self) -> Cow<'a, str> {
        if let Some(others) = self.others {
            self.append_hash("parts", others);
        }
        self.text
    }

    pub(super) fn push(&mut self, text: Cow<'a, str>) {
        if self.text.is_empty() {
            self.text = text;
        } else if !text.is_empty() {
            let all = self.text.to_mut();
            steps::add(text.len());
            all.push('\n');
            all.push_str(&text);
        }
    }

    fn push_hash(&mut self, label: &str, hash: Hash64) {
        if self.hashes < HASHES_MAX {
            self.hashes += 1;
            self.append_hash(label, hash);
            return;
        }
        let before = self.others.map_or(0, |hash| hash.0);
        self.others = Some(signature::text(&format!("{before:x} {label} {:x}", hash.0)));
    }

    fn append_hash(&mut self, label: &str, hash: Hash64) {
        // In letters alone, so that another image is another word and no id that is passed over.
        let digits = hex::encode64(hash.0)
            .map(|digit| if digit.is_ascii_digit() { digit - b'0' + b'g' } else { digit });
        let parts = ["<", label, ":", std::str::from_utf8(&digits).unwrap_or_default(), ">"];
        let all = self.text.to_mut();
        if !all.is_empty() {
            all.push('\n');
        }
        parts.iter().for_each(|part| all.push_str(part));
    }
}

/// One part of a content.
pub(super) struct Part<'a> {
    raw: Raw<'a>,
    kind: Cow<'a, str>,
    pub(super) id: Option<Raw<'a>>,
    pub(super) name: Option<Raw<'a>>,
    /// Arguments of a call.
    pub(super) input: Option<Raw<'a>>,
    pub(super) tool_use_id: Option<Raw<'a>>,
    pub(super) content: Option<Raw<'a>>,
    pub(super) is_error: Option<bool>,
    text: Option<Raw<'a>>,
    refusal: Option<Raw<'a>>,
    media: Option<Raw<'a>>,
}

#[derive(Clone, Copy, PartialEq)]
enum Field {
    Kind,
    Text,
    ErrorDetails,
    Id,
    Name,
    Input,
    ToolUseId,
    Content,
    IsError,
    /// Where the bytes of an image, a sound or a file are; each its own key.
    Media(u8),
}

const PART: &Fields<Field> = &[
    ("type", Field::Kind),
    ("text", Field::Text),
    ("refusal", Field::ErrorDetails),
    ("id", Field::Id),
    ("name", Field::Name),
    ("input", Field::Input),
    ("tool_use_id", Field::ToolUseId),
    ("content", Field::Content),
    ("is_error", Field::IsError),
    ("source", Field::Media(0)),
    ("image_url", Field::Media(1)),
    ("input_audio", Field::Media(2)),
    ("file", Field::Media(3)),
    ("file_data", Field::Media(4)),
    ("file_id", Field::Media(5)),
    ("file_url", Field::Media(6)),
    ("video_url", Field::Media(7)),
    ("document_url", Field::Media(8)),
];

/// What goes through the parts of a content.
pub(super) type Look<'l, 'a> = &'l mut dyn FnMut(Part<'a>) -> Result<(), ParseError>;

/// Goes through a content, shows its parts to `look` and counts the bytes of its text; `None` for null.
pub(super) fn scan<'a>(
    s: &mut Scanner<'a>,
    text_bytes: &mut usize,
    look: Look<'_, 'a>,
) -> Result<Option<Raw<'a>>, ParseError> {
    match s.kind()? {
        Kind::String => {
            let raw = s.skip()?;
            *text_bytes += raw.said;
            Ok(Some(raw))
        }
        Kind::Null => s.skip().map(|_| None),
        Kind::Array => {
            let parts = |s: &mut Scanner<'a>| s.list("a list of parts", |s| look(part(s, text_bytes)?));
            Ok(Some(s.both(parts)?.0))
        }
        found @ (Kind::Bool | Kind::Number | Kind::Object) => Err(s.shape("text or a list of parts", found)),
    }
}

/// As [`scan`], where nobody looks at the parts.
pub(super) fn scan_unseen<'a>(
    s: &mut Scanner<'a>,
    text_bytes: &mut usize,
) -> Result<Option<Raw<'a>>, ParseError> {
    scan(s, text_bytes, &mut |_| Ok(()))
}

fn part<'a>(s: &mut Scanner<'a>, text_bytes: &mut usize) -> Result<Part<'a>, ParseError> {
    let mut kind = Cow::Borrowed("");
    let (mut text, mut refusal, mut media) = (None, None, None);
    let (mut id, mut name, mut input, mut tool_use_id) = (None, None, None, None);
    let (mut content, mut is_error) = (None, None);
    let look = |s: &mut Scanner<'a>| {
        s.object(PART, |s, field| {
            match field {
                Field::Kind => kind = s.text()?.unwrap_or_default(),
                Field::Text => text = s.undecoded()?,
                Field::ErrorDetails => refusal = s.undecoded()?,
                Field::Id => id = s.undecoded()?,
                Field::Name => name = s.undecoded()?,
                Field::Input => input = Some(s.skip()?),
                Field::ToolUseId => tool_use_id = s.undecoded()?,
                // An object is what some of a provider's own tools give.
                Field::Content if s.kind()? == Kind::Object => content = Some(s.skip()?),
                Field::Content => content = scan_unseen(s, text_bytes)?,
                Field::IsError => is_error = s.flag()?,
                Field::Media(_) => media = Some(s.skip()?).or(media),
            }
            Ok(())
        })
    };
    let raw = s.both(look)?.0;
    let mut count = |raw: Option<Raw<'a>>| *text_bytes += raw.map_or(0, |raw| raw.said);
    count(text);
    count(refusal);
    count(input);
    Ok(Part { raw, kind, text, refusal, media, id, name, input, tool_use_id, content, is_error })
}

impl Part<'_> {
    /// Where it stands in the document.
    pub(super) fn at(&self) -> usize {
        self.raw.at
    }

    /// A call of a tool, the client's or the provider's own (Anthropic).
    pub(super) fn is_call(&self) -> bool {
        self.kind == "tool_use" || self.kind.ends_with("_tool_use")
    }

    /// What came of one (Anthropic).
    pub(super) fn is_result(&self) -> bool {
        self.kind == "tool_result" || self.kind.ends_with("_tool_result")
    }
}

/// Contents inside one another whose text is read: a result holds a document, which holds parts. What is deeper counts by
/// its hash. Each level is read once more for those inside it, so this also bounds the work (SE-1).
const CONTENTS_MAX: usize = 4;

/// Appends what a content says.
fn write<'a>(raw: Raw<'a>, speaker: Speaker, out: &mut Joined<'a>) -> Result<(), ParseError> {
    write_inside(raw, speaker, 1, out)
}

fn write_inside<'a>(
    raw: Raw<'a>,
    speaker: Speaker,
    level: usize,
    out: &mut Joined<'a>,
) -> Result<(), ParseError> {
    match raw.kind() {
        Kind::String => push_text(raw, speaker, out),
        Kind::Array if level > CONTENTS_MAX => media("part", raw, out),
        Kind::Array => {
            raw.scanner().list("a list of parts", |s| write_part(&part(s, &mut 0)?, speaker, level, out))
        }
        Kind::Null => Ok(()),
        Kind::Bool | Kind::Number | Kind::Object => {
            out.push(Cow::Borrowed(raw.text));
            Ok(())
        }
    }
}

fn write_part<'a>(
    part: &Part<'a>,
    speaker: Speaker,
    level: usize,
    out: &mut Joined<'a>,
) -> Result<(), ParseError> {
    if part.is_call() || part.is_result() {
        return Ok(());
    }
    let known = part.text.or(part.refusal).or(part.media).or(part.content).is_some();
    if speaker == Speaker::Assistant {
        let thought = part.kind.contains("thinking") || part.kind.contains("reasoning");
        let said = part.text.or(part.refusal).filter(|_| !thought);
        return said.map_or(Ok(()), |said| push_text(said, speaker, out));
    }
    for said in [part.text, part.refusal].into_iter().flatten() {
        push_text(said, speaker, out)?;
    }
    if let Some(bytes) = part.media {
        media(label(&part.kind), bytes, out)?;
    }
    if let Some(content) = part.content {
        write_inside(content, speaker, level + 1, out)?;
    }
    if !known {
        media("part", part.raw, out)?;
    }
    Ok(())
}

fn push_text<'a>(raw: Raw<'a>, speaker: Speaker, out: &mut Joined<'a>) -> Result<(), ParseError> {
    let text = raw.decoded()?;
    out.push(if speaker == Speaker::System { without_billing(text) } else { text });
    Ok(())
}

/// Claude Code begins its system prompt with a line that differs in each request. With it, each request would be a
/// conversation of its own, and no loop would be seen.
fn without_billing(text: Cow<'_, str>) -> Cow<'_, str> {
    if !text.starts_with("x-anthropic-billing-header:") {
        return text;
    }
    let rest = text.split_once('\n').map_or("", |(_, rest)| rest);
    Cow::Owned(rest.to_owned())
}

fn label(kind: &str) -> &'static str {
    if kind.contains("image") {
        "image"
    } else if kind.contains("audio") {
        "audio"
    } else {
        "file"
    }
}

#[derive(Clone, Copy, PartialEq)]
struct Payload(u8);

/// Where the bytes of an image or a file stand, or the name of where they are.
const PAYLOAD: &Fields<Payload> = &[
    ("data", Payload(0)),
    ("url", Payload(1)),
    ("file_data", Payload(2)),
    ("file_id", Payload(3)),
    ("fileUri", Payload(4)),
    ("file_uri", Payload(4)),
];

/// Appends the hash of an image, a sound or a file: of its bytes alone, because what stands beside them may change.
pub(super) fn media<'a>(label: &str, raw: Raw<'a>, out: &mut Joined<'a>) -> Result<(), ParseError> {
    let mut payload = None;
    match raw.kind() {
        Kind::Object => raw.scanner().object(PAYLOAD, |s, _| {
            let value = s.skip()?;
            payload = payload.or(Some(value).filter(|value| value.kind() == Kind::String));
            Ok(())
        })?,
        Kind::String => payload = Some(raw),
        Kind::Null => return Ok(()),
        Kind::Bool | Kind::Number | Kind::Array => {}
    }
    let hash = match payload {
        Some(payload) => signature::text(&payload.decoded()?),
        None => signature::text(raw.text),
    };
    out.push_hash(label, hash);
    Ok(())
}

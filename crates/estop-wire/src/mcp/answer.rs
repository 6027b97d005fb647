//! What came of a call, as far as the core is told of it.

use crate::json::{Fault, Kind, Raw, Scanner, scan};

/// How a call ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answered {
    /// The server says that it failed.
    pub failed: bool,
    /// What it says: the texts of its content, and everything else as JSON.
    pub text: String,
}

/// More of a result is not told. Two results that differ only later are taken for the same.
const RESULT_BYTES_MAX: usize = 1 << 20;

/// Reads the `result` or the `error` of an answer to a call. No tree of it is built, and at most `RESULT_BYTES_MAX` of
/// its text is kept.
pub fn answered(result: Option<&str>, error: Option<&str>) -> Answered {
    if let Some(error) = error {
        let message = scan(error, message).ok().flatten();
        return Answered { failed: true, text: message.unwrap_or_else(|| head(error).to_owned()) };
    }
    let json = result.unwrap_or_default();
    match scan(json, content) {
        Ok((failed, Some(text))) => Answered { failed, text },
        Ok((failed, None)) => Answered { failed, text: head(json).to_owned() },
        Err(_) => Answered { failed: false, text: head(json).to_owned() },
    }
}

/// The `message` of an error.
fn message(s: &mut Scanner<'_>) -> Result<Option<String>, Fault> {
    let mut message = None;
    s.loose_object(&[("message", ())], |s, ()| {
        let raw = s.skip()?;
        message = text(&raw)?;
        Ok(())
    })?;
    Ok(message)
}

#[derive(Clone, Copy, PartialEq)]
enum Field {
    IsError,
    Content,
}

/// Whether it failed, and its content as text, if it has some.
fn content(s: &mut Scanner<'_>) -> Result<(bool, Option<String>), Fault> {
    let (mut failed, mut said) = (false, None);
    s.loose_object(&[("isError", Field::IsError), ("content", Field::Content)], |s, field| {
        match field {
            Field::IsError => failed = s.skip()?.text == "true",
            Field::Content if s.kind()? == Kind::Array => said = parts(s)?,
            Field::Content => drop(s.skip()?),
        }
        Ok(())
    })?;
    Ok((failed, said))
}

/// The texts of all parts, and those without one as JSON, joined by line breaks; `None` if there are no parts.
fn parts(s: &mut Scanner<'_>) -> Result<Option<String>, Fault> {
    let mut said: Option<String> = None;
    s.list("a list of parts", |s| {
        let part = s.skip()?;
        let has_room = said.as_ref().is_none_or(|said| said.len() < RESULT_BYTES_MAX);
        if !has_room {
            return Ok(());
        }
        let mut of_part = None;
        if part.kind() == Kind::Object {
            part.scanner().loose_object(&[("text", ())], |s, ()| {
                let raw = s.skip()?;
                of_part = text(&raw)?;
                Ok(())
            })?;
        }
        let is_first = said.is_none();
        let all = said.get_or_insert_default();
        if !is_first {
            all.push('\n');
        }
        let of_part = of_part.as_deref().unwrap_or(part.text);
        all.push_str(
            &of_part[..of_part.floor_char_boundary(RESULT_BYTES_MAX - all.len().min(RESULT_BYTES_MAX))],
        );
        Ok(())
    })?;
    Ok(said)
}

/// The text of a value, if it is one.
fn text(raw: &Raw<'_>) -> Result<Option<String>, Fault> {
    if raw.kind() != Kind::String {
        return Ok(None);
    }
    raw.decoded().map(|text| Some(head(&text).to_owned()))
}

/// The first bytes of a text, up to a whole character.
fn head(text: &str) -> &str {
    &text[..text.floor_char_boundary(RESULT_BYTES_MAX)]
}

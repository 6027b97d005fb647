//! What came of a call, as far as the core is told of it.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::response::field::{Maybe, each_element};

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
        return Answered { failed: true, text: message(error).unwrap_or_else(|| head(error).to_owned()) };
    }
    let json = result.unwrap_or_default();
    let (failed, text) = content(json).unwrap_or_default();
    Answered { failed, text: text.unwrap_or_else(|| head(json).to_owned()) }
}

#[derive(Deserialize)]
struct CallError {
    message: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CallResult<'a> {
    #[serde(borrow)]
    is_error: Option<&'a RawValue>,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Part<'a> {
    #[serde(borrow)]
    text: Option<&'a RawValue>,
}

/// An object, or `None` if it is something else. A key that matters and comes twice is an error.
fn object<'a, T: Deserialize<'a>>(json: &'a str) -> serde_json::Result<Option<T>> {
    estop_core::steps::add(json.len());
    serde_json::from_str(json).map(|Maybe(object)| object)
}

/// The `message` of an error.
fn message(json: &str) -> Option<String> {
    let error: CallError = object(json).ok()??;
    error.message.map(|message| head(&message).to_owned())
}

/// Whether it failed, and its content as text, if it has some.
fn content(json: &str) -> serde_json::Result<(bool, Option<String>)> {
    let Some(result) = object::<CallResult<'_>>(json)? else { return Ok((false, None)) };
    let failed = result.is_error.is_some_and(|is_error| is_error.get() == "true");
    let text = match result.content.map(RawValue::get) {
        Some(list) if list.starts_with('[') => parts(list)?,
        Some(_) | None => None,
    };
    Ok((failed, text))
}

/// The texts of all parts, and those without one as JSON, joined by line breaks; `None` if there are no parts.
fn parts(list: &str) -> serde_json::Result<Option<String>> {
    let mut said: Option<String> = None;
    let mut readable = Ok(());
    each_element(list, |part: &RawValue| {
        let has_room = said.as_ref().is_none_or(|said| said.len() < RESULT_BYTES_MAX);
        if !has_room || readable.is_err() {
            return;
        }
        match part_text(part.get()) {
            Ok(text) => {
                if let Some(said) = &mut said {
                    said.push('\n');
                }
                let said = said.get_or_insert_default();
                let room = RESULT_BYTES_MAX - said.len().min(RESULT_BYTES_MAX);
                said.push_str(&text[..text.floor_char_boundary(room)]);
            }
            Err(error) => readable = Err(error),
        }
    })?;
    readable.map(|()| said)
}

/// The text of a part, or the part as JSON if it has none.
fn part_text(part: &str) -> serde_json::Result<Cow<'_, str>> {
    let text = object::<Part<'_>>(part)?.and_then(|part| part.text).map(RawValue::get);
    match text {
        Some(text) if text.starts_with('"') => serde_json::from_str::<String>(text).map(Cow::Owned),
        Some(_) | None => Ok(Cow::Borrowed(part)),
    }
}

/// The first bytes of a text, up to a whole character.
fn head(text: &str) -> &str {
    &text[..text.floor_char_boundary(RESULT_BYTES_MAX)]
}

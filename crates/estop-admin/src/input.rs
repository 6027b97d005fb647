//! What callers send, read strictly: bounded, typed, unknown keys refused, and every refusal says which field.

use std::time::Duration;

use axum::body::Body;
use axum::extract::path::ErrorKind;
use axum::extract::rejection::PathRejection;
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use estop_core::operator::Operator;
use http::header::{CONTENT_TYPE, IF_MATCH};
use http::request::Parts;
use http::{HeaderMap, HeaderValue};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer};
use serde_json::{Number, Value};
use utoipa::IntoParams;

use crate::problem::{FieldError, Kind, Problem};
use crate::state::App;

/// A body may be this large. The largest real one, a policy, has a few kilobytes.
pub(crate) const BODY_MAX: usize = 1024 * 1024;
/// And take so long: a caller that stalls does not keep its place.
pub(crate) const BODY_TIMEOUT: Duration = Duration::from_secs(10);
/// A kill waits no longer for what it says: then it stops everything.
pub(crate) const KILL_BODY_TIMEOUT: Duration = Duration::from_millis(500);
/// Entries of one page.
pub(crate) const PAGE_MAX: usize = 500;
const PAGE: usize = 100;

/// A JSON body.
pub(crate) struct JsonIn<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for JsonIn<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<Self, Problem> {
        let is_json = is_json(request.headers());
        let bytes = read(request.into_body(), BODY_MAX, BODY_TIMEOUT).await?;
        if !is_json {
            return Err(Problem::new(Kind::NotJson, "Send the body with `content-type: application/json`."));
        }
        parse(&bytes).map(JsonIn)
    }
}

/// A JSON body that may be left out.
pub(crate) struct JsonOrNothing<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned + Default> FromRequest<S> for JsonOrNothing<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<Self, Problem> {
        let bytes = read(request.into_body(), BODY_MAX, BODY_TIMEOUT).await?;
        let given = if bytes.is_empty() { None } else { parse::<Option<T>>(&bytes)? };
        Ok(JsonOrNothing(given.unwrap_or_default()))
    }
}

/// A kill's body, which may be anything: what can be read of it at once counts, the rest stands in nobody's way.
pub(crate) struct JsonIfReadable<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned + Default> FromRequest<S> for JsonIfReadable<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<Self, Problem> {
        let bytes = read(request.into_body(), BODY_MAX, KILL_BODY_TIMEOUT).await.unwrap_or_default();
        Ok(JsonIfReadable(serde_json::from_slice(&bytes).unwrap_or_default()))
    }
}

/// The whole body, if it has at most `max` bytes and is there in time.
pub(crate) async fn read(body: Body, max: usize, within: Duration) -> Result<bytes::Bytes, Problem> {
    match tokio::time::timeout(within, Limited::new(body, max).collect()).await {
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            let detail = format!("This body may have at most {} KiB: send less.", max >> 10);
            Err(Problem::new(Kind::TooLarge, detail))
        }
        Ok(Err(_)) => Err(Problem::new(Kind::BadRequest, "The body ended early: send it again.")),
        Err(_) => {
            let detail =
                format!("The body did not arrive in time ({within:?}): nothing was done. Send it again.");
            Err(Problem::new(Kind::BadRequest, detail))
        }
    }
}

/// Whether the body is said to be JSON.
pub(crate) fn is_json(headers: &HeaderMap) -> bool {
    let essence = |value: &HeaderValue| {
        let text = value.to_str().unwrap_or_default().split(';').next().unwrap_or_default().trim();
        text.to_ascii_lowercase()
    };
    let essence = headers.get(CONTENT_TYPE).map(essence).unwrap_or_default();
    essence == "application/json" || (essence.starts_with("application/") && essence.ends_with("+json"))
}

/// Reads JSON; a value that does not fit is named.
pub(crate) fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    // serde would read a list as the values of an object, in order.
    if bytes.trim_ascii_start().first() == Some(&b'[') {
        return Err(Problem::field("", "must be an object"));
    }
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let value = serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let path = error.path().to_string();
        wrong(&path, error.inner())
    })?;
    json.end().map_err(|error| wrong("", &error))?;
    Ok(value)
}

/// The same for JSON that was read before.
pub(crate) fn parse_value<T: DeserializeOwned>(value: &Value) -> Result<T, Problem> {
    serde_path_to_error::deserialize(value).map_err(|error| {
        let path = error.path().to_string();
        misread(path.trim_start_matches('.'), &error.inner().to_string())
    })
}

fn wrong(path: &str, error: &serde_json::Error) -> Problem {
    if error.classify() != serde_json::error::Category::Data {
        return Problem::new(Kind::BadRequest, format!("The body is not JSON: {error}."));
    }
    let text = error.to_string();
    let message = text.rsplit_once(" at line ").map_or(text.as_str(), |(message, _)| message);
    misread(if path == "." { "" } else { path }, message)
}

/// What serde says repeats what was sent; a token or key that was sent in the wrong place is left out (ID-3).
fn misread(field: &str, message: &str) -> Problem {
    Problem::field(without_secrets(field), without_secrets(message))
}

/// Names of fields have no digits and words of people are shorter; keys have both digits and length.
fn without_secrets(text: &str) -> String {
    const WORD_MAX: usize = 20;
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '+' | '/' | '=');
    let is_secret = |word: &str| word.len() > WORD_MAX && word.contains(|c: char| c.is_ascii_digit());
    let pieces = text.split_inclusive(|c| !is_part(c)).map(|piece| {
        let word = piece.trim_end_matches(|c| !is_part(c));
        if is_secret(word) { format!("…{}", &piece[word.len()..]) } else { piece.to_owned() }
    });
    pieces.collect()
}

/// Values of the query.
pub(crate) struct QueryIn<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for QueryIn<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let read = Query::<T>::try_from_uri(&parts.uri);
        read.map(|Query(value)| QueryIn(value)).map_err(|error| {
            let text = error.body_text();
            let message = text.strip_prefix("Failed to deserialize query string: ").unwrap_or(&text);
            let (field, message) = message.split_once(": ").unwrap_or(("", message));
            misread(field, if is_about_digits(message) { "must be a whole number" } else { message })
        })
    }
}

/// What the standard library says of text that is no number.
fn is_about_digits(message: &str) -> bool {
    ["invalid digit", "parse integer from", "number too large", "number too small"]
        .iter()
        .any(|start| message.contains(start))
}

/// What a path names.
pub(crate) trait InPath: DeserializeOwned + Send {
    /// Names that differ in case alone are one agent's: puts the spelling that is kept in place of the given one.
    fn make_canonical(&mut self, operator: &dyn Operator) {
        _ = operator;
    }
}

/// Values of the path. What cannot be read names nothing.
pub(crate) struct PathIn<T>(pub(crate) T);

impl<T: InPath> FromRequestParts<App> for PathIn<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        let mut value = match Path::<T>::from_request_parts(parts, app).await {
            Ok(Path(value)) => value,
            Err(PathRejection::FailedToDeserializePathParams(error)) => return Err(not_there(error.kind())),
            Err(_) => return Err(names_nothing()),
        };
        value.make_canonical(&*app.operator);
        Ok(PathIn(value))
    }
}

fn names_nothing() -> Problem {
    Problem::new(Kind::NotFound, "The path names nothing that is here.")
}

/// Which part of the path names nothing.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "the others are mistakes of ours, and of a foreign crate's list"
)]
fn not_there(kind: &ErrorKind) -> Problem {
    let (field, message) = match kind {
        ErrorKind::ParseErrorAtKey { key, .. } => (key, "must be a whole number"),
        ErrorKind::InvalidUtf8InPathParam { key } => (key, "must be UTF-8"),
        ErrorKind::DeserializeError { key, .. } => (key, "names nothing"),
        _ => return names_nothing(),
    };
    names_nothing().about(field, message)
}

/// `If-Match`: which version the caller saw.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum IfMatch {
    Missing,
    Any,
    OneOf(Vec<String>),
}

impl<S: Send + Sync> FromRequestParts<S> for IfMatch {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let values: Vec<&str> =
            parts.headers.get_all(IF_MATCH).iter().map(|value| value.to_str().unwrap_or_default()).collect();
        // An empty list names no version, so it matches none.
        let tags = values.iter().flat_map(|value| value.split(',')).map(str::trim);
        let tags: Vec<String> = tags.filter(|tag| !tag.is_empty()).map(str::to_owned).collect();
        match values.as_slice() {
            [] => Ok(IfMatch::Missing),
            ["*"] => Ok(IfMatch::Any),
            [..] if tags.iter().all(|tag| is_tag(tag)) => Ok(IfMatch::OneOf(tags)),
            [..] => Err(Problem::field("if-match", "must be an ETag in its quotes, or `*`")),
        }
    }
}

fn is_tag(text: &str) -> bool {
    let quoted = text.strip_prefix("W/").unwrap_or(text);
    let inner = quoted.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    inner.is_some_and(|inner| inner.bytes().all(|b| b.is_ascii_graphic() && b != b'"'))
}

/// `If-Match` where it may be left out, for the document.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
#[expect(dead_code, reason = "it is read by `IfMatch`")]
pub(crate) struct IfMatchGiven {
    /// The ETag that was read: the change is refused if somebody was faster.
    #[param(rename = "if-match", value_type = String, required = false, pattern = "^([*]|\"[0-9]{1,20}\")$")]
    if_match: Option<String>,
}

/// `If-Match` where it may not be left out, for the document.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
#[expect(dead_code, reason = "it is read by `IfMatch`")]
pub(crate) struct IfMatchNeeded {
    /// The ETag that was read, or `*`. Without it the answer is 428.
    #[param(rename = "if-match", pattern = "^([*]|\"[0-9]{1,20}\")$")]
    if_match: String,
}

impl IfMatch {
    /// Whether the caller saw this version, or did not care.
    pub(crate) fn check(&self, version: u64) -> Result<(), Problem> {
        let IfMatch::OneOf(tags) = self else { return Ok(()) };
        let current = etag(version);
        if tags.contains(&current) {
            return Ok(());
        }
        let detail = format!("Its ETag is {current}: read it again and repeat your change.");
        Err(Problem::new(Kind::ChangedInBetween, detail))
    }

    /// The same where a blind change would be dangerous.
    pub(crate) fn require(&self, version: u64) -> Result<(), Problem> {
        if *self == IfMatch::Missing {
            let detail = "Read it first and send its ETag as If-Match, so that no change of others is lost.";
            return Err(Problem::new(Kind::IfMatchMissing, detail));
        }
        self.check(version)
    }
}

/// The tag of a version.
pub(crate) fn etag(version: u64) -> String {
    format!("\"{version}\"")
}

/// How many entries a page has.
pub(crate) fn page_size(limit: Option<u64>) -> Result<usize, Problem> {
    let Some(limit) = limit else { return Ok(PAGE) };
    let limit = usize::try_from(limit).ok().filter(|limit| (1..=PAGE_MAX).contains(limit));
    limit.ok_or_else(|| Problem::field("limit", format!("must be from 1 to {PAGE_MAX}")))
}

/// Tells a key that is left out from one that is null.
pub(crate) fn nullable<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    d: D,
) -> Result<Option<Option<T>>, D::Error> {
    Option::deserialize(d).map(Some)
}

/// A whole number. `96.0` is one, too: JSON does not tell the two apart.
#[derive(Clone, Copy)]
pub(crate) struct Whole(pub(crate) i64);

impl<'de> Deserialize<'de> for Whole {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let number = Number::deserialize(d)?;
        let whole = number.as_i64().or_else(|| number.as_f64().and_then(whole));
        whole.map(Whole).ok_or_else(|| D::Error::custom("expected a whole number"))
    }
}

/// A number without a fraction that a float still holds exactly.
fn whole(number: f64) -> Option<i64> {
    const EXACT_MAX: f64 = 9_007_199_254_740_992.0;
    (number.fract() == 0.0 && number.abs() < EXACT_MAX).then_some(number as i64)
}

/// The same for every number of a value.
pub(crate) fn make_whole(value: &mut Value) {
    match value {
        Value::Number(number) if number.is_f64() => {
            if let Some(whole) = number.as_f64().and_then(whole) {
                *value = Value::from(whole);
            }
        }
        Value::Array(list) => list.iter_mut().for_each(make_whole),
        Value::Object(map) => map.values_mut().for_each(make_whole),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Collects what does not fit, so that a caller learns everything at once.
#[derive(Default)]
pub(crate) struct Checks(Vec<FieldError>);

impl Checks {
    pub(crate) fn expect(&mut self, fits: bool, field: &str, message: &str) {
        if !fits {
            self.0.push(FieldError { field: field.to_owned(), message: message.to_owned() });
        }
    }

    /// A name of an agent, run or role.
    pub(crate) fn name(&mut self, field: &str, text: &str) {
        let message = "must have 1 to 64 letters, digits, `.`, `_` and `-`, and not begin with `.` or `-`";
        self.expect(is_name(text), field, message);
    }

    /// A text of one line.
    pub(crate) fn line(&mut self, field: &str, text: &str, max: usize) {
        let fits = !text.is_empty() && text.chars().count() <= max && !text.chars().any(char::is_control);
        self.expect(fits, field, &format!("must be one line of 1 to {max} characters"));
    }

    /// A text of many lines.
    pub(crate) fn text(&mut self, field: &str, text: &str, max: usize) {
        self.expect(text.chars().count() <= max, field, &format!("must have at most {max} characters"));
    }

    pub(crate) fn done(self) -> Result<(), Problem> {
        if self.0.is_empty() { Ok(()) } else { Err(Problem::invalid(self.0)) }
    }
}

/// The gateway's rule for names of agents and runs.
pub(crate) fn is_name(text: &str) -> bool {
    let fits = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
    !text.is_empty() && text.len() <= 64 && !text.starts_with(['.', '-']) && text.bytes().all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn id_3_what_looks_like_a_key_is_not_repeated() {
        for (text, shown) in [
            ("unknown variant `estop_admin_0123456789abcdef`, expected", "unknown variant `…`, expected"),
            ("invalid type: string \"sk-proj-aB3/d+E5fG7hI9jK1\"", "invalid type: string \"…\""),
            ("unknown field `kill_switch_window_sizes`", "unknown field `kill_switch_window_sizes`"),
            ("invalid value: integer `123456`", "invalid value: integer `123456`"),
            ("", ""),
        ] {
            assert_eq!(without_secrets(text), shown);
        }
    }
}

//! OpenAI's legacy completions, also as "fill in the middle": a prompt, or several, without a history.

use super::content::{Joined, media};
use super::limit::Limit;
use super::{RequestIn, missing};
use crate::json::{Fields, Kind, ParseError, Raw, Scanner};

#[derive(Clone, Copy, PartialEq)]
enum Field {
    Model,
    Stream,
    MaxTokens,
    Choices,
    BestOf,
    Prompt,
    Suffix,
}

const REQUEST: &Fields<Field> = &[
    ("model", Field::Model),
    ("stream", Field::Stream),
    ("max_tokens", Field::MaxTokens),
    ("n", Field::Choices),
    ("best_of", Field::BestOf),
    ("prompt", Field::Prompt),
    ("suffix", Field::Suffix),
];

pub(super) fn read<'a>(s: &mut Scanner<'a>) -> Result<RequestIn<'a>, ParseError> {
    let start = s.place();
    let mut request = RequestIn::default();
    let mut limit = Limit::default();
    let (mut choices, mut prompt, mut suffix) = (None, None, None);
    s.object(REQUEST, |s, field| {
        match field {
            Field::Model => request.model = s.text()?,
            Field::Stream => request.stream = s.flag()?.unwrap_or(false),
            Field::MaxTokens => limit.at_most(s.count()?),
            Field::Choices | Field::BestOf => choices = choices.max(s.count()?),
            Field::Prompt => prompt = Some(prompts(s)?),
            Field::Suffix => suffix = s.undecoded()?,
        }
        Ok(())
    })?;
    let mut prompt = prompt.ok_or(missing(start, "prompt"))?;
    if let Some(suffix) = suffix {
        prompt.text_bytes += suffix.said;
        prompt.text.push(suffix.decoded()?);
    }
    limit.times(choices);
    limit.times(Some(prompt.answers));
    limit.record(&mut request);
    request.text_bytes = prompt.text_bytes;
    request.last_user = prompt.text.into_text();
    request.first_user = request.last_user.clone();
    Ok(request)
}

#[derive(Default)]
struct Prompt<'a> {
    text: Joined<'a>,
    text_bytes: usize,
    /// Each prompt gets answers of its own.
    answers: u32,
}

impl<'a> Prompt<'a> {
    fn add(&mut self, raw: Raw<'a>) -> Result<(), ParseError> {
        self.answers = self.answers.saturating_add(1);
        self.text_bytes += if raw.kind() == Kind::String { raw.said } else { raw.text.len() };
        if raw.kind() == Kind::String {
            self.text.push(raw.decoded()?);
            return Ok(());
        }
        media("tokens", raw, &mut self.text)
    }
}

/// A text, a list of texts, a list of tokens, or a list of lists of tokens.
fn prompts<'a>(s: &mut Scanner<'a>) -> Result<Prompt<'a>, ParseError> {
    const EXPECTED: &str = "text, tokens, or a list of them";
    let mut prompt = Prompt::default();
    match s.kind()? {
        Kind::String => prompt.add(s.skip()?)?,
        Kind::Null => drop(s.skip()?),
        Kind::Array => {
            let mut tokens = false;
            let each = |s: &mut Scanner<'a>| {
                s.list(EXPECTED, |s| match s.kind()? {
                    Kind::Number => {
                        tokens = true;
                        s.skip().map(drop)
                    }
                    Kind::String | Kind::Array => prompt.add(s.skip()?),
                    found @ (Kind::Null | Kind::Bool | Kind::Object) => Err(s.shape(EXPECTED, found)),
                })
            };
            let all = s.both(each)?.0;
            if tokens {
                prompt.add(all)?;
            }
        }
        found @ (Kind::Bool | Kind::Number | Kind::Object) => return Err(s.shape(EXPECTED, found)),
    }
    Ok(prompt)
}

//! Embeddings of any family: counted, not fingerprinted (ID-5).

use super::RequestIn;
use crate::json::{Fields, ParseError, Scanner};

#[derive(Clone, Copy, PartialEq)]
enum Field {
    Model,
    /// What is to be embedded, under the name each family has for it.
    Text(u8),
}

const REQUEST: &Fields<Field> = &[
    ("model", Field::Model),
    ("input", Field::Text(0)),
    ("prompt", Field::Text(1)),
    ("content", Field::Text(2)),
    ("requests", Field::Text(3)),
];

pub(super) fn read<'a>(s: &mut Scanner<'a>) -> Result<RequestIn<'a>, ParseError> {
    let mut request = RequestIn::default();
    s.object(REQUEST, |s, field| {
        match field {
            Field::Model => request.model = s.text()?,
            Field::Text(_) => {
                let raw = s.skip()?;
                // Tokens instead of text: the digits are about as long as the words they stand for.
                request.text_bytes += if raw.said == 0 { raw.text.len() } else { raw.said };
            }
        }
        Ok(())
    })?;
    Ok(request)
}

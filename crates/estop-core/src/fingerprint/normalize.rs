//! The normal form of a text (FP-1): what two prompts share when only numbers, times and ids differ.
//!
//! Lower case, `<ID>` for ids, `<TS>` for timestamps, `<NUM>` for numbers, one space between words, none at
//! the ends. It never guesses: a word that merely looks like an id ("defaced") stays a word. A number inside a word is a
//! number too: `file_803.txt`, `v1.2.3` and `user12` are `file_<NUM>.txt`, `v<NUM>` and `user<NUM>`.
//!
//! ```
//! use estop_core::fingerprint::normalize::normalize;
//! assert_eq!(normalize("Order  #12345\nat 2024-01-15T10:30:00Z"), "order #<NUM> at <TS>");
//! ```

mod id;
mod patterns;
mod text;
mod timestamp;

pub(crate) use patterns::{Found, number_in_word_at, placeholder_at};
pub(crate) use text::{Text, is_glue};

/// What stands in the normal form for something that varies from one request to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Placeholder {
    Id,
    Timestamp,
    Number,
}

impl Placeholder {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Id => "<ID>",
            Self::Timestamp => "<TS>",
            Self::Number => "<NUM>",
        }
    }
}

/// The normal form of `text`; normalising it again changes nothing.
///
/// Takes time linear in the length of the text, whatever the text is. A character is lower-cased by itself,
/// wherever it stands, by the Unicode tables of the compiler; newer tables only add letters.
pub fn normalize(text: &str) -> String {
    let input = &Text::new(text);
    let mut normal = String::with_capacity(text.len());
    let mut at = 0;
    // Whether the character before `at` would make a digit or hex letter at `at` part of its word. False
    // after a placeholder that begins a token, because that is how the normal form itself reads.
    let mut glued = false;
    let mut space_due = false;

    while let Some(c) = input.char(at) {
        if c.is_whitespace() {
            space_due = !normal.is_empty();
            glued = false;
            at += c.len_utf8();
            continue;
        }
        if space_due {
            normal.push(' ');
            space_due = false;
        }
        // `<` begins its own token, also directly after a word.
        let begins_token = !glued || c == '<';
        let found = match begins_token {
            true => placeholder_at(input, at),
            false if c.is_ascii_digit() => Some(number_in_word_at(input, at)),
            false => None,
        };
        if let Some(found) = found {
            normal.push_str(found.placeholder.as_str());
            // The word goes on after a number inside it: nothing is looked for in its rest but numbers, so that no
            // letter is looked at again and again.
            glued = !begins_token;
            at = found.end;
            continue;
        }
        for_each_lower(c, |lower| {
            normal.push(lower);
            glued = is_glue(lower);
        });
        at += c.len_utf8();
    }
    normal
}

/// Hands over `c` in lower case; most often one character, sometimes more.
#[inline]
pub(crate) fn for_each_lower(c: char, mut each: impl FnMut(char)) {
    match c {
        '\0'..='\x7f' => each(c.to_ascii_lowercase()),
        // Without case: the small half of Latin-1, Hebrew to Burmese, punctuation, symbols, Chinese, Japanese,
        // Korean, emoji. A shortcut, because the search in the table of cases takes longer than all the rest.
        'ß'..='ÿ'
        | '\u{590}'..='\u{109f}'
        | '\u{2000}'..='\u{20ff}'
        | '\u{2190}'..='\u{24b5}'
        | '\u{2500}'..='\u{2bff}'
        | '\u{2e80}'..='\u{a63f}'
        | '\u{ac00}'..='\u{d7ff}'
        | '\u{1f000}'..='\u{1faff}' => each(c),
        _ => c.to_lowercase().for_each(each),
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
pub(crate) use tests::ADVERSARIAL;

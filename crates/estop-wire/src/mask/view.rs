//! A text as a person reads it: without colours and without characters that nobody sees, and with letters that are written as
//! escapes. Secrets are looked for in it, and replaced in the text as it is.

use estop_core::steps;

/// How the character that begins a terminal's colour is written.
const ESCAPES: &[&str] =
    &["\u{1b}", "\\u001b", "\\u001B", "\\x1b", "\\x1B", "\\033", "\\e", "^[", "\u{241b}"];
/// The longest colour that is looked for.
const COLOUR_MAX: usize = 32;
/// JSON in strings of JSON doubles its backslashes.
const BACKSLASHES_MAX: usize = 4;
/// `%252D` is `%2D` encoded again.
const PERCENTS_MAX: usize = 3;

pub(super) struct View {
    pub(super) text: String,
    edits: Vec<Edit>,
}

/// A place from which on the view and the text differ by another distance.
struct Edit {
    view: usize,
    /// Where in the text a secret begins that begins here in the view: behind what was left out.
    begin: usize,
    /// Where one ends that ends here: before it.
    end: usize,
}

impl View {
    /// `None` if there is nothing to leave out and nothing to decode.
    pub(super) fn of(text: &str) -> Option<View> {
        steps::add(text.len());
        let mut view = View { text: String::new(), edits: Vec::new() };
        let (mut at, mut taken) = (0, 0);
        while at < text.len() {
            let Some(found) = hidden(&text[at..]) else {
                at += text[at..].chars().next().map_or(1, char::len_utf8);
                continue;
            };
            view.text.push_str(&text[taken..at]);
            let place = view.text.len();
            view.text.extend(found.letter);
            let end = at + found.len;
            match view.edits.last_mut() {
                Some(last) if found.letter.is_none() && last.view == place => last.begin = end,
                Some(_) | None => view.edits.push(Edit {
                    view: view.text.len(),
                    begin: end,
                    end: if found.letter.is_none() { at } else { end },
                }),
            }
            (at, taken) = (end, end);
        }
        view.text.push_str(&text[taken..]);
        (!view.edits.is_empty()).then_some(view)
    }

    /// Where in the text a part of the view begins and ends.
    pub(super) fn in_text(&self, from: usize, to: usize) -> (usize, usize) {
        let from = self.edit_at(from).map_or(from, |edit| edit.begin + (from - edit.view));
        let to = self.edit_at(to).map_or(to, |edit| match to - edit.view {
            0 => edit.end,
            distance => edit.begin + distance,
        });
        (from, to)
    }

    fn edit_at(&self, place: usize) -> Option<&Edit> {
        let after = self.edits.partition_point(|edit| edit.view <= place);
        after.checked_sub(1).and_then(|last| self.edits.get(last))
    }
}

/// What is not read as it is written: its length, and the letter it stands for, if any.
struct Hidden {
    len: usize,
    letter: Option<char>,
}

fn hidden(rest: &str) -> Option<Hidden> {
    let left_out = |len| Hidden { len, letter: None };
    match rest.as_bytes().first()? {
        b'%' => percent_encoded(rest.as_bytes()),
        // `[m` alone is text, unless the escape stands before it.
        b'[' => colour(rest.as_bytes(), b"mK").filter(|len| *len > 2).map(left_out),
        b'\\' => terminal(rest).map(left_out).or_else(|| escaped(rest.as_bytes())),
        b'^' | 0x1b => terminal(rest).map(left_out),
        byte if byte.is_ascii() => None,
        _ => terminal(rest).map(left_out).or_else(|| {
            let char = rest.chars().next()?;
            is_invisible(char).then(|| left_out(char.len_utf8()))
        }),
    }
}

/// What moves or colours a terminal: `ESC[31m`, `ESC(B`.
fn terminal(rest: &str) -> Option<usize> {
    let escape = ESCAPES.iter().find(|escape| rest.starts_with(**escape))?.len();
    let after = &rest.as_bytes()[escape..];
    let len = match after {
        [b'(' | b')', b'A' | b'B' | b'0', ..] => 2,
        _ => colour(after, b"ABCDEFGHJKSTfhlmnsu")?,
    };
    Some(escape + len)
}

/// `[31m`. Some programs take the character before it away.
fn colour(bytes: &[u8], ends: &[u8]) -> Option<usize> {
    let inside = bytes.strip_prefix(b"[")?.iter().take(COLOUR_MAX);
    let len = inside.take_while(|byte| byte.is_ascii_digit() || b";:?".contains(byte)).count();
    bytes.get(1 + len).is_some_and(|end| ends.contains(end)).then_some(len + 2)
}

/// Characters without width, of both directions, and joiners.
fn is_invisible(char: char) -> bool {
    matches!(
        char,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}' | '\u{180b}'..='\u{180e}'
            | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{e0000}'..='\u{e0fff}'
    )
}

/// `\u0073`, `\u{73}` and `\x73`.
fn escaped(bytes: &[u8]) -> Option<Hidden> {
    let slashes = bytes.iter().take(BACKSLASHES_MAX).take_while(|byte| **byte == b'\\').count();
    let (digits, len) = match &bytes[slashes..] {
        [b'u', b'{', rest @ ..] => {
            let digits = rest.iter().take(6).position(|byte| *byte == b'}')?;
            (&rest[..digits], digits + 3)
        }
        [b'u', rest @ ..] => (rest.get(..4)?, 5),
        [b'x', rest @ ..] => (rest.get(..2)?, 3),
        _ => return None,
    };
    let letter = letter(digits).filter(|letter| is_of_name_or_key(*letter) || "\"'&<>".contains(*letter))?;
    Some(Hidden { len: slashes + len, letter: Some(letter) })
}

/// `%2D`. Not what ends a value: an encoded `&` is part of it.
fn percent_encoded(bytes: &[u8]) -> Option<Hidden> {
    let mut len = 1;
    while len < 1 + 2 * PERCENTS_MAX && bytes[len..].starts_with(b"25") {
        len += 2;
    }
    let letter = letter(bytes.get(len..len + 2)?).filter(|letter| is_of_name_or_key(*letter))?;
    Some(Hidden { len: len + 2, letter: Some(letter) })
}

/// Of names, of keys, and what stands between a name and its value.
fn is_of_name_or_key(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || "-_.~+=:@".contains(letter)
}

fn letter(digits: &[u8]) -> Option<char> {
    let is_hex = !digits.is_empty() && digits.iter().all(u8::is_ascii_hexdigit);
    let digits = std::str::from_utf8(digits).ok().filter(|_| is_hex)?;
    char::from_u32(u32::from_str_radix(digits, 16).ok()?)
}

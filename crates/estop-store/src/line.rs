//! Reads from a journal line what the store must know: its number, chain, time and hashes; and spells these as the core does.
//! Nothing is judged.

use std::borrow::Cow;

use estop_core::chain::Digest;
use estop_core::journal::HASHES_LEN;
use estop_core::time::{Millis, Now};

const START: &[u8] = b"{\"record\":{\"seq\":";
const CHAIN: &[u8] = b",\"chain\":\"";
const MONO: &[u8] = b",\"mono\":";
const WALL: &[u8] = b",\"wall\":";
const EH: &[u8] = b",\"eh\":\"";
const DH: &[u8] = b"\",\"dh\":\"";
const END: &[u8] = b"\"}";

/// The head of a line.
pub(crate) struct LineHead<'a> {
    pub(crate) seq: u64,
    pub(crate) chain: Cow<'a, str>,
    pub(crate) now: Now,
}

impl LineHead<'_> {
    /// What follows the head of this line; `None` if the head is spelled otherwise than the core does.
    pub(crate) fn after<'l>(&self, line: &'l [u8]) -> Option<&'l [u8]> {
        let spelled = spelled(self.seq, &named(&self.chain)?, self.now);
        line.strip_prefix(spelled.as_bytes()).filter(|rest| rest.starts_with(b","))
    }
}

/// `,"chain":"…","mono":`
pub(crate) fn named(chain: &str) -> Option<String> {
    Some(format!(r#","chain":{},"mono":"#, serde_json::to_string(chain).ok()?))
}

/// The head of a line as the core spells it: what [`head`] reads.
pub(crate) fn spelled(seq: u64, named: &str, now: Now) -> String {
    format!(r#"{{"record":{{"seq":{seq}{named}{},"wall":{}"#, now.mono.0, now.wall)
}

/// Reads the head of a line; `None` if it is not a journal line.
pub(crate) fn head(line: &[u8]) -> Option<LineHead<'_>> {
    let (seq, rest) = unsigned(line.strip_prefix(START)?)?;
    let (chain, rest) = name(rest.strip_prefix(CHAIN)?)?;
    let (mono, rest) = unsigned(rest.strip_prefix(MONO)?)?;
    let (wall, _) = number(rest.strip_prefix(WALL)?)?;
    Some(LineHead { seq, chain, now: Now { mono: Millis(mono), wall } })
}

/// The heads of the event chain and the decision chain after this line.
pub(crate) fn digests(line: &[u8]) -> Option<(Digest, Digest)> {
    let (events, decisions) = hashes(line)?;
    Some((digest(events)?, digest(decisions)?))
}

/// A line up to its hashes, and both.
pub(crate) fn apart(line: &[u8]) -> Option<(&[u8], Digest, Digest)> {
    let (events, decisions) = digests(line)?;
    Some((&line[..line.len() - HASHES_LEN], events, decisions))
}

fn hashes(line: &[u8]) -> Option<(&[u8; 64], &[u8; 64])> {
    let hashes = line.get(line.len().checked_sub(HASHES_LEN)?..)?;
    let (events, rest) = hashes.strip_prefix(EH)?.split_first_chunk::<64>()?;
    let (decisions, rest) = rest.strip_prefix(DH)?.split_first_chunk::<64>()?;
    (rest == END).then_some((events, decisions))
}

/// The lines of a block, without their ends.
pub(crate) fn each(block: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut start = 0;
    memchr::memchr_iter(b'\n', block).map(move |end| {
        let line = &block[start..end];
        start = end + 1;
        line
    })
}

fn unsigned(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let len = bytes.iter().position(|byte| !byte.is_ascii_digit()).filter(|len| *len > 0)?;
    let (digits, rest) = bytes.split_at(len);
    let add = |sum: u64, digit: &u8| sum.checked_mul(10)?.checked_add(u64::from(digit - b'0'));
    Some((digits.iter().try_fold(0, add)?, rest))
}

fn number(bytes: &[u8]) -> Option<(i64, &[u8])> {
    let (is_negative, digits) = match bytes {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    let (value, rest) = unsigned(digits)?;
    Some((if is_negative { 0_i64.checked_sub_unsigned(value)? } else { i64::try_from(value).ok()? }, rest))
}

/// The rest of a JSON text, and what follows it.
fn name(bytes: &[u8]) -> Option<(Cow<'_, str>, &[u8])> {
    let stop = memchr::memchr2(b'"', b'\\', bytes)?;
    if bytes[stop] == b'"' {
        return Some((Cow::Borrowed(std::str::from_utf8(&bytes[..stop]).ok()?), &bytes[stop + 1..]));
    }
    let mut end = stop;
    while bytes.get(end)? != &b'"' {
        end += if bytes[end] == b'\\' { 2 } else { 1 };
    }
    let quoted = format!("\"{}\"", std::str::from_utf8(&bytes[..end]).ok()?);
    Some((Cow::Owned(serde_json::from_str(&quoted).ok()?), &bytes[end + 1..]))
}

fn digest(digits: &[u8; 64]) -> Option<Digest> {
    let value = |digit: u8| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    };
    let mut bytes = [0; 32];
    for (byte, pair) in bytes.iter_mut().zip(digits.as_chunks::<2>().0) {
        *byte = value(pair[0])? << 4 | value(pair[1])?;
    }
    Some(Digest(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use estop_core::event::{Event, EventKind};
    use estop_core::journal::{Chains, Happened, write_hashes};

    #[test]
    fn a_line_of_the_core_is_read_back() {
        for chain in ["coder", "quote\"and\\slash", "tab\tund Ümlaut", "{\"seq\":9"] {
            let mut chains = Chains::default();
            let mut line = Vec::new();
            let now = Now { mono: Millis(12), wall: -5 };
            chains.append(chain, now, Happened::Agent(&Event::open(EventKind::Tick)), &"decided", &mut line);
            let line = line.strip_suffix(b"\n").unwrap_or(&line);
            let read = head(line).expect("the core's own line");
            assert_eq!((read.seq, read.chain.as_ref(), read.now.wall), (1, chain, -5));
            let heads = chains.head(chain).expect("it was just written");
            assert_eq!(digests(line), Some((heads.events, heads.decisions)));
            let (text, ..) = apart(line).expect("the core's own line");
            assert!(read.after(text).is_some_and(|rest| rest.starts_with(b",\"event\":")), "{chain}");
            let mut whole = text.to_vec();
            write_hashes(&heads.events, &heads.decisions, &mut whole);
            assert_eq!(whole, [line, b"\n"].concat());
            for place in [line.len() - 3, line.len() - 80, line.len() - 1] {
                let mut broken = line.to_vec();
                broken[place] = b'G';
                assert!(apart(&broken).is_none() && digests(&broken).is_none(), "{place}");
            }
        }
    }

    #[test]
    fn other_lines_are_refused() {
        for line in
            ["", "{}", "{\"record\":{\"seq\":1,\"chain\":\"a", "{\"record\":{\"seq\":1,\"chain\":\"a\\"]
        {
            assert!(head(line.as_bytes()).is_none(), "{line}");
            assert!(digests(line.as_bytes()).is_none() && apart(line.as_bytes()).is_none(), "{line}");
        }
    }

    #[test]
    fn numbers_are_read_as_they_are_written() {
        for value in [0, 7, -7, 1_794_743_032_482, i64::MAX, i64::MIN] {
            let text = format!("{value},rest");
            assert_eq!(number(text.as_bytes()), Some((value, &b",rest"[..])));
        }
        for text in ["", "12", "-,", ",", "9223372036854775808,", "-9223372036854775809,", "--1,"] {
            assert_eq!(number(text.as_bytes()), None, "{text}");
        }
    }
}

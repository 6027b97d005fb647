//! Lines without what all of them begin with: number, chain and time stand in columns before them, as differences. Packing
//! takes as long for each number in a line as for a long piece that repeats, and these are four of them.
//!
//! ```text
//! 1 · first seq · chains: how many, then length and name of each · lines: how many ·
//! chain of each · mono of each less the one before · wall of each, the same · the rest of each, with its end
//! ```
//!
//! Numbers have seven bits to a byte, the lowest first; differences have their sign as the lowest bit.

use estop_core::ids::Name;

use crate::line;
use crate::records::Place;

/// How such lines begin. Lines as they are begin with a brace.
const MARK: u8 = 1;
const SEQ: &str = r#"{"record":{"seq":"#;
const CHAIN: &str = r#","chain":"#;
const MONO: &str = r#","mono":"#;
const WALL: &str = r#","wall":"#;

/// Chain and time of a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Head {
    chain: usize,
    mono: u64,
    wall: i64,
}

/// Whether these are such lines.
pub(super) fn is_shorn(bytes: &[u8]) -> bool {
    bytes.first() == Some(&MARK)
}

/// Takes off what the lines from `first_seq` on begin with. They begin at `start` in their texts, and have these places. `None` if one of them begins otherwise.
pub(super) fn shear(
    texts: &[u8],
    mut start: usize,
    places: &[Place],
    first_seq: u64,
    chains: &[Name],
) -> Option<Vec<u8>> {
    let mut met = Met::new(chains);
    let mut heads = Vec::with_capacity(places.len());
    let mut rests = Vec::with_capacity(places.last()?.end - start);
    let (mut seq, mut last, mut time) = (first_seq.to_string().into_bytes(), Head::default(), &b""[..]);
    for place in places {
        let text = texts.get(start..place.end)?;
        start = place.end;
        let chain = met.meet(place.chain.index())?;
        let rest = text.strip_prefix(SEQ.as_bytes())?.strip_prefix(&*seq)?;
        let rest = rest.strip_prefix(met.named[chain].as_bytes())?;
        // Most lines have the time of the one before; with another digit it would be another one.
        let rest = match rest.strip_prefix(time).filter(|rest| rest.starts_with(b",")) {
            Some(rest) => rest,
            None => {
                let rest_of;
                (last, time, rest_of) = read_time(rest)?;
                rest_of
            }
        };
        heads.push(Head { chain, ..last });
        rests.extend_from_slice(rest);
        count_up(&mut seq);
    }
    let mut out = Vec::with_capacity(rests.len() + 3 * heads.len() + 64);
    write_heads(&mut out, first_seq, &met.names, &heads);
    out.extend_from_slice(&rests);
    Some(out)
}

/// The chains of a block, in the order they are met: of a large fleet few are in each.
struct Met<'a> {
    all: &'a [Name],
    /// Where each of all stands among those that were met.
    places: Vec<Option<usize>>,
    names: Vec<&'a str>,
    named: Vec<String>,
}

impl<'a> Met<'a> {
    fn new(all: &'a [Name]) -> Met<'a> {
        Met { all, places: vec![None; all.len()], names: Vec::new(), named: Vec::new() }
    }

    fn meet(&mut self, chain: usize) -> Option<usize> {
        let place = self.places.get_mut(chain)?;
        if place.is_none() {
            let name: &str = &self.all[chain];
            self.named.push(named(name)?);
            self.names.push(name);
            *place = Some(self.names.len() - 1);
        }
        *place
    }
}

/// `,"chain":"…","mono":`
fn named(name: &str) -> Option<String> {
    Some([CHAIN, &serde_json::to_string(name).ok()?, MONO].concat())
}

/// `…,"wall":…` of a line: what it means, what it is, and what follows. Only in the one spelling it has.
fn read_time(text: &[u8]) -> Option<(Head, &[u8], &[u8])> {
    let mut parts = text.splitn(3, |byte| *byte == b',');
    let (mono, wall, _) = (parts.next()?, parts.next()?, parts.next()?);
    let (time, rest) = text.split_at_checked(mono.len() + 1 + wall.len())?;
    let (mono, wall) = std::str::from_utf8(time).ok()?.split_once(WALL)?;
    let head = Head { chain: 0, mono: mono.parse().ok()?, wall: wall.parse().ok()? };
    (time_of(head) == [mono, wall].join(WALL)).then_some((head, time, rest))
}

fn time_of(head: Head) -> String {
    format!("{}{WALL}{}", head.mono, head.wall)
}

/// The next number, in digits.
fn count_up(digits: &mut Vec<u8>) {
    for digit in digits.iter_mut().rev() {
        if *digit < b'9' {
            *digit += 1;
            return;
        }
        *digit = b'0';
    }
    digits.insert(0, b'1');
}

fn write_heads(out: &mut Vec<u8>, first_seq: u64, chains: &[&str], heads: &[Head]) {
    out.push(MARK);
    write(out, first_seq);
    write(out, chains.len() as u64);
    for name in chains {
        write(out, name.len() as u64);
        out.extend_from_slice(name.as_bytes());
    }
    write(out, heads.len() as u64);
    heads.iter().for_each(|head| write(out, head.chain as u64));
    let befores = std::iter::once(Head::default()).chain(heads.iter().copied());
    let pairs = || befores.clone().zip(heads);
    pairs().for_each(|(before, head)| write_signed(out, head.mono.wrapping_sub(before.mono).cast_signed()));
    pairs().for_each(|(before, head)| write_signed(out, head.wall.wrapping_sub(before.wall)));
}

/// The lines as they were, `length` bytes of them; `None` if these are none.
pub(super) fn restore(shorn: &[u8], length: usize) -> Option<Vec<u8>> {
    let mut from = shorn.strip_prefix(&[MARK])?;
    let first_seq = read(&mut from)?;
    let mut names = Vec::new();
    for _ in 0..read(&mut from)? {
        let length = usize::try_from(read(&mut from)?).ok()?;
        let (name, rest) = from.split_at_checked(length)?;
        names.push(named(std::str::from_utf8(name).ok()?)?);
        from = rest;
    }
    let count = read(&mut from)?;
    // A line has a byte in each column: a number that was made up asks for no more room than there is.
    let mut heads = vec![Head::default(); usize::try_from(count).ok().filter(|count| *count <= from.len())?];
    for head in &mut heads {
        head.chain = usize::try_from(read(&mut from)?).ok()?;
    }
    let mut mono = 0_u64;
    for head in &mut heads {
        mono = mono.wrapping_add_signed(read_signed(&mut from)?);
        head.mono = mono;
    }
    let mut wall = 0_i64;
    for head in &mut heads {
        wall = wall.wrapping_add(read_signed(&mut from)?);
        head.wall = wall;
    }
    write_lines(from, first_seq, &names, &heads, length)
}

fn write_lines(
    rests: &[u8],
    first_seq: u64,
    names: &[String],
    heads: &[Head],
    length: usize,
) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(length);
    let (mut seq, mut left) = (first_seq, heads.iter());
    for rest in line::each(rests) {
        let head = left.next()?;
        let number = seq.to_string();
        let pieces = [SEQ, &number, names.get(head.chain)?, &time_of(*head)];
        pieces.iter().for_each(|piece| out.extend_from_slice(piece.as_bytes()));
        out.extend_from_slice(rest);
        out.push(b'\n');
        if out.len() > length {
            return None;
        }
        seq = seq.checked_add(1)?;
    }
    (left.next().is_none() && out.len() == length && rests.last() == Some(&b'\n')).then_some(out)
}

fn write(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number.to_le_bytes()[0] | 0x80);
        number >>= 7;
    }
    out.push(number.to_le_bytes()[0]);
}

fn write_signed(out: &mut Vec<u8>, number: i64) {
    write(out, (number << 1 ^ number >> 63).cast_unsigned());
}

fn read(from: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = from.split_first()?;
        *from = rest;
        let bits = u64::from(byte & 0x7f);
        number |= bits.checked_shl(shift).filter(|shifted| shifted >> shift == bits)?;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

fn read_signed(from: &mut &[u8]) -> Option<i64> {
    let number = read(from)?;
    Some((number >> 1).cast_signed() ^ -(number & 1).cast_signed())
}

#[cfg(test)]
mod tests;

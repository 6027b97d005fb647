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
use estop_core::time::{Millis, Now};

use crate::line;
use crate::records::Place;

/// How such lines begin. Lines as they are begin with a brace.
const MARK: u8 = 1;
/// The longest that a line can begin with, but for its chain: three numbers of twenty digits, and what stands around them.
const NUMBERS_MAX: usize = r#"{"record":{"seq":,"wall":"#.len() + 3 * 20;

/// Chain and time of a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Head {
    chain: usize,
    now: Now,
}

/// Whether these are such lines.
pub(super) fn is_shorn(bytes: &[u8]) -> bool {
    bytes.first() == Some(&MARK)
}

/// Takes off what the lines from `first_seq` on begin with. They begin at `begin` in their texts, and have these places.
/// `None` if one of them begins otherwise.
pub(super) fn shear(
    texts: &[u8],
    begin: usize,
    places: &[Place],
    first_seq: u64,
    chains: &[Name],
) -> Option<Vec<u8>> {
    let mut met = Met::new(chains);
    let (mut heads, mut length) = (Vec::with_capacity(places.len()), 0);
    for place in places {
        length += place.rest_len?.get();
        heads.push(Head { chain: met.meet(place.chain.index())?, now: place.now });
    }
    let mut out = Vec::with_capacity(length + 3 * heads.len() + 64);
    write_heads(&mut out, first_seq, &met.names, &heads);
    let mut before = begin;
    for place in places {
        let start = place.end.checked_sub(place.rest_len?.get()).filter(|start| *start > before)?;
        let rest = texts.get(start..place.end).filter(|rest| rest.starts_with(b","))?;
        out.extend_from_slice(rest);
        before = place.end;
    }
    Some(out)
}

/// The chains of a block, in the order they are met: of a large fleet few are in each.
struct Met<'a> {
    all: &'a [Name],
    /// Where each of all stands among those that were met.
    places: Vec<Option<usize>>,
    names: Vec<&'a str>,
}

impl<'a> Met<'a> {
    fn new(all: &'a [Name]) -> Met<'a> {
        Met { all, places: vec![None; all.len()], names: Vec::new() }
    }

    fn meet(&mut self, chain: usize) -> Option<usize> {
        let place = self.places.get_mut(chain)?;
        if place.is_none() {
            *place = Some(self.names.len());
            self.names.push(&self.all[chain]);
        }
        *place
    }
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
    let mono = |head: &Head| head.now.mono.0;
    pairs()
        .for_each(|(before, head)| write_signed(out, mono(head).wrapping_sub(mono(&before)).cast_signed()));
    pairs().for_each(|(before, head)| write_signed(out, head.now.wall.wrapping_sub(before.now.wall)));
}

/// The lines as they were, `length` bytes of them; `None` if these are none.
pub(super) fn restore(shorn: &[u8], length: usize) -> Option<Vec<u8>> {
    Shorn::read(shorn)?.restore(length)
}

/// Such lines, read: their columns, and what follows these.
pub(super) struct Shorn<'a> {
    first_seq: u64,
    /// In the order they are met.
    chains: Vec<&'a str>,
    heads: Vec<Head>,
    rests: &'a [u8],
}

/// The lines of one chain, and where in their block they stand.
#[derive(Default)]
pub(super) struct Picked {
    pub(super) texts: Vec<u8>,
    pub(super) places: Vec<usize>,
    /// How many chains are met before it.
    pub(super) rank: usize,
}

impl<'a> Shorn<'a> {
    /// `None` if these are none.
    pub(super) fn read(shorn: &'a [u8]) -> Option<Shorn<'a>> {
        let mut from = shorn.strip_prefix(&[MARK])?;
        let first_seq = read(&mut from)?;
        let mut chains = Vec::new();
        for _ in 0..read(&mut from)? {
            let length = usize::try_from(read(&mut from)?).ok()?;
            let (name, rest) = from.split_at_checked(length)?;
            chains.push(std::str::from_utf8(name).ok()?);
            from = rest;
        }
        let count = read(&mut from)?;
        // A line has a byte in each column, and an end: a number that was made up asks for no more room than there is.
        let mut heads =
            vec![Head::default(); usize::try_from(count).ok().filter(|count| *count <= from.len() / 4)?];
        let mut met = 0;
        for head in &mut heads {
            head.chain = usize::try_from(read(&mut from)?).ok().filter(|chain| *chain <= met)?;
            met += usize::from(head.chain == met);
        }
        if met != chains.len() {
            return None;
        }
        let mut mono = 0_u64;
        for head in &mut heads {
            mono = mono.wrapping_add_signed(read_signed(&mut from)?);
            head.now.mono = Millis(mono);
        }
        let mut wall = 0_i64;
        for head in &mut heads {
            wall = wall.wrapping_add(read_signed(&mut from)?);
            head.now.wall = wall;
        }
        let is_whole = from.last() == Some(&b'\n');
        (is_whole && line::each(from).count() == heads.len()).then_some(Shorn {
            first_seq,
            chains,
            heads,
            rests: from,
        })
    }

    /// How many lines there are.
    pub(super) fn count(&self) -> usize {
        self.heads.len()
    }

    /// The lines of a chain; none if it is not met. `None` if they are longer than all lines of the block are.
    pub(super) fn pick(&self, chain: &str, length: usize) -> Option<Picked> {
        let Some(rank) = self.chains.iter().position(|met| *met == chain) else {
            return Some(Picked::default());
        };
        let (named, mut found) = (line::named(chain)?, Picked { rank, ..Picked::default() });
        for (at, (head, rest)) in self.heads.iter().zip(line::each(self.rests)).enumerate() {
            if head.chain == rank {
                self.spell(at, &named, rest, &mut found.texts)?;
                found.places.push(at);
            }
            if found.texts.len() > length {
                return None;
            }
        }
        Some(found)
    }

    /// All lines, if they have this length.
    fn restore(&self, length: usize) -> Option<Vec<u8>> {
        let named: Vec<String> = self.chains.iter().map(|chain| line::named(chain)).collect::<Option<_>>()?;
        let longest = named.iter().map(String::len).max().unwrap_or(0) + NUMBERS_MAX;
        // A length that was made up asks for no more room than there can be lines.
        if length > self.rests.len().saturating_add(self.count().saturating_mul(longest)) {
            return None;
        }
        let mut out = Vec::with_capacity(length);
        for (at, (head, rest)) in self.heads.iter().zip(line::each(self.rests)).enumerate() {
            self.spell(at, named.get(head.chain)?, rest, &mut out)?;
            if out.len() > length {
                return None;
            }
        }
        (out.len() == length).then_some(out)
    }

    /// Writes the line at a place.
    fn spell(&self, at: usize, named: &str, rest: &[u8], out: &mut Vec<u8>) -> Option<()> {
        let seq = self.first_seq.checked_add(at as u64)?;
        out.extend_from_slice(line::spelled(seq, named, self.heads.get(at)?.now).as_bytes());
        out.extend_from_slice(rest);
        out.push(b'\n');
        Some(())
    }
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

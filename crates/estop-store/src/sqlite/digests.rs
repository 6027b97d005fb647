//! The hashes of a block's records, as they stand beside its lines. Four bytes of each tell which record was changed; a
//! chain's first record in the block has the rest of its own behind them, from which those of the others are computed.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;

use estop_core::chain::Digest;
use estop_core::journal::{HASHES_LEN, relink, write_hashes};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use super::shorn::Picked;
use crate::line;
use crate::records::{DIGESTS_LEN, Records};

const CHECKSUM_LEN: usize = 8;
/// Bytes kept of each of a record's two hashes. Not for safety, which is in the chain: one change in four billion is noticed
/// a record later. Half would miss one in 65,000 at its place, double takes twice the room.
const KEPT: usize = 4;
const SHORT: usize = 2 * KEPT;
const HALF: usize = DIGESTS_LEN / 2;
/// What a chain's first record has beside that.
const REST: usize = DIGESTS_LEN - SHORT;

/// The hashes of some of the records: the short ones of all, then the rest of each chain's first. Whole ones, if each is
/// the first of its chain, or if they do not follow from each other.
pub(super) fn keep(records: &Records, part: Range<usize>) -> Vec<u8> {
    let (places, digests) = (&records.places()[part.clone()], &records.digests()[part]);
    let mut met = vec![false; records.chains().len()];
    let mut firsts = Vec::new();
    for (at, place) in places.iter().enumerate() {
        if !std::mem::replace(&mut met[place.chain.index()], true) {
            firsts.push(at);
        }
    }
    if firsts.len() == places.len() || !records.is_linked() {
        return digests.as_flattened().to_vec();
    }
    let mut out = Vec::with_capacity(places.len() * SHORT + firsts.len() * REST + CHECKSUM_LEN);
    for own in digests {
        out.extend_from_slice(&own[..KEPT]);
        out.extend_from_slice(&own[HALF..HALF + KEPT]);
    }
    for own in firsts.iter().map(|at| &digests[*at]) {
        out.extend_from_slice(&own[KEPT..HALF]);
        out.extend_from_slice(&own[HALF + KEPT..]);
    }
    out
}

/// Adds a checksum of the hashes and of the packed lines: bits that flip are noticed by whoever reads, and not only by
/// whoever verifies.
pub(super) fn checked(mut digests: Vec<u8>, packed: &[u8]) -> Vec<u8> {
    let sum = checksum(&digests, packed);
    digests.extend_from_slice(&sum);
    digests
}

/// The hashes of a block, if they and the packed lines are what was stored.
pub(super) fn check<'a>(stored: &'a [u8], packed: &[u8]) -> Option<&'a [u8]> {
    let (digests, sum) = stored.split_last_chunk::<CHECKSUM_LEN>()?;
    (checksum(digests, packed) == *sum).then_some(digests)
}

fn checksum(digests: &[u8], packed: &[u8]) -> [u8; CHECKSUM_LEN] {
    xxh3_64_with_seed(digests, xxh3_64(packed)).to_le_bytes()
}

/// Lines with all their hashes, as they are; `None` if there are more of one than of the other.
pub(super) fn whole(texts: &[u8], digests: &[[u8; DIGESTS_LEN]]) -> Option<Vec<u8>> {
    compute(texts, digests.as_flattened()).map(|computed| computed.lines)
}

/// Lines with their hashes.
pub(super) struct Computed {
    pub(super) lines: Vec<u8>,
    /// What is kept of the hashes is what was computed. If not, a line was changed; its hash, with the kept bytes in it, is
    /// then the hash of nothing, so that whoever verifies finds it.
    pub(super) is_sound: bool,
}

/// Lines with their hashes; `None` if there are not as many of one as of the other.
pub(super) fn compute(texts: &[u8], kept: &[u8]) -> Option<Computed> {
    let count = memchr::memchr_iter(b'\n', texts).count();
    link(texts, count, Kept::of(kept, count)?)
}

/// The lines of one chain with their hashes, from what is kept of a block of `count` records.
pub(super) fn compute_picked(picked: &Picked, count: usize, kept: &[u8]) -> Option<Computed> {
    let Picked { texts, places, rank } = picked;
    match Kept::of(kept, count)? {
        Kept::All(all) => link(texts, places.len(), Kept::All(&those_at::<DIGESTS_LEN>(all, places)?)),
        Kept::Short(short, rest) => {
            let first = rest.as_chunks::<REST>().0.get(*rank)?;
            link(texts, places.len(), Kept::Short(&those_at::<SHORT>(short, places)?, first))
        }
    }
}

fn those_at<const N: usize>(all: &[u8], places: &[usize]) -> Option<Vec<u8>> {
    let mut those = Vec::with_capacity(places.len() * N);
    for at in places {
        those.extend_from_slice(all.as_chunks::<N>().0.get(*at)?);
    }
    Some(those)
}

/// So many lines with their hashes.
fn link(texts: &[u8], count: usize, kept: Kept<'_>) -> Option<Computed> {
    let mut heads = Heads { kept, of: HashMap::new(), is_sound: true };
    let mut lines = Vec::with_capacity(texts.len() + count * HASHES_LEN);
    for text in line::each(texts) {
        let (events, decisions) = heads.next(text)?;
        lines.extend_from_slice(text);
        write_hashes(&events, &decisions, &mut lines);
    }
    Some(Computed { lines, is_sound: heads.are_sound() })
}

/// The heads of a block's chains, while its lines are read.
struct Heads<'a> {
    kept: Kept<'a>,
    of: HashMap<Cow<'a, str>, (Digest, Digest)>,
    is_sound: bool,
}

enum Kept<'a> {
    /// Both hashes of each record.
    All(&'a [u8]),
    /// Short ones of each, and the rest of each chain's first.
    Short(&'a [u8], &'a [u8]),
}

impl<'a> Kept<'a> {
    /// What is kept of so many records.
    fn of(kept: &'a [u8], count: usize) -> Option<Kept<'a>> {
        if kept.len() == count * DIGESTS_LEN {
            return Some(Kept::All(kept));
        }
        let (short, rest) = kept.split_at_checked(count * SHORT)?;
        (rest.len() % REST == 0).then_some(Kept::Short(short, rest))
    }
}

impl<'a> Heads<'a> {
    /// Whether what is kept fits all lines so far, and no others.
    fn are_sound(&self) -> bool {
        self.is_sound && !matches!(self.kept, Kept::Short(_, [_, ..]))
    }

    /// The hashes of the next line.
    fn next(&mut self, text: &'a [u8]) -> Option<(Digest, Digest)> {
        let (short, rest) = match &mut self.kept {
            Kept::All(kept) => {
                let own = take::<DIGESTS_LEN>(kept)?;
                let (events, decisions) = own.split_first_chunk::<HALF>()?;
                return Some((Digest(*events), Digest(decisions.try_into().ok()?)));
            }
            Kept::Short(short, rest) => (take::<SHORT>(short)?, rest),
        };
        let chain = line::head(text).map(|head| head.chain);
        let before = chain.as_ref().and_then(|chain| self.of.get(chain)).copied();
        let computed = before.and_then(|before| relink(before, text));
        let (mut events, mut decisions) = match computed {
            Some((events, decisions)) => {
                self.is_sound &= events.0[..KEPT] == short[..KEPT] && decisions.0[..KEPT] == short[KEPT..];
                (events, decisions)
            }
            None => {
                let own = take::<REST>(rest);
                // Which lines are firsts follows from their texts: one that was changed may be one more, or none.
                self.is_sound &= chain.is_some() && own.is_some();
                first(own)
            }
        };
        events.0[..KEPT].copy_from_slice(&short[..KEPT]);
        decisions.0[..KEPT].copy_from_slice(&short[KEPT..]);
        if let Some(chain) = chain {
            self.of.insert(chain, (events, decisions));
        }
        Some((events, decisions))
    }
}

/// The hashes of a chain's first record, but for what is kept of each.
fn first(rest: Option<&[u8; REST]>) -> (Digest, Digest) {
    let (mut events, mut decisions) = (Digest([0; HALF]), Digest([0; HALF]));
    if let Some(rest) = rest {
        let (of_events, of_decisions) = rest.split_at(REST / 2);
        events.0[KEPT..].copy_from_slice(of_events);
        decisions.0[KEPT..].copy_from_slice(of_decisions);
    }
    (events, decisions)
}

fn take<'a, const N: usize>(from: &mut &'a [u8]) -> Option<&'a [u8; N]> {
    let (taken, rest) = from.split_first_chunk()?;
    *from = rest;
    Some(taken)
}

#[cfg(test)]
mod tests {
    use estop_core::event::{Event, EventKind};
    use estop_core::journal::{Chains, Happened, JournalError, Record};
    use estop_core::time::{Millis, Now};

    use super::*;
    use crate::journal::Lines;

    const COUNT: u64 = 40;

    /// Records of three chains, as they are exported.
    fn lines() -> Vec<u8> {
        let (mut chains, mut lines) = (Chains::default(), Vec::new());
        for n in 0..COUNT {
            let now = Now { mono: Millis(n), wall: n as i64 };
            let chain = ["coder", "quote\"and\\slash", "größe"][((n + n / 5) % 3) as usize];
            chains.append(chain, now, Happened::Agent(&Event::open(EventKind::Tick)), &n, &mut lines);
        }
        lines
    }

    fn records(lines: &[u8]) -> Records {
        Records::read(&Lines { first_seq: 1, last_seq: COUNT, bytes: lines.to_vec(), ..Lines::default() })
            .expect("records")
    }

    /// The first record that does not stand in its chain.
    fn broken(lines: &[u8]) -> Option<u64> {
        let mut chains = Chains::default();
        line::each(lines).find_map(|line| match chains.check(&Record::parse(line).expect("a record")) {
            Err(JournalError::ChainBroken { seq, .. }) => Some(seq),
            other => other.map(|()| None).expect("no other error"),
        })
    }

    #[test]
    fn st_1_hashes_that_are_not_kept_are_computed() {
        let lines = lines();
        let records = records(&lines);
        let kept = keep(&records, 0..COUNT as usize);
        assert!(kept.len() < COUNT as usize * DIGESTS_LEN / 2);
        let computed = compute(records.texts(), &kept).expect("lines");
        assert!(computed.is_sound && computed.lines == lines);
        assert_eq!(whole(records.texts(), records.digests()).as_deref(), Some(&*lines), "as before");
        for len in [0, 8, 64, kept.len() - 1] {
            assert!(compute(records.texts(), &kept[..len]).is_none());
        }
        assert!(compute(records.texts(), &[&kept[..], &[0; 8]].concat()).is_none());
        let shorter = records.texts().strip_suffix(b"\n").expect("lines");
        assert!(compute(shorter, &kept).is_none(), "a line less");
    }

    #[test]
    fn tw_7_a_changed_record_is_still_named() {
        let lines = lines();
        let records = records(&lines);
        let kept = keep(&records, 0..COUNT as usize);
        assert_eq!(broken(&lines), None);
        for (at, place) in records.places().iter().enumerate() {
            // Somebody changes what was decided.
            let mut texts = records.texts().to_vec();
            texts[place.end - 2] ^= 1;
            let changed = compute(&texts, &kept).expect("lines");
            assert_eq!(broken(&changed.lines), Some(at as u64 + 1));
        }
    }

    #[test]
    fn tw_7_a_record_that_was_given_to_another_chain_is_named() {
        let records = records(&lines());
        let kept = keep(&records, 0..COUNT as usize);
        let texts = String::from_utf8(records.texts().to_vec()).expect("text");
        for (name, other) in [("größe", "coder"), ("coder", "größe"), ("coder", "nobody")] {
            for (at, line) in texts.lines().enumerate().filter(|(_, line)| line.contains(name)) {
                let changed = line.replace(name, other);
                let changed = compute(texts.replace(line, &changed).as_bytes(), &kept).expect("lines");
                assert_eq!(broken(&changed.lines), Some(at as u64 + 1), "{name} to {other}");
                assert!(!changed.is_sound, "{name} to {other}: nobody goes on from it");
            }
        }
    }

    #[test]
    fn st_1_hashes_that_do_not_follow_are_kept_whole() {
        let lines = String::from_utf8(lines()).expect("text");
        let lines = lines.replace("\"decision\":35", "\"decision\":99").into_bytes();
        let records = records(&lines);
        let kept = keep(&records, 0..COUNT as usize);
        assert_eq!(kept, records.digests().as_flattened());
        assert_eq!(compute(records.texts(), &kept).expect("lines").lines, lines);
    }

    #[test]
    fn st_1_a_changed_bit_is_noticed() {
        let (digests, packed) = ((0..200_u8).collect::<Vec<_>>(), b"packed");
        let stored = checked(digests.clone(), packed);
        assert_eq!(check(&stored, packed), Some(&*digests));
        for bit in 0..stored.len() * 8 {
            let mut changed = stored.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(check(&changed, packed), None, "bit {bit}");
        }
        for place in 0..packed.len() {
            let mut changed = packed.to_vec();
            changed[place] ^= 0x10;
            assert_eq!(check(&stored, &changed), None, "byte {place}");
        }
        assert!((0..stored.len()).all(|len| check(&stored[..len], packed).is_none()));
    }
}

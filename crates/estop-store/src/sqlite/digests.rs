//! The hashes of a block's records, as they stand beside its lines. A chain's first record in the block has both of its own
//! in full; those after it are computed from the lines, and a few bytes of each are kept, which tell which record was
//! changed.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;

use estop_core::chain::Digest;
use estop_core::journal::{HASHES_LEN, relink, write_hashes};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use crate::line;
use crate::records::{DIGESTS_LEN, Records};

const CHECKSUM_LEN: usize = 8;
/// Bytes kept of each of a record's two hashes, where they can be computed. Not for safety, which is in the chain: one
/// change in four billion is noticed a record later.
const KEPT: usize = 4;

/// The hashes of some of the records.
pub(super) fn keep(records: &Records, part: Range<usize>) -> Vec<u8> {
    let mut met = vec![false; records.chains().len()];
    let mut out = Vec::with_capacity(part.len() * 2 * KEPT + met.len() * DIGESTS_LEN + CHECKSUM_LEN);
    for (place, digests) in records.places()[part.clone()].iter().zip(&records.digests()[part]) {
        if std::mem::replace(&mut met[place.chain.index()], true) {
            let (events, decisions) = digests.split_at(DIGESTS_LEN / 2);
            out.extend_from_slice(&events[..KEPT]);
            out.extend_from_slice(&decisions[..KEPT]);
        } else {
            out.extend_from_slice(digests);
        }
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
    compute(texts, digests.as_flattened())
}

/// Lines with their hashes; `None` if these are not theirs.
pub(super) fn compute(texts: &[u8], kept: &[u8]) -> Option<Vec<u8>> {
    let count = memchr::memchr_iter(b'\n', texts).count();
    let mut out = Vec::with_capacity(texts.len() + count * HASHES_LEN);
    // In blocks of before each record has its own.
    let mut chains = Heads { all_kept: kept.len() == count * DIGESTS_LEN, kept, of: HashMap::new() };
    for text in line::each(texts) {
        let (events, decisions) = chains.next(text)?;
        out.extend_from_slice(text);
        write_hashes(&events, &decisions, &mut out);
    }
    chains.kept.is_empty().then_some(out)
}

/// The heads of a block's chains, while its lines are read.
struct Heads<'a> {
    all_kept: bool,
    kept: &'a [u8],
    of: HashMap<Cow<'a, str>, (Digest, Digest)>,
}

impl<'a> Heads<'a> {
    /// The hashes of the next line.
    fn next(&mut self, text: &'a [u8]) -> Option<(Digest, Digest)> {
        if self.all_kept {
            return self.full();
        }
        let chain = line::head(text)?.chain;
        let Some(before) = self.of.get(&chain).copied() else {
            let own = self.full()?;
            self.of.insert(chain, own);
            return Some(own);
        };
        let (mut events, mut decisions) = relink(before, text)?;
        // A changed record has other hashes; with what was kept of the old ones in them, whoever verifies finds it.
        events.0[..KEPT].copy_from_slice(self.take::<KEPT>()?);
        decisions.0[..KEPT].copy_from_slice(self.take::<KEPT>()?);
        self.of.insert(chain, (events, decisions));
        Some((events, decisions))
    }

    fn full(&mut self) -> Option<(Digest, Digest)> {
        Some((Digest(*self.take()?), Digest(*self.take()?)))
    }

    fn take<const N: usize>(&mut self) -> Option<&'a [u8; N]> {
        let (taken, rest) = self.kept.split_first_chunk()?;
        self.kept = rest;
        Some(taken)
    }
}

#[cfg(test)]
mod tests {
    use estop_core::event::{Event, What};
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
            let chain = ["coder", "quote\"and\\slash", "größe"][(n * n % 3) as usize];
            chains.append(chain, now, Happened::Agent(&Event::open(What::Tick)), &n, &mut lines);
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
        assert_eq!(compute(records.texts(), &kept).as_deref(), Some(&*lines));
        assert_eq!(whole(records.texts(), records.digests()).as_deref(), Some(&*lines), "as before");
        for len in [0, 8, 64, kept.len() - 1] {
            assert_eq!(compute(records.texts(), &kept[..len]), None);
        }
        assert_eq!(compute(records.texts(), &[&kept[..], &[0; 8]].concat()), None);
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
            assert_eq!(broken(&changed), Some(at as u64 + 1));
        }
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

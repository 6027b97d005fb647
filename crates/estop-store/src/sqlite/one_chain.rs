//! The lines of one chain out of a block of many. In a large fleet each of an agent's records stands in another block: the
//! lines of all others are neither spelled out nor hashed for it.

use super::digests::{Computed, check, compute_picked};
use super::packed::{Stored, inflate};
use super::shorn::{Shorn, is_shorn};
use crate::line;

/// Lines of a block.
pub(super) struct OneChain {
    /// Those of the chain; all, if they are not shorn.
    pub(super) lines: Vec<u8>,
    /// How many lines the block has.
    pub(super) count: u64,
}

/// `None` if the block is damaged. Whether a line was changed is not asked.
pub(super) fn one_chain(stored: &Stored<'_>, chain: &str) -> Option<OneChain> {
    if let Stored { lines, raw_bytes: Some(raw_bytes), digests: Some(digests) } = *stored {
        let kept = check(digests, lines)?;
        let inflated = inflate(lines, raw_bytes)?;
        if is_shorn(&inflated) {
            return picked(&Shorn::read(&inflated)?, raw_bytes, kept, chain);
        }
    }
    let Computed { lines, .. } = stored.read()?;
    let count = line::each(&lines).count() as u64;
    Some(OneChain { lines, count })
}

fn picked(shorn: &Shorn<'_>, raw_bytes: usize, kept: &[u8], chain: &str) -> Option<OneChain> {
    let (found, count) = (shorn.pick(chain, raw_bytes)?, shorn.count());
    let lines = if found.places.is_empty() { Vec::new() } else { compute_picked(&found, count, kept)?.lines };
    Some(OneChain { lines, count: count as u64 })
}

#[cfg(test)]
mod tests {
    use estop_core::event::{Event, EventKind};
    use estop_core::journal::{Chains, Happened};
    use estop_core::time::{Millis, Now};

    use super::super::packed::pack;
    use super::*;
    use crate::journal::Lines;
    use crate::records::Records;

    const CHAINS: [&str; 4] = ["coder", "quote\"and\\slash", "größe", "once"];

    /// Records of four chains, the last of which has one.
    fn lines(count: u64) -> Lines {
        let (mut chains, mut lines) =
            (Chains::default(), Lines { first_seq: 1, last_seq: count, ..Lines::default() });
        for n in 0..count {
            let now = Now { mono: Millis(n * 3), wall: n as i64 - 5 };
            let at = if n == count / 2 { 3 } else { (n + n / 5) % 3 };
            let event = Event::open(EventKind::Tick);
            chains.append(CHAINS[at as usize], now, Happened::Agent(&event), &n, &mut lines.bytes);
        }
        lines
    }

    fn of(lines: &[u8], chain: &str) -> Vec<u8> {
        let own = line::each(lines).filter(|line| line::head(line).is_some_and(|head| head.chain == chain));
        own.flat_map(|line| [line, b"\n"].concat()).collect()
    }

    #[test]
    fn st_1_a_chains_lines_are_those_of_the_whole_block() {
        for count in [1, 2, 3, 4, 40, 1500] {
            let whole = lines(count);
            let blocks = pack(&Records::read(&whole).expect("records")).expect("packed").blocks;
            for chain in CHAINS.iter().chain(&["nobody"]) {
                let found = blocks.iter().map(|block| one_chain(&block.stored(), chain).expect("whole"));
                let mut own = Vec::new();
                for found in found {
                    own.extend_from_slice(&of(&found.lines, chain));
                }
                assert_eq!(own, of(&whole.bytes, chain), "{chain} of {count}");
            }
            let told: u64 =
                blocks.iter().map(|block| one_chain(&block.stored(), "coder").expect("whole").count).sum();
            assert_eq!(told, count);
        }
    }

    #[test]
    fn st_1_only_the_lines_of_the_chain_are_spelled_out() {
        let blocks = pack(&Records::read(&lines(400)).expect("records")).expect("packed").blocks;
        let found = one_chain(&blocks[0].stored(), "once").expect("whole");
        assert_eq!((line::each(&found.lines).count(), found.count), (1, 400));
    }

    #[test]
    fn st_1_what_was_damaged_is_noticed() {
        let blocks = pack(&Records::read(&lines(40)).expect("records")).expect("packed").blocks;
        let Stored { lines, raw_bytes, digests } = blocks[0].stored();
        let digests = digests.expect("they stand apart");
        for place in 0..lines.len() {
            let mut changed = lines.to_vec();
            changed[place] ^= 4;
            let stored = Stored { lines: &changed, raw_bytes, digests: Some(digests) };
            assert!(one_chain(&stored, "coder").is_none(), "byte {place}");
        }
        for length in 0..digests.len() {
            let stored = Stored { lines, raw_bytes, digests: Some(&digests[..length]) };
            assert!(one_chain(&stored, "coder").is_none(), "{length} bytes of hashes");
        }
    }

    #[test]
    fn st_1_hashes_that_are_kept_whole_are_taken_from_their_places() {
        let mut changed = lines(40);
        let text =
            String::from_utf8(changed.bytes).expect("text").replace("\"decision\":35", "\"decision\":99");
        changed.bytes = text.into_bytes();
        let blocks = pack(&Records::read(&changed).expect("records")).expect("packed").blocks;
        for chain in CHAINS {
            let found = one_chain(&blocks[0].stored(), chain).expect("whole");
            assert_eq!(found.lines, of(&changed.bytes, chain));
        }
    }
}

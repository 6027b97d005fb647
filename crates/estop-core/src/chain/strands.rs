//! Links of many chains side by side. A link waits for the one before it, and for no other chain's: where a processor can
//! hash several texts at once, each is of another chain.

use std::ops::Range;

use fearless_simd::Level;

use super::link::{BEGIN, BLOCK, block_of, blocks_of, digest};
use super::wide::{self, LANES, Words};

/// A link that is to be computed.
pub(crate) struct Wanted {
    /// Its bytes.
    pub(crate) bytes: Range<usize>,
    /// The next one of its chain, if it is wanted too.
    pub(crate) next: Option<usize>,
}

/// The links of a chain that are to be computed, one behind the other.
pub(crate) struct Strand {
    /// The link before the first.
    before: [u8; 32],
    first: usize,
    /// Their blocks.
    blocks: usize,
}

impl Strand {
    /// None yet, of a chain whose last link is known; the first will be this one.
    pub(crate) fn new(first: usize, before: [u8; 32]) -> Strand {
        Strand { before, first, blocks: 0 }
    }

    /// A link of so many bytes is wanted.
    pub(crate) fn add(&mut self, len: usize) {
        self.blocks += blocks_of(len);
    }
}

/// How links are computed here if there are many: `None` = best one by one. Instructions for SHA-256 are as quick, and need
/// no others beside.
pub(crate) fn wide_level() -> Option<Level> {
    #[cfg(target_arch = "x86_64")]
    if !std::arch::is_x86_feature_detected!("sha") {
        return Level::new().as_avx2().map(Level::Avx2);
    }
    None
}

/// Whether links are computed quicker side by side. A block of all lanes takes as long as one and a half alone: too long for
/// what has only one other beside it.
pub(crate) fn is_quicker(strands: &[Strand]) -> bool {
    let longest = strands.iter().map(|strand| strand.blocks).max().unwrap_or(0);
    strands.iter().map(|strand| strand.blocks).sum::<usize>() > 2 * longest
}

/// Computes all that is wanted of a text, into the same places as it stands in.
pub(crate) fn link_all(
    level: Level,
    text: &[u8],
    wanted: &[Wanted],
    strands: &mut [Strand],
    digests: &mut [[u8; 32]],
) {
    // The longest first, so that few are left at the end.
    strands.sort_unstable_by_key(|strand| std::cmp::Reverse(strand.blocks));
    let mut work = Work { text, wanted, digests, left: strands.iter() };
    let mut lanes: [Option<Lane<'_>>; LANES] = [const { None }; LANES];
    let mut blocks = [[0; BLOCK]; LANES];
    let mut states: [Words; 8] = [[0; LANES]; 8];
    for (at, lane) in lanes.iter_mut().enumerate() {
        *lane = work.next_strand();
        set_state(&mut states, at, BEGIN);
    }
    while lanes.iter().any(Option::is_some) {
        for (lane, block) in lanes.iter().zip(&mut blocks) {
            if let Some(lane) = lane {
                *block = block_of(&lane.before, lane.bytes, lane.nth);
            }
        }
        wide::compress(level, &mut states, &blocks);
        for (at, place) in lanes.iter_mut().enumerate() {
            if let Some(lane) = place
                && lane.went_on()
            {
                let link = lane.link;
                *place = work.end(link, digest(state(&states, at)));
                set_state(&mut states, at, BEGIN);
            }
        }
    }
}

/// The state of one lane.
fn state(states: &[Words; 8], lane: usize) -> [u32; 8] {
    let mut own = [0; 8];
    for (own, words) in own.iter_mut().zip(states) {
        *own = words[lane];
    }
    own
}

fn set_state(states: &mut [Words; 8], lane: usize, state: [u32; 8]) {
    for (words, own) in states.iter_mut().zip(state) {
        words[lane] = own;
    }
}

/// What is left to be done.
struct Work<'a> {
    text: &'a [u8],
    wanted: &'a [Wanted],
    digests: &'a mut [[u8; 32]],
    left: std::slice::Iter<'a, Strand>,
}

impl<'a> Work<'a> {
    fn next_strand(&mut self) -> Option<Lane<'a>> {
        let strand = self.left.next()?;
        Some(self.begin(strand.first, strand.before))
    }

    /// A link was computed; the next one of its chain comes, or another chain.
    fn end(&mut self, link: usize, digest: [u8; 32]) -> Option<Lane<'a>> {
        self.digests[link] = digest;
        match self.wanted[link].next {
            Some(next) => Some(self.begin(next, digest)),
            None => self.next_strand(),
        }
    }

    fn begin(&self, link: usize, before: [u8; 32]) -> Lane<'a> {
        let bytes = &self.text[self.wanted[link].bytes.clone()];
        Lane { link, before, bytes, nth: 0, count: blocks_of(bytes.len()) }
    }
}

/// A link that is being computed.
struct Lane<'a> {
    link: usize,
    before: [u8; 32],
    bytes: &'a [u8],
    /// Blocks so far.
    nth: usize,
    count: usize,
}

impl Lane<'_> {
    /// A block was hashed; whether it was the last.
    fn went_on(&mut self) -> bool {
        self.nth += 1;
        self.nth == self.count
    }
}

/// All that this processor can do.
#[cfg(test)]
pub(crate) fn levels() -> Vec<Level> {
    let best = Level::new();
    #[cfg(target_arch = "x86_64")]
    let lower = [best.as_sse4_2().map(Level::Sse4_2), best.as_avx2().map(Level::Avx2)];
    #[cfg(not(target_arch = "x86_64"))]
    let lower = [None];
    std::iter::once(best).chain(lower.into_iter().flatten()).collect()
}

#[cfg(test)]
mod tests {
    use super::super::link::link;
    use super::*;

    /// So many links of each chain, in turn, of all kinds of lengths.
    fn tried(counts: &[usize]) {
        let text: Vec<u8> = (0..700_u32).map(|n| (n * n % 251) as u8).collect();
        let mut wanted: Vec<Wanted> = Vec::new();
        let mut strands: Vec<Strand> = Vec::new();
        let mut expected = Vec::new();
        for (chain, count) in counts.iter().enumerate() {
            let mut before = [chain as u8; 32];
            strands.push(Strand::new(wanted.len(), before));
            for nth in 0..*count {
                let from = (chain * 7 + nth) % 90;
                let bytes = from..from + (chain * 61 + nth * 13) % 600;
                before = link(&before, &text[bytes.clone()]);
                expected.push(before);
                let next = (nth + 1 < *count).then_some(wanted.len() + 1);
                strands[chain].add(bytes.len());
                wanted.push(Wanted { bytes, next });
            }
        }
        for level in levels() {
            let mut digests = vec![[0; 32]; wanted.len()];
            link_all(level, &text, &wanted, &mut strands, &mut digests);
            assert_eq!(digests, expected, "{counts:?} {level:?}");
        }
    }

    #[test]
    fn tw_7_links_side_by_side_are_those_of_one_by_one() {
        tried(&[]);
        tried(&[1]);
        tried(&[2, 1]);
        tried(&[100]);
        tried(&[40, 1, 1, 1, 1, 1, 1, 1, 1]);
        tried(&(1..30).collect::<Vec<_>>());
        tried(&[3; 65]);
    }

    #[test]
    fn st_1_one_busy_agent_is_linked_as_before() {
        let strands = |blocks: &[usize]| -> Vec<Strand> {
            blocks.iter().map(|blocks| Strand { blocks: *blocks, ..Strand::new(0, [0; 32]) }).collect()
        };
        assert!(!is_quicker(&[]) && !is_quicker(&strands(&[9, 4])), "one agent");
        assert!(!is_quicker(&strands(&[900, 400, 9, 4])), "hardly anybody beside it");
        assert!(is_quicker(&strands(&[9, 4, 9, 4])), "two agents");
    }
}

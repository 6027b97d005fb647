//! Records that were written and not linked yet.

use std::ops::Range;

use super::{ChainAt, Chains};
use crate::chain::Heads;

/// A record that was written up to its hashes, and is not linked yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unlinked {
    pub(super) at: ChainAt,
    pub(super) event: Range<usize>,
    pub(super) decision: Range<usize>,
    /// How many bytes stand after its number, chain and time.
    pub after_time: usize,
}

impl Chains {
    /// Links all records that were written since the last time, and adds their hashes, event and decision in turn.
    /// `text` is what they were written to.
    pub fn link(&mut self, unlinked: &[Unlinked], text: &[u8], digests: &mut Vec<u8>) {
        for record in unlinked {
            let heads = self.link_one(record, text);
            digests.extend_from_slice(&heads.events.0);
            digests.extend_from_slice(&heads.decisions.0);
        }
    }

    pub(super) fn link_one(&mut self, record: &Unlinked, text: &[u8]) -> Heads {
        self.unlinked -= 1;
        let heads = &mut self.chains[record.at.0].heads;
        *heads = heads.link(&text[record.event.clone()], &text[record.decision.clone()]);
        *heads
    }
}

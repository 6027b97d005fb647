//! Records on their way into the store, as whoever linked them has them: their hashes as bytes beside the lines, and of each
//! record what the store must know, so that nothing is read from a line that was just written.

use std::collections::HashMap;
use std::num::NonZeroUsize;

use estop_core::chain::Digest;
use estop_core::ids::Name;
use estop_core::journal::{ChainAt, Chains, Unlinked, Written, relink};
use estop_core::time::Now;

use crate::error::StoreError;
use crate::journal::Lines;
use crate::line;

/// Bytes of a record's two hashes.
pub(crate) const DIGESTS_LEN: usize = 64;

/// Records without a gap, in the order of their numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Records {
    first_seq: u64,
    /// The lines without their hashes: what the core appends apart, each ended by `\n`.
    texts: Vec<u8>,
    /// The hashes, event and decision in turn.
    digests: Vec<u8>,
    places: Vec<Place>,
    /// The last of them, whose hashes are missing still.
    unlinked: Vec<Unlinked>,
    /// The chains they belong to.
    chains: Vec<Name>,
    /// Each follows the one before it in its chain, hashes included.
    is_linked: bool,
}

/// What the store must know of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// Where its line ends, with its end.
    pub(crate) end: usize,
    pub(crate) chain: RecordsChain,
    pub(crate) now: Now,
    /// How many bytes of it stand after its number, chain and time, with its end, of which there is always one; `None` = it
    /// does not begin with these, as the core writes them.
    pub(crate) rest_len: Option<NonZeroUsize>,
}

/// Which of the chains of some [`Records`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordsChain(u32);

impl RecordsChain {
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

impl Records {
    /// None yet; the first will be this one, and each will follow the one before it in its chain. Takes over the room of others that are done with.
    pub fn from_seq(first_seq: u64, mut room: Records) -> Records {
        debug_assert!(room.unlinked.is_empty(), "its chains would lack links");
        room.clear();
        Records { first_seq, is_linked: true, ..room }
    }

    /// Makes room for so many more, whose lines have so many bytes each.
    pub fn reserve(&mut self, records: usize, bytes_each: usize) {
        self.texts.reserve(records * bytes_each);
        self.digests.reserve(records * DIGESTS_LEN);
        self.places.reserve(records);
    }

    /// Adds a chain: once for each that has records here. A name that came twice could not be read back.
    pub fn add_chain(&mut self, name: Name) -> RecordsChain {
        debug_assert!(!self.chains.contains(&name), "{name} came twice");
        self.chains.push(name);
        RecordsChain(u32::try_from(self.chains.len() - 1).unwrap_or(u32::MAX))
    }

    /// Adds the next record of a chain. [`Records::link`] must be called before they are stored.
    pub fn add(
        &mut self,
        chain: RecordsChain,
        (chains, at): (&mut Chains, ChainAt),
        now: Now,
        written: Written<'_>,
    ) {
        let unlinked = chains.write_apart(at, now, written, &mut self.texts);
        let rest_len = NonZeroUsize::new(unlinked.after_time + 1);
        self.unlinked.push(unlinked);
        self.end(chain, now, rest_len);
    }

    /// Links all records that were added.
    pub fn link(&mut self, chains: &mut Chains) {
        chains.link(&self.unlinked, &self.texts, &mut self.digests);
        self.unlinked.clear();
    }

    /// Ends a line.
    fn end(&mut self, chain: RecordsChain, now: Now, rest_len: Option<NonZeroUsize>) {
        self.texts.push(b'\n');
        self.places.push(Place { end: self.texts.len(), chain, now, rest_len });
    }

    /// Reads whole lines; an error if they are not what they are said to be.
    pub(crate) fn read(lines: &Lines) -> Result<Records, StoreError> {
        if lines.bytes.last() != Some(&b'\n') {
            return Err(StoreError::Invalid("a batch of lines must end with a line end".to_owned()));
        }
        let mut records = Records::from_seq(lines.first_seq, Records::default());
        let mut chains: HashMap<Name, RecordsChain> = HashMap::new();
        let mut last: HashMap<usize, (Digest, Digest)> = HashMap::new();
        let mut next = lines.first_seq;
        for line in line::each(&lines.bytes) {
            let head = line::head(line).filter(|head| head.seq == next);
            let Some((head, (text, events, decisions))) = head.zip(line::apart(line)) else {
                let problem = format!("record {next} of the batch is missing or not a record");
                return Err(StoreError::Invalid(problem));
            };
            let chain = match chains.get(head.chain.as_ref()) {
                Some(chain) => *chain,
                None => {
                    let name = Name::from(head.chain.as_ref());
                    *chains.entry(name.clone()).or_insert_with(|| records.add_chain(name))
                }
            };
            let before = last.insert(chain.index(), (events, decisions));
            records.is_linked &=
                before.is_none_or(|before| relink(before, text) == Some((events, decisions)));
            records.texts.extend_from_slice(text);
            let rest_len = head.after(text).and_then(|rest| NonZeroUsize::new(rest.len() + 1));
            records.end(chain, head.now, rest_len);
            records.digests.extend_from_slice(&events.0);
            records.digests.extend_from_slice(&decisions.0);
            next += 1;
        }
        if next != lines.last_seq.saturating_add(1) {
            return Err(StoreError::Invalid(format!("the batch ends before record {}", lines.last_seq)));
        }
        Ok(records)
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Room for lines that it holds, used or not.
    pub fn room(&self) -> usize {
        self.texts.capacity()
    }

    fn clear(&mut self) {
        self.texts.clear();
        self.digests.clear();
        self.places.clear();
        self.unlinked.clear();
        self.chains.clear();
    }

    pub(crate) fn is_linked(&self) -> bool {
        self.is_linked
    }

    /// Whether all have their hashes.
    pub(crate) fn is_whole(&self) -> bool {
        self.unlinked.is_empty()
    }

    pub(crate) fn first_seq(&self) -> u64 {
        self.first_seq
    }

    pub(crate) fn texts(&self) -> &[u8] {
        &self.texts
    }

    pub(crate) fn digests(&self) -> &[[u8; DIGESTS_LEN]] {
        debug_assert!(self.is_whole(), "hashes are missing");
        self.digests.as_chunks().0
    }

    pub(crate) fn places(&self) -> &[Place] {
        &self.places
    }

    pub(crate) fn chains(&self) -> &[Name] {
        &self.chains
    }
}

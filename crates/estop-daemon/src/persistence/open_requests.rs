//! Requests that were under way when the store's newest record was written: what a restart records for them must be counted
//! under their model, run and labels.

use std::collections::BTreeMap;

use estop_core::budget::Amount;
use estop_core::event::{EventKind, RequestReceived};
use estop_core::ids::{Name, RequestId};
use estop_journal::Record;
use estop_store::Journal;

/// Records read at once, at first: most stand near the end, and whoever wants one reads its block.
const PAGE_FIRST: usize = 8;
/// And later.
const PAGE_MAX: usize = 512;
/// Records of one agent that are looked through in the store: a stream of hours beside other work stands further back.
const LOOK_BACK_MAX: usize = 50_000;

/// A request under way.
pub(super) struct OpenRequest {
    pub(super) agent: Name,
    pub(super) request: RequestId,
    /// What it held.
    pub(super) held: Amount,
    /// Its run, when it came and what it asked; `None` if its record is gone.
    pub(super) asked: Option<(Option<Name>, i64, Box<RequestReceived>)>,
}

/// Finds what an agent's open requests asked: in its newest records, the newest first, or before them in the store.
pub(super) fn find(
    store: &dyn Journal,
    agent: &Name,
    last_seq: u64,
    held: impl Iterator<Item = (RequestId, Amount)>,
    newest: &[Vec<u8>],
) -> anyhow::Result<Vec<OpenRequest>> {
    let mut search =
        Search { agent, missing: held.collect(), found: Vec::new(), before: last_seq + 1, looked_at: 0 };
    search.look_through(newest)?;
    search.looked_at = 0;
    let mut page = PAGE_FIRST;
    while !search.missing.is_empty() && search.looked_at < LOOK_BACK_MAX {
        let lines = store.records_of(agent, Some(search.before), page)?;
        if lines.is_empty() {
            break;
        }
        search.look_through(&lines)?;
        page = (page * 4).min(PAGE_MAX);
    }
    Ok(search.end())
}

/// A search backwards through an agent's records.
struct Search<'a> {
    agent: &'a Name,
    missing: BTreeMap<RequestId, Amount>,
    found: Vec<OpenRequest>,
    /// The oldest record that was looked at.
    before: u64,
    looked_at: usize,
}

impl Search<'_> {
    /// Looks through records, the newest first, until nothing is missing.
    fn look_through(&mut self, lines: &[Vec<u8>]) -> anyhow::Result<()> {
        for line in lines {
            if self.missing.is_empty() {
                break;
            }
            self.looked_at += 1;
            let record = Record::parse(line)?;
            self.before = record.seq;
            let Some(event) = record.event else { continue };
            let EventKind::RequestReceived(received) = event.what else { continue };
            if let Some(held) = self.missing.remove(&received.request) {
                let (agent, request, wall) = (self.agent.clone(), received.request, record.now.wall);
                let asked = Some((event.run, wall, Box::new(received)));
                self.found.push(OpenRequest { agent, request, held, asked });
            }
        }
        Ok(())
    }

    /// What was found, and what is gone.
    fn end(mut self) -> Vec<OpenRequest> {
        let gone = |(request, held)| OpenRequest { agent: self.agent.clone(), request, held, asked: None };
        self.found.extend(self.missing.into_iter().map(gone));
        self.found
    }
}

//! Requests that were under way when the store's newest record was written: what a restart books for them must stand in
//! the books under their model, run and labels.

use std::collections::BTreeMap;

use estop_core::budget::Amount;
use estop_core::event::{EventKind, RequestReceived};
use estop_core::ids::{Name, RequestId};
use estop_core::journal::Record;
use estop_store::{Journal, Sqlite};

/// Records read at once, at first: most stand near the end, and whoever wants one reads its block.
const PAGE_FIRST: usize = 8;
/// And later.
const PAGE_MAX: usize = 512;
/// Records of one agent that are looked through in the store: a stream of hours beside other work stands further back.
const LOOK_BACK_MAX: usize = 50_000;

/// A request under way.
pub(super) struct Open {
    pub(super) agent: Name,
    pub(super) request: RequestId,
    /// What it held.
    pub(super) held: Amount,
    /// Its run, when it came and what it asked; `None` if its record is gone.
    pub(super) asked: Option<(Option<Name>, i64, Box<RequestReceived>)>,
}

/// Finds what an agent's open requests asked: in its newest records, the newest first, or before them in the store.
pub(super) fn find(
    store: &Sqlite,
    agent: &Name,
    held: impl Iterator<Item = (RequestId, Amount)>,
    newest: &[Vec<u8>],
) -> anyhow::Result<Vec<Open>> {
    let mut search = Search { agent, missing: held.collect(), found: Vec::new(), before: None, looked_at: 0 };
    search.look_through(newest)?;
    search.looked_at = 0;
    let mut page = PAGE_FIRST;
    while !search.missing.is_empty() && search.looked_at < LOOK_BACK_MAX {
        let lines = store.records_of(agent, search.before, page)?;
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
    found: Vec<Open>,
    /// The oldest record that was looked at.
    before: Option<u64>,
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
            self.before = Some(record.head.seq);
            let Some(event) = record.head.event else { continue };
            let EventKind::RequestReceived(received) = event.what else { continue };
            if let Some(held) = self.missing.remove(&received.request) {
                let (agent, request, wall) = (self.agent.clone(), received.request, record.head.wall);
                let asked = Some((event.run, wall, Box::new(received)));
                self.found.push(Open { agent, request, held, asked });
            }
        }
        Ok(())
    }

    /// What was found, and what is gone.
    fn end(mut self) -> Vec<Open> {
        let gone = |(request, held)| Open { agent: self.agent.clone(), request, held, asked: None };
        self.found.extend(self.missing.into_iter().map(gone));
        self.found
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use estop_core::decision::{Decision, Outcome};
    use estop_core::event::Event;
    use estop_core::journal::{Chains, Happened};
    use estop_core::time::Now;
    use estop_store::{Durability, JournalBatch, Lines, SqliteOptions};

    use super::*;

    fn asked(request: u64) -> Event {
        let received = serde_json::json!({ "type": "request_received", "data": {
            "request": request, "model": format!("m{request}"),
            "print": {"conversation": "00000000000000ff", "ask": "00000000000000fe"},
            "estimate": {"input_tokens": 1, "output_tokens": 2, "usd": 3},
        }});
        Event::open(serde_json::from_value(received).expect("a request"))
    }

    /// The agent asks once, and much else happens to it; then it asks again.
    fn store_with(folder: &std::path::Path, between: u64) -> (Sqlite, Vec<Vec<u8>>) {
        let store = Sqlite::open(&folder.join("estop.db"), SqliteOptions::default()).expect("a store");
        let (mut chains, mut bytes) = (Chains::default(), Vec::new());
        let decision = Decision::plain(Outcome::Noted);
        let mut tell = |event: &Event| {
            chains.append("coder", Now::default(), Happened::Agent(event), &decision, &mut bytes);
        };
        tell(&asked(7));
        (0..between).for_each(|_| tell(&Event::open(EventKind::Tick)));
        tell(&asked(8));
        let lines: Vec<Vec<u8>> = bytes.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
        let last_seq = lines.len() as u64;
        let batch = JournalBatch {
            lines: Some(Lines { first_seq: 1, last_seq, bytes, ..Lines::default() }),
            ..JournalBatch::default()
        };
        store.append(Arc::new(batch), Durability::Process).expect("stored");
        (store, lines.into_iter().rev().collect())
    }

    fn models(store: &Sqlite, newest: &[Vec<u8>]) -> Vec<(u64, Option<Name>)> {
        let held = [7, 8, 9].map(|number| (RequestId(number), Amount::default())).into_iter();
        let found = find(store, &"coder".into(), held, newest).expect("read");
        found
            .into_iter()
            .map(|open| (open.request.0, open.asked.and_then(|(_, _, received)| received.model)))
            .collect()
    }

    #[test]
    fn po_2_open_requests_are_found_wherever_they_stand() {
        let folder = tempfile::tempdir().expect("a folder");
        let found = [(8, Some("m8".into())), (7, Some("m7".into())), (9, None)];
        let (store, newest) = store_with(folder.path(), 3_000);
        for known in [0, 1, 2, 1_500, 3_001, 3_002] {
            assert_eq!(models(&store, &newest[..known]), found, "{known} newest records are at hand");
        }
    }
}

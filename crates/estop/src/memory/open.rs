//! Requests that were under way when the store's newest record was written: what a restart books for them must stand in
//! the books under their model, run and labels.

use std::collections::BTreeMap;

use estop_core::budget::Amount;
use estop_core::event::{RequestReceived, What};
use estop_core::ids::{Name, RequestId};
use estop_core::journal::Record;
use estop_store::{Journal, Sqlite};

/// Records read at once.
const PAGE: usize = 256;
/// Records of one agent that are looked through: a stream of hours beside other work stands further back.
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

/// Finds what an agent's open requests asked.
pub(super) fn find(
    store: &Sqlite,
    agent: &Name,
    held: impl Iterator<Item = (RequestId, Amount)>,
) -> anyhow::Result<Vec<Open>> {
    let mut missing: BTreeMap<RequestId, Amount> = held.collect();
    let mut found = Vec::with_capacity(missing.len());
    let (mut before, mut looked_at) = (None, 0);
    while !missing.is_empty() && looked_at < LOOK_BACK_MAX {
        let lines = store.records_of(agent, before, PAGE)?;
        if lines.is_empty() {
            break;
        }
        looked_at += lines.len();
        for line in &lines {
            let record = Record::parse(line)?;
            before = Some(record.head.seq);
            let Some(event) = record.head.event else { continue };
            let What::RequestReceived(received) = event.what else { continue };
            if let Some(held) = missing.remove(&received.request) {
                let (agent, request, wall) = (agent.clone(), received.request, record.head.wall);
                found.push(Open { agent, request, held, asked: Some((event.run, wall, Box::new(received))) });
            }
        }
    }
    let gone = |(request, held)| Open { agent: agent.clone(), request, held, asked: None };
    found.extend(missing.into_iter().map(gone));
    Ok(found)
}

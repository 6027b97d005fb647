//! What a pruned journal begins with: the state of each agent after the last segment that went, computed from the records
//! themselves.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use estop_core::engine::Snapshot;
use estop_core::ids::Name;
use estop_journal::{Base, Manifest, Record, SYSTEM, check_line, lines_of, records};
use serde_json::value::RawValue;

use super::files::{base_path, sealed_path};
use super::frames::{self, Frames};
use super::sealer::{SealError, is_base_whole, prune_manifest, replace, sha256};

/// The agents' states after the last segment that was pruned, as lines; empty if none was.
pub(super) fn base_lines(folder: &Path, manifest: &Manifest) -> io::Result<Vec<u8>> {
    let Some((segment, _)) = &manifest.pruned else { return Ok(Vec::new()) };
    if !is_base_whole(folder, manifest)? {
        return Err(invalid(format!("the states after segment {segment} were changed")));
    }
    let frames = Frames::open(&base_path(folder, *segment))?;
    let parts = (0..frames.count()).map(|frame| frames.read(frame)).collect::<io::Result<Vec<_>>>()?;
    Ok(parts.concat())
}

fn invalid(problem: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, problem)
}

/// The same: of each agent its state's bytes.
pub fn base_states(folder: &Path, manifest: &Manifest) -> io::Result<BTreeMap<Name, Vec<u8>>> {
    let mut states = BTreeMap::new();
    for line in lines_of(&base_lines(folder, manifest)?) {
        check_line(line).map_err(|error| invalid(error.to_string()))?;
        let read = Base::parse(line).map_err(|error| invalid(error.to_string()))?;
        states.insert(read.agent.as_ref().into(), read.state.get().as_bytes().to_vec());
    }
    Ok(states)
}

/// Prunes the oldest sealed segment: its agents' states after it are written and listed first.
pub fn prune_oldest(folder: &Path, manifest: &mut Manifest) -> Result<u64, SealError> {
    let Some(oldest) = manifest.sealed.first().cloned() else { return Ok(0) };
    let damaged = |problem: String| SealError::Damaged { segment: oldest.segment, problem };
    let mut states = base_states(folder, manifest)?;
    let mut touched: BTreeMap<Name, Snapshot> = BTreeMap::new();
    let frames = Frames::open(&sealed_path(folder, oldest.segment))?;
    for frame in 0..frames.count() {
        let lines = frames.read(frame)?;
        for (line, head) in records(&lines).filter(|(_, head)| head.agent != SYSTEM) {
            let record = Record::parse(line).map_err(|error| damaged(error.to_string()))?;
            let Some(event) = &record.event else { continue };
            if !touched.contains_key(head.agent) {
                let state = states
                    .get(head.agent)
                    .map_or_else(|| Ok(Snapshot::default()), |state| Snapshot::read(state));
                touched.insert(head.agent.into(), state.map_err(|error| damaged(error.to_string()))?);
            }
            if let Some(state) = touched.get_mut(head.agent) {
                state.tell(record.now, event);
                if state.told != head.n {
                    return Err(damaged(format!(
                        "records of {} are missing before record {}",
                        head.agent, head.seq
                    )));
                }
            }
        }
    }
    states.extend(touched.iter().map(|(agent, state)| (agent.clone(), state.write())));
    let compressed = frames::compress(&written(&states)?)?;
    replace(folder, &base_path(folder, oldest.segment), &compressed)?;
    let before = manifest.pruned.as_ref().map(|(segment, _)| *segment);
    prune_manifest(folder, manifest, oldest.segment, sha256(&compressed))?;
    std::fs::remove_file(sealed_path(folder, oldest.segment))?;
    if let Some(before) = before {
        std::fs::remove_file(base_path(folder, before))?;
    }
    Ok(oldest.last_seq)
}

fn written(states: &BTreeMap<Name, Vec<u8>>) -> io::Result<Vec<u8>> {
    let mut lines = Vec::new();
    for (agent, state) in states {
        let text = std::str::from_utf8(state).map_err(io::Error::other)?;
        let told = Snapshot::read(state).map_err(io::Error::other)?.told;
        let state: &RawValue = serde_json::from_str(text)?;
        Base { agent: (&**agent).into(), n: told, state }.write(&mut lines)?;
    }
    Ok(lines)
}

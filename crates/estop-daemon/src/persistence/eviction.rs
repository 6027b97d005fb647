//! Who has a place in memory at a start: everybody, as long as there are places; the others rest in the store.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use estop_config::ServeConfig;
use estop_core::agent::standing::Standing;
use estop_core::engine::Snapshot;
use estop_core::ids::Name;
use estop_gateway::{Evicted, EvictedAgents, RestoredState};
use estop_store::Store;

use super::agent_states::StoredStates;
use super::recovery::KnownAgent;

/// Moves agents to their rest: deleted ones, and if more than three quarters of the places were taken, those that have not
/// called for the longest time. Nobody rests who is named, has a key, is stopped or has something under way.
pub(super) fn evict_at_start(
    store: Arc<dyn Store>,
    known: &[KnownAgent],
    config: &ServeConfig,
    remembered: &mut RestoredState,
) {
    let known: BTreeMap<&Name, &KnownAgent> = known.iter().map(|known| (&known.agent, known)).collect();
    let is_deleted = |name: &Name| known.get(name).is_some_and(|known| known.deleted);
    let seen = |name: &Name| known.get(name).map_or(0, |known| known.seen);
    let mut named: BTreeSet<Name> = config.policies.agents().map(Name::from).collect();
    named.extend(config.agent_keys.keys().cloned());
    named.extend(remembered.over.keys().cloned());
    named.extend(remembered.made_keys.iter().map(|key| key.agent.clone()));

    let agents = std::mem::take(&mut remembered.agents);
    let room = config.limits.agents / 4 * 3;
    let mut order: Vec<usize> = (0..agents.len()).collect();
    order.sort_by_key(|at| (!is_deleted(&agents[*at].0), seen(&agents[*at].0)));
    let mut resting = BTreeSet::new();
    for at in order {
        let (name, kept) = &agents[at];
        let is_over = agents.len() - resting.len() > room;
        let may = is_deleted(name) || (is_over && !named.contains(name) && may_rest(kept));
        if may && !kept.state.is_under_way() {
            resting.insert(at);
        }
    }
    let mut at_rest = BTreeMap::new();
    for (at, (name, kept)) in agents.into_iter().enumerate() {
        if resting.contains(&at) {
            let deleted = is_deleted(&name);
            at_rest.insert(name, Evicted { told: kept.told, deleted });
        } else {
            remembered.agents.push((name, kept));
        }
    }
    remembered.evicted = EvictedAgents::new(at_rest, Arc::new(StoredStates(store)));
}

fn may_rest(kept: &Snapshot) -> bool {
    kept.state.standing() == Standing::Active && kept.state.poll_timeout(&kept.policy).is_none()
}

//! Agents: pages, edits that do not overwrite one another, and what a start loads.

use estop_core::agent::standing::{Cause, DeactivatedBy, Standing};
use estop_core::time::Millis;
use estop_store::{Access, Agent, AgentKey, AgentRepo, Origin, StoreError};

use super::Place;

pub(crate) fn st_1_an_agent_is_kept_with_all_it_has(place: &impl Place) {
    let since = Millis(9);
    let standings = [
        Standing::Active,
        Standing::Inactive { by: DeactivatedBy::Manual, since },
        Standing::Inactive { by: DeactivatedBy::KillSwitch(Cause::Watchdog), since },
        Standing::Paused { cause: None, since },
        Standing::Paused { cause: Some(Cause::Health), since },
    ];
    let full = |(at, standing): (usize, &Standing)| Agent {
        standing: *standing,
        role: Some("coder".into()),
        kill_switch_enabled: Some(true),
        kill_switch_window_size: Some(20),
        kill_switch_threshold_tenths: Some(100),
        policy_overrides: Some("{\"budget\":{}}".to_owned()),
        last_seen_at: Some(3),
        version: 1,
        ..Agent::new(&format!("agent {at}"), Origin::Api, 2)
    };
    let agents: Vec<Agent> = standings.iter().enumerate().map(full).collect();
    {
        let store = place.open();
        for agent in &agents {
            assert_eq!(store.insert_agent(agent).as_ref(), Ok(agent));
        }
        let taken = StoreError::Exists { what: "agent", id: "agent 0".to_owned() };
        assert_eq!(store.insert_agent(&agents[0]), Err(taken));
    }
    let store = place.open();
    assert_eq!(store.agents(None, 10), Ok(agents.clone()));
    assert_eq!(store.agent("agent 3"), Ok(Some(agents[3].clone())));
    assert_eq!(store.agent("agent"), Ok(None));
    let loaded = store.load_agents().expect("agents load");
    assert_eq!(loaded.into_iter().map(|stored| stored.agent).collect::<Vec<_>>(), agents);
}

pub(crate) fn ui_1_agents_come_in_pages_by_name(place: &impl Place) {
    let store = place.open();
    for n in 0..25 {
        store.insert_agent(&Agent::new(&format!("agent-{n:02}"), Origin::Config, n)).expect("a new agent");
    }
    let (mut after, mut names) = (None, Vec::new());
    loop {
        let page = store.agents(after.as_deref(), 10).expect("a page");
        let Some(last) = page.last() else { break };
        after = Some(last.name.to_string());
        names.extend(page.into_iter().map(|agent| agent.name));
    }
    assert_eq!(names.len(), 25);
    assert!(names.is_sorted());
}

pub(crate) fn ui_1_an_edit_of_an_old_version_is_a_conflict(place: &impl Place) {
    let store = place.open();
    let first = store.insert_agent(&Agent::new("a", Origin::Config, 1)).expect("a new agent");
    let edit = Agent { role: Some("reviewer".into()), updated_at: 2, ..first.clone() };
    let second = store.update_agent(&edit).expect("an edit of the newest version");
    assert_eq!((second.version, second.role.as_deref()), (2, Some("reviewer")));
    assert_eq!(store.update_agent(&edit), Err(StoreError::Conflict { current: 2 }));
    assert_eq!(store.delete_agent("a", 1, 3), Err(StoreError::Conflict { current: 2 }));
    let invalid = Agent { policy_overrides: Some("{".to_owned()), ..second.clone() };
    assert!(matches!(store.update_agent(&invalid), Err(StoreError::Invalid(_))));
    assert_eq!(store.agent("a"), Ok(Some(second)));
    let nobody = StoreError::NotFound { what: "agent", id: "nobody".to_owned() };
    assert_eq!(store.update_agent(&Agent::new("nobody", Origin::Api, 1)), Err(nobody));
}

pub(crate) fn ui_1_a_deleted_agent_is_gone_and_its_name_is_free(place: &impl Place) {
    let store = place.open();
    let old = store.insert_agent(&Agent::new("a", Origin::Config, 1)).expect("a new agent");
    let key = AgentKey {
        id: "k1".into(),
        agent: "a".into(),
        sha256: [7; 32],
        prefix: "es_7".into(),
        created_at: 1,
        revoked_at: None,
        last_used_at: None,
    };
    store.insert_key(&key).expect("a new key");
    store.delete_agent("a", 1, 5).expect("it is deleted");
    assert_eq!(store.agents(None, 10), Ok(Vec::new()));
    assert_eq!(store.load_agents(), Ok(Vec::new()));
    assert_eq!(store.agent("a").map(|agent| agent.is_some_and(|agent| agent.deleted)), Ok(true));
    assert_eq!(store.keys().expect("keys")[0].revoked_at, Some(5), "its keys open nothing any more");
    let gone = StoreError::NotFound { what: "agent", id: "a".to_owned() };
    assert_eq!(store.update_agent(&old), Err(gone.clone()));
    assert_eq!(store.delete_agent("a", 2, 6), Err(gone));

    let new = store.insert_agent(&Agent::new("a", Origin::Api, 7)).expect("the name is free");
    assert_eq!((new.version, new.origin, new.deleted), (3, Origin::Api, false));
    assert_eq!(store.update_agent(&old), Err(StoreError::Conflict { current: 3 }), "an old edit misses it");
}

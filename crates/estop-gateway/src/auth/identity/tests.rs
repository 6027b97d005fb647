//! Paths, keys and tickets: who may call as whom.

use std::collections::BTreeMap;

use super::keys::digest;
use super::*;

#[test]
fn id_1_the_path_names_agent_and_provider() {
    let route = |path| route(path).map(|r| (r.agent, r.provider, r.path));
    assert_eq!(route("/agents/a1/openai/v1/x"), Ok((Some("a1"), "openai", "/v1/x")));
    assert_eq!(route("/openai/v1/x"), Ok((None, "openai", "/v1/x")));
    assert_eq!(route("/openai"), Ok((None, "openai", "")));
    assert_eq!(route("/agents/a1"), Err(IdentityError::NoProvider));
    assert_eq!(route("/agents/a%31/openai/v1"), Err(IdentityError::BadName("agent")));
    assert_eq!(route("/agents/system/openai/v1"), Err(IdentityError::BadName("agent")), "the journal's own");
    assert_eq!(route("/runs/00ff/openai/v1/x"), Ok((None, "openai", "/v1/x")));
    assert_eq!(route("/runs/00ff"), Err(IdentityError::NoProvider));
    assert_eq!(route("/"), Err(IdentityError::NoProvider));
    assert_eq!(route("*"), Err(IdentityError::NoProvider));
}

#[test]
fn id_4_dot_segments_lead_nowhere() {
    for path in [
        "/openai/../x",
        "/openai/%2e%2E/x",
        "/openai/.%2e",
        "/openai/a%2f..%2fb",
        "/openai/a\\..\\b",
        "/openai/..;a/b",
    ] {
        assert_eq!(route(path).err(), Some(IdentityError::DotSegments), "{path}");
    }
    assert!(route("/openai/v1.5/..x").is_ok());
}

fn with_ticket(headers: &[(&'static str, &str)], require_keys: bool) -> Result<String, IdentityError> {
    let tickets = std::sync::Arc::new(Tickets::default());
    let held = tickets.hold(digest(b"secret"), "a1", "r1", Instant::now());
    let keys = Keys::of(BTreeMap::from([(digest(b"key"), "a1".into()), (digest(b"other"), "a2".into())]));
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        map.insert(*name, value.parse().expect("a header"));
    }
    let uri = Uri::from_static("/runs/secret/openai/v1/x");
    let route = route(uri.path())?;
    let holds = Holds { require_keys, configured: None, may_call: &|_| true };
    let found = caller(&route, &uri, &map, &keys, &tickets, &holds);
    drop(held);
    found.map(|caller| format!("{} {}", caller.agent, caller.run.as_deref().unwrap_or("-")))
}

#[test]
fn id_7_a_ticket_acts_only_as_its_agent_and_in_its_run() {
    let ours = || Ok("a1 r1".to_owned());
    assert_eq!(with_ticket(&[], false), ours());
    assert_eq!(with_ticket(&[], true), ours(), "it stands for a key");
    assert_eq!(with_ticket(&[("x-estop-run", "r1"), ("x-estop-agent", "a1")], false), ours());
    assert_eq!(with_ticket(&[("x-estop-key", "key")], true), ours());
    let another = |what| Err(IdentityError::TicketOfAnother(what));
    assert_eq!(with_ticket(&[("x-estop-run", "r2")], false), another("run"));
    assert_eq!(with_ticket(&[("x-estop-agent", "a2")], false), another("agent"));
    let of_a2 = Err(IdentityError::KeyOfAnother { agent: "a2".into() });
    assert_eq!(with_ticket(&[("x-api-key", "other")], false), of_a2);
}

#[test]
fn id_7_an_unknown_ticket_is_nobodys() {
    let uri = Uri::from_static("/runs/guess/openai/v1/x");
    let route = route(uri.path()).expect("a path");
    let holds = Holds { require_keys: false, configured: None, may_call: &|_| true };
    let found = caller(&route, &uri, &HeaderMap::new(), &Keys::default(), &Tickets::default(), &holds);
    assert_eq!(found, Err(IdentityError::TicketUnknown));
}

/// Who a request is taken for, with `coder` the only agent that has a key, and `known` the only one that is named besides.
fn taken_for(
    path: &str,
    headers: &[(&'static str, &str)],
    require_keys: bool,
) -> Result<String, IdentityError> {
    let made = format!("estop_key_{}", "0f".repeat(32));
    let keys = Keys::of(BTreeMap::from([
        (digest(b"chosen-by-someone"), "Coder".into()),
        (digest(made.as_bytes()), "Coder".into()),
    ]));
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        map.insert(*name, value.replace("MADE", &made).parse().expect("a header"));
    }
    let uri: Uri = path.replace("MADE", &made).parse().expect("a path");
    let route = route(uri.path())?;
    let may_call = |agent: &str| agent == "known";
    let holds = Holds { require_keys, configured: None, may_call: &may_call };
    caller(&route, &uri, &map, &keys, &Tickets::default(), &holds).map(|caller| caller.agent.to_string())
}

#[test]
fn se_5_an_agent_with_a_key_is_only_reached_by_it() {
    let coder = || Ok("Coder".to_owned());
    let needed = |agent: &str, sent_any| Err(IdentityError::KeyNeeded { agent: agent.into(), sent_any });
    for name in ["coder", "Coder", "CODER"] {
        let path = format!("/agents/{name}/openai/v1/x");
        assert_eq!(taken_for(&path, &[], false), needed(name, false), "a name alone");
        assert_eq!(taken_for(&path, &[("authorization", "Bearer sk-provider")], false), needed(name, true));
        assert_eq!(taken_for(&path, &[("authorization", "Bearer MADE")], false), coder());
        assert_eq!(taken_for(&path, &[("x-estop-key", "chosen-by-someone")], false), coder());
        assert_eq!(taken_for(&path, &[("x-estop-key", "wrong")], false), Err(IdentityError::KeyUnknown));
    }
    assert_eq!(taken_for("/openai/v1/x", &[("x-estop-agent", "cODER")], false), needed("cODER", false));
    assert_eq!(taken_for("/openai/v1/x?key=MADE", &[], false), coder());
    let another = Err(IdentityError::KeyOfAnother { agent: "Coder".into() });
    assert_eq!(taken_for("/agents/known/openai/v1/x", &[("authorization", "Bearer MADE")], false), another);
}

#[test]
fn se_5_what_is_meant_as_a_key_and_is_none_acts_as_nobody() {
    for path in ["/agents/known/openai/v1/x", "/openai/v1/x"] {
        for header in ["authorization", "x-api-key", "x-goog-api-key", "api-key"] {
            let found = taken_for(path, &[(header, "estop_key_wrong")], false);
            assert_eq!(found, Err(IdentityError::KeyUnknown), "{path} {header}");
        }
        let in_query = taken_for(&format!("{path}?key=estop_key_0"), &[], false);
        assert_eq!(in_query, Err(IdentityError::KeyUnknown));
    }
}

#[test]
fn se_5_names_that_nobody_named_are_refused_where_keys_are() {
    let unknown = |agent: &str| Err(IdentityError::AgentUnknown { agent: agent.into() });
    assert_eq!(taken_for("/agents/known/openai/v1/x", &[], false), Ok("known".to_owned()));
    assert_eq!(taken_for("/agents/anything/openai/v1/x", &[], false), unknown("anything"));
    assert_eq!(taken_for("/openai/v1/x", &[], false), unknown("default"), "nor as nobody");
    assert_eq!(taken_for("/agents/known/openai/v1/x", &[], true), Err(IdentityError::KeyMissing));
}

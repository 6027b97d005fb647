//! The bytes are those of `serde_json`.

use std::collections::BTreeMap;

use super::*;
use crate::engine::AgentState;
use crate::event::{Event, EventKind, RequestReceived, ResponseCompleted};
use crate::fingerprint::RequestPrint;
use crate::fingerprint::simhash::SimHash;
use crate::ids::{Hash64, RequestId};
use crate::policy::Policy;
use crate::time::{Millis, Now};

#[derive(Serialize)]
enum Kind {
    Unit,
    New(i64),
    Pair(u8, String),
    Named { a: Option<u32>, b: Vec<bool> },
}

#[derive(Serialize)]
struct All<'a> {
    kinds: Vec<Kind>,
    text: &'a str,
    none: Option<u8>,
    map: BTreeMap<String, i32>,
    numbered: BTreeMap<u8, ()>,
    float: f64,
}

fn same<T: Serialize>(value: &T) {
    let mut ours = Vec::new();
    write(&mut ours, value);
    assert_eq!(String::from_utf8_lossy(&ours), serde_json::to_string(value).expect("JSON"));
}

#[test]
fn tw_7_records_have_the_bytes_serde_json_gives_them() {
    let letters = "abcdefghijklmnopqrstuvwxyz";
    for length in 0..=letters.len() {
        same(&&letters[..length]);
        // What must be escaped is found wherever it stands.
        for at in 0..length {
            same(&[&letters[..at], "\"", &letters[at + 1..length]].concat());
        }
    }
    for text in ["", "plain", "quo\"te", "back\\slash", "line\nend", "\u{1}", "größe 🙂", "a/b</script>"]
    {
        same(&text);
        same(&BTreeMap::from([(text, 1)]));
    }
    for power in (0..20).map(|digits| 10_u64.pow(digits)) {
        same(&[power - 1, power, power + 1, power / 2, u64::MAX - power]);
    }
    same(&[i64::MIN, -1, 0, i64::MAX]);
    same(&[0, 7, u128::from(u64::MAX), u128::from(u64::MAX) + 1, u128::MAX]);
    let named = Kind::Named { a: Some(7), b: vec![true, false] };
    let kinds = vec![Kind::Unit, Kind::New(-5), Kind::Pair(1, "x".into()), named];
    let map = BTreeMap::from([("k".to_owned(), -1)]);
    same(&BTreeMap::from([(-12, 0), (0, 1), (345, 2)]));
    // Floats are left to serde_json.
    same(&All { kinds, text: "t", none: None, map, numbered: BTreeMap::from([(1, ())]), float: 0.5 });
}

#[test]
fn st_1_a_state_and_its_policy_are_written_without_help() {
    let policy = Policy::default();
    let mut state = AgentState::default();
    for request in (1..=100).map(RequestId) {
        let now = Now { mono: Millis(request.0 * 1_000), wall: 1_763_164_800_000 };
        let print = RequestPrint {
            conversation: Hash64(request.0 % 7),
            prompt: Some(SimHash(request.0)),
            ..RequestPrint::default()
        };
        let asked = RequestReceived {
            other_models: Vec::new(),
            path: None,
            request,
            call: Default::default(),
            model: Some("gpt-4o-mini".into()),
            print,
            estimate: Default::default(),
            fleet: None,
            tags: None,
        };
        state.handle(now, &Event::open(EventKind::RequestReceived(asked)), &policy);
        let answered = ResponseCompleted {
            request,
            ended: Default::default(),
            print: Default::default(),
            usage: Default::default(),
        };
        state.handle(now, &Event::open(EventKind::ResponseCompleted(answered)), &policy);
    }
    let mut ours = Vec::new();
    let written = (&policy, &state).serialize(Writer { out: &mut ours });
    assert!(written.is_ok(), "left to serde_json: what follows {}", String::from_utf8_lossy(&ours));
    same(&(&policy, &state));
}

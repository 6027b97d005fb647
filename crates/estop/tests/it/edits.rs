//! Edits by several people at once, through the API of a real estop (UI-3): with `If-Match` exactly one of those who saw the
//! same version wins, and the others are told; without it, nobody's other fields are lost.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Barrier;

use crate::house::{House, PATIENCE};
use serde_json::{Value, json};

const ROUNDS: usize = 12;
const PEOPLE: usize = 50;

/// Status, ETag and body of an answer to the owner of the data directory.
fn call(house: &House, method: &str, path: &str, seen: Option<&str>, body: &Value) -> (u16, String, Value) {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let seen = seen.map(|tag| format!("if-match: {tag}\r\n")).unwrap_or_default();
    let mut stream = UnixStream::connect(house.data().join("estop.sock")).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\n\
         {seen}content-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let tag = head.lines().find_map(|line| line.strip_prefix("etag: ")).unwrap_or_default();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, tag.to_owned(), serde_json::from_str(body).unwrap_or_default())
}

/// All of them at the same moment; what each was answered.
fn at_once<T: Send>(people: usize, act: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let together = Barrier::new(people);
    std::thread::scope(|scope| {
        let acts: Vec<_> = (0..people)
            .map(|person| {
                let (together, act) = (&together, &act);
                scope.spawn(move || {
                    together.wait();
                    act(person)
                })
            })
            .collect();
        acts.into_iter().map(|act| act.join().unwrap()).collect()
    })
}

/// Rounds in which everybody edits the version all of them saw.
fn compete(house: &House, method: &str, path: &str, shown_at: &str, edit: impl Fn(usize) -> Value + Sync) {
    for round in 0..ROUNDS {
        let (_, tag, _) = call(house, "GET", path, None, &Value::Null);
        assert!(!tag.is_empty(), "{path} has no ETag");
        let told = at_once(PEOPLE, |person| {
            let (status, tag, said) = call(house, method, path, Some(&tag), &edit(round * PEOPLE + person));
            (person, status, tag, said)
        });
        let mut winners = told.iter().filter(|(_, status, ..)| *status == 200);
        let (winner, _, new_tag, _) =
            winners.next().unwrap_or_else(|| panic!("{path}: nobody won: {told:?}"));
        assert!(winners.next().is_none(), "{path}: several won: {told:?}");
        assert!(told.iter().all(|(_, status, ..)| [200, 412].contains(status)), "{path}: {told:?}");
        let (_, now, shown) = call(house, "GET", path, None, &Value::Null);
        assert_eq!(*new_tag, now, "{path}: the winner has the newest version");
        let wanted = edit(round * PEOPLE + winner);
        let key = shown_at.trim_start_matches('/').rsplit('/').next().unwrap();
        let wanted = wanted.pointer(shown_at).unwrap_or(&wanted[key]);
        assert!(
            shown.pointer(shown_at) == Some(wanted)
                || shown.pointer(&format!("/overrides{shown_at}")) == Some(wanted),
            "{path}: {shown} should have {wanted}"
        );
    }
}

#[test]
fn ui_3_of_fifty_edits_of_one_version_exactly_one_wins() {
    let house = House::new("");
    let estop = house.start();
    assert_eq!(call(&house, "POST", "/api/agents", None, &json!({"id": "a"})).0, 201);
    compete(&house, "PATCH", "/api/agents/a", "/role", |edit| json!({"role": format!("role-{edit}")}));
    compete(
        &house,
        "PATCH",
        "/api/agents/a/kill-switch",
        "/threshold",
        |edit| json!({"threshold": 1.0 + (edit % 490) as f64 / 10.0}),
    );
    compete(
        &house,
        "PUT",
        "/api/agents/a/policy",
        "/rate_limit/requests_per_minute",
        |edit| json!({"rate_limit": {"requests_per_minute": 1 + edit}}),
    );
    let (_, tag, _) = call(&house, "GET", "/api/agents/a", None, &Value::Null);
    let told = at_once(PEOPLE, |_| call(&house, "DELETE", "/api/agents/a", Some(&tag), &Value::Null).0);
    assert_eq!(told.iter().filter(|status| **status == 204).count(), 1, "{told:?}");
    assert!(told.iter().all(|status| [204, 404, 412].contains(status)), "{told:?}");
    estop.end();
    house.verified();
}

#[test]
fn ui_3_edits_of_different_fields_at_once_lose_nothing() {
    let house = House::new("");
    let estop = house.start();
    assert_eq!(call(&house, "POST", "/api/agents", None, &json!({"id": "a"})).0, 201);
    for round in 0..ROUNDS {
        let fields = [
            json!({"role": format!("role-{round}")}),
            json!({"kill_switch_enabled": round % 2 == 0}),
            json!({"kill_switch_window_size": 5 + round}),
            json!({"kill_switch_threshold": 2.0 + round as f64}),
        ];
        let told = at_once(fields.len(), |at| call(&house, "PATCH", "/api/agents/a", None, &fields[at]));
        assert!(told.iter().all(|(status, ..)| *status == 200), "{told:?}");
        let (_, _, shown) = call(&house, "GET", "/api/agents/a", None, &Value::Null);
        for field in fields.iter().flat_map(|field| field.as_object().unwrap()) {
            assert_eq!(shown[field.0], *field.1, "{shown}");
        }
    }
    estop.end();
    house.verified();
}

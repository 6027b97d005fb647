//! Work that goes on at a provider after its request, with a real estop: a kill cancels it and says so, also after a restart.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use serde_json::Value;

use crate::house::{House, PATIENCE, until};

const BATCH: &str =
    r#"{"input_file_id":"file-1","endpoint":"/v1/chat/completions","completion_window":"24h"}"#;

/// `openai` has a key of estop's and a version in its base URL; `other` is asked with the client's key.
fn house() -> House {
    let house = House::new("");
    let at = house.model.addr();
    let config = format!(
        "listen: {{data: 127.0.0.1:0, admin: 127.0.0.1:0}}\n\
         providers:\n  openai: {{base_url: \"http://{at}/v1/\", api_key_env: TEST_PROVIDER_KEY}}\n  \
         other: {{base_url: \"http://{at}\"}}\n"
    );
    std::fs::write(house.folder.path().join("estop.yaml"), config).unwrap();
    house
}

fn post(to: SocketAddr, path: &str, body: &str) -> Value {
    let mut stream = TcpStream::connect(to).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let request = format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nauthorization: Bearer sk-of-the-client\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
}

fn background(house: &House) -> Value {
    let (status, said) = house.owner("GET", "/api/background", "");
    assert_eq!(status, 200, "{said}");
    serde_json::from_str(&said).unwrap()
}

#[test]
fn ks_11_a_kill_cancels_work_at_providers_and_says_what_it_could_not() {
    let house = house();
    let key = [("TEST_PROVIDER_KEY", "sk-of-estop")];
    let estop = house.start_with(&key);
    let held = r#"{"model":"fake-hold","input":"think for hours","background":true}"#;
    let response = post(estop.address, "/agents/a/openai/v1/responses", held);
    let batch = post(estop.address, "/agents/a/openai/v1/batches", BATCH);
    let other = post(estop.address, "/agents/a/other/v1/batches", BATCH);
    let work = background(&house);
    assert_eq!(work["running"], 3, "{work}");
    // It is remembered over a crash.
    until("the list on the disk", || {
        let kept = std::fs::read_to_string(house.data().join("background.json")).unwrap_or_default();
        kept.contains(other["id"].as_str().unwrap())
    });
    let kept = std::fs::read_to_string(house.data().join("background.json")).unwrap();
    assert!(!kept.contains("sk-of") && !kept.contains("think for hours"), "no secret and no prompt: {kept}");
    estop.kill_9();
    let estop = house.start_with(&key);
    assert_eq!(background(&house)["running"], 3);
    let (fine, said) = house.run(&["kill", "--data-dir", "data"]);
    assert!(fine, "{said}");
    let (_, answered) = house.owner("POST", "/api/emergency/kill", "{}");
    let answered: Value = serde_json::from_str(&answered).unwrap();
    assert_eq!(answered["background"]["not_cancelled"], 1, "{answered}");
    assert!(said.contains("1 could NOT be cancelled"), "{said}");
    let why = format!(
        "a: batch {} at other: not cancelled: estop holds no credential",
        other["id"].as_str().unwrap()
    );
    assert!(said.contains(&why), "{said}");
    until("both are cancelled", || background(&house)["cancelled"] == 2);
    for (path, id) in [("responses", &response["id"]), ("batches", &batch["id"])] {
        let path = format!("/v1/{path}/{}/cancel", id.as_str().unwrap());
        let seen = house.model.seen();
        let asked = seen.iter().find(|seen| seen.path == path && seen.method == "POST").unwrap();
        assert_eq!(asked.header("authorization"), Some("Bearer sk-of-estop"));
    }
    let (fine, said) = house.run(&["background", "--data-dir", "data"]);
    assert!(fine && said.contains("2 cancelled, 1 not cancelled"), "{said}");
    estop.end();
    house.verified();
}

#[test]
fn ks_11_an_incident_names_the_work_that_was_stopped_with_its_agent() {
    let house = house();
    let file = house.folder.path().join("estop.yaml");
    let config = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, format!("{config}policy: {{kill_switch_enabled: true}}\n")).unwrap();
    let estop = house.start_with(&[("TEST_PROVIDER_KEY", "sk-of-estop")]);
    let batch = post(estop.address, "/agents/a/openai/v1/batches", BATCH);
    let is_stopped = (0..100).any(|_| estop.ask("a", "the same again").unwrap().0 != 200);
    assert!(is_stopped, "a looping agent is stopped");
    until("it is cancelled", || background(&house)["cancelled"] == 1);
    // The incident is stored a moment after the agent is stopped.
    let mut incident = Value::Null;
    until("the incident names it", || {
        let (_, said) = house.owner("GET", "/api/incidents?agent=a", "");
        let incidents: Value = serde_json::from_str(&said).unwrap();
        incident = incidents["incidents"][0].clone();
        incident["background"][0]["id"] == batch["id"] && incident["background"][0]["state"] == "cancelled"
    });
    let id = incident["id"].as_str().unwrap();
    let (_, one) = house.owner("GET", &format!("/api/incidents/{id}"), "");
    assert!(one.contains(batch["id"].as_str().unwrap()), "{one}");
    estop.end();
}

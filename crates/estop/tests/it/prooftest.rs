//! The proof test as a person runs it: the real binary, a real model server, and others at work meanwhile.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::house;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::house::{House, PATIENCE};
use serde_json::Value;

/// Code, standard output and standard error.
fn run(house: &House, args: &[&str]) -> (i32, String, String) {
    let ran = Command::new(env!("CARGO_BIN_EXE_estop"))
        .args(args)
        .args(["--data-dir", "data"])
        .current_dir(house.folder.path())
        .env_remove("ESTOP_URL")
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (ran.status.code().unwrap(), text(&ran.stdout), text(&ran.stderr))
}

fn status(house: &House) -> Value {
    let (code, out, _) = run(house, &["emergency", "status", "--json"]);
    assert!(code < 2);
    serde_json::from_str(&out).unwrap()
}

#[test]
fn ks_2_a_proof_test_stops_the_canary_and_nobody_else() {
    let house = House::new("");
    let estop = house.start();
    let never = status(&house);
    assert_eq!((&never["proofTest"]["last"], &never["proofTest"]["overdue"]), (&Value::Null, &true.into()));
    // Somebody whose answer goes on all the while: the model waits, and so does the client.
    let mut at_work = TcpStream::connect(estop.address).unwrap();
    at_work.set_read_timeout(Some(PATIENCE)).unwrap();
    let body = r#"{"model":"fake-endless","stream":true,"messages":[{"role":"user","content":"write"}]}"#;
    let head = format!(
        "POST /agents/worker/openai/v1/chat/completions HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    at_work.write_all(head.as_bytes()).unwrap();
    let mut heard = [0; 4096];
    assert!(at_work.read(&mut heard).unwrap() > 0);

    let (code, out, err) = run(&house, &["prooftest", "--json"]);
    assert_eq!(code, 0, "{out}{err}");
    let test: Value = serde_json::from_str(&out).unwrap();
    let names: Vec<&str> =
        test["steps"].as_array().unwrap().iter().map(|step| step["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["trigger", "sigterm", "stream", "upstream", "gate", "sigkill", "latch", "journal"]);
    assert_eq!(test["passed"], true, "{out}");
    let took = |name: &str| {
        let mut steps = test["steps"].as_array().unwrap().iter();
        steps.find(|step| step["name"] == name).unwrap()["took_us"].as_u64().unwrap()
    };
    assert!(took("sigkill") >= 2_000_000, "SIGKILL comes after two seconds: {out}");

    // What piled up meanwhile, and then what is said only now.
    let begun = Instant::now();
    while begun.elapsed() < std::time::Duration::from_secs(1) {
        let read = at_work.read(&mut heard).unwrap();
        let text = String::from_utf8_lossy(&heard[..read]);
        assert!(read > 0 && !text.contains("Stopped by estop"), "{text}");
    }
    drop(at_work);
    assert_eq!(estop.ask("worker", "go on").unwrap().0, 200);

    let last = status(&house);
    assert_eq!((&last["state"], &last["proofTest"]["overdue"]), (&"running".into(), &false.into()));
    assert_eq!(last["proofTest"]["last"]["passed"], true);
    let (_, text, _) = run(&house, &["status"]);
    assert!(text.contains("proof test") && text.contains("passed"), "{text}");
    // Twice in a row, and after a restart it is still known.
    let (code, out, _) = run(&house, &["prooftest"]);
    assert_eq!(code, 0, "{out}");
    assert!(out.contains("Passed: the stop works"), "{out}");
    estop.end();
    let estop = house.start();
    assert_eq!(status(&house)["proofTest"]["last"]["passed"], true);
    estop.end();
    house.verified();
}

#[test]
fn ks_2_a_proof_test_needs_a_running_system() {
    let house = House::new("");
    let estop = house.start();
    assert_eq!(run(&house, &["kill"]).0, 0);
    let (code, _, err) = run(&house, &["prooftest"]);
    assert_eq!(code, 1);
    assert!(err.contains("not running"), "{err}");
    assert_eq!(status(&house)["proofTest"]["last"], Value::Null);
    drop(estop);
}

#[test]
fn ks_2_a_kill_in_earnest_breaks_off_a_proof_test_and_holds() {
    let house = House::new("");
    let estop = house.start();
    let test = Command::new(env!("CARGO_BIN_EXE_estop"))
        .args(["prooftest", "--data-dir", "data"])
        .current_dir(house.folder.path())
        .env_remove("ESTOP_URL")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Its process ignores SIGTERM for two seconds: this is in the middle.
    let begun = Instant::now();
    while !house.run(&["agents", "show", "estop-canary", "--data-dir", "data"]).0 {
        assert!(begun.elapsed() < PATIENCE, "the canary does not come");
    }
    assert_eq!(run(&house, &["kill"]).0, 0);
    let ended = test.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(1), "{said}");
    assert!(said.contains("in earnest"), "{said}");
    let after = status(&house);
    assert_eq!((&after["state"], &after["proofTest"]["last"]), (&"shutdown".into(), &Value::Null));
    drop(estop);
}

#[test]
fn ks_2_a_proof_test_goes_through_a_listener_with_tls_and_past_rules_for_others() {
    let house = House::new("");
    let made = rcgen::generate_simple_self_signed(["estop.example".to_owned()]).unwrap();
    std::fs::write(house.folder.path().join("cert.pem"), made.cert.pem()).unwrap();
    std::fs::write(house.folder.path().join("key.pem"), made.signing_key.serialize_pem()).unwrap();
    // Rules that would stop any other agent.
    house.configure(
        "tls: {cert: cert.pem, key: key.pem}\nprooftest: {every_days: off}\n\
         policy: {rate_limit: {requests_per_minute: 1}, models: {allow: [nothing]}, block_response: message}",
    );
    let estop = house.start();
    let (code, out, err) = run(&house, &["prooftest"]);
    assert_eq!(code, 0, "{out}{err}");
    assert_eq!(status(&house)["proofTest"]["everyDays"], Value::Null);
    estop.end();
}

#[test]
fn ks_2_nobody_but_a_drill_is_the_canary() {
    let house = House::new("");
    let estop = house.start();
    let (code, said) = estop.ask("estop-canary", "hello").unwrap();
    assert_eq!(code, 400, "{said}");
    let (code, said) = house::ask_with(estop.address, "a1", "hello", "x-estop-canary: 00\r\n").unwrap();
    assert_eq!(code, 200, "the header alone means nothing: {said}");
    let body = r#"{"model":"x","messages":[]}"#;
    let mut stream = TcpStream::connect(estop.address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let head = format!(
        "POST /estop-canary/v1/chat/completions HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
         x-estop-canary: 00\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 404"), "{answer}");
}

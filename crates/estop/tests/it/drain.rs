//! An end that was asked for (OB-4): answers in progress may end, nothing new begins, and the button still holds.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::house::{self, Estop, House, PATIENCE, until};
use estop_fake_model::script::{Delay, Hold, Reply};

/// Longer than any of these tests takes: who waits for it waits for nothing else.
const LONG: &str = "limits: {drain_s: 3600}";

/// A request whose answer is in progress at the model.
fn in_progress(house: &House, estop: &Estop) -> JoinHandle<Option<(u16, String)>> {
    let (before, address) = (house.model.requests(), estop.address);
    let asked = std::thread::spawn(move || house::ask(address, "coder", "Hello"));
    assert!(house.model.wait_for_requests(before + 1, PATIENCE));
    asked
}

/// Tells it to end; back once it takes nothing new.
fn drain(estop: &Estop) {
    estop.signal("-TERM");
    until("it takes no new connection", || TcpStream::connect(estop.address).is_err());
}

fn ended(mut estop: Estop) {
    assert!(estop.process.wait().expect("it ends").success());
}

fn slow(millis: u64) -> Reply {
    Reply { delay: Delay { headers_ms: millis, ..Delay::default() }, ..Reply::default() }
}

#[test]
fn ob_4_an_answer_in_progress_ends_by_itself() {
    let house = House::new(LONG);
    house.model.always(slow(1_500));
    let estop = house.start();
    let asked = in_progress(&house, &estop);
    drain(&estop);
    let (status, answer) = asked.join().expect("no panic").expect("a whole answer");
    assert!(status == 200 && answer.contains("choices"), "{status}: {answer}");
    ended(estop);
    house.verified();
}

#[test]
fn ob_4_connections_that_wait_for_a_request_are_closed() {
    let house = House::new(LONG);
    let estop = house.start();
    let mut idle = TcpStream::connect(estop.address).unwrap();
    idle.set_read_timeout(Some(PATIENCE)).unwrap();
    idle.write_all(b"GET /nothing HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
    let mut byte = [0];
    assert_eq!(idle.read(&mut byte).unwrap(), 1, "the first answer begins, and the connection stays");
    estop.signal("-TERM");
    let mut rest = Vec::new();
    idle.read_to_end(&mut rest).expect("it is closed, not reset");
    ended(estop);
}

#[test]
fn ob_4_a_connection_that_sends_nothing_does_not_hold_up_an_end() {
    let house = House::new(LONG);
    let made = rcgen::generate_simple_self_signed(["estop.example".to_owned()]).unwrap();
    std::fs::write(house.folder.path().join("cert.pem"), made.cert.pem()).unwrap();
    std::fs::write(house.folder.path().join("key.pem"), made.signing_key.serialize_pem()).unwrap();
    for tls in ["", "tls: {cert: cert.pem, key: key.pem}"] {
        house.configure(&format!("{LONG}\n{tls}"));
        let (estop, logged) = house.start_heard();
        let mut silent = TcpStream::connect(estop.address).unwrap();
        silent.set_read_timeout(Some(PATIENCE)).unwrap();
        estop.signal("-TERM");
        let mut byte = [0];
        // Closed, or reset if it stood in the kernel's queue: it is not held until its time is over.
        let closed = silent.read(&mut byte).map_err(|error| error.kind());
        assert!(matches!(closed, Ok(0) | Err(ErrorKind::ConnectionReset)), "{tls}: {closed:?}");
        ended(estop);
        let logged = logged.join().unwrap();
        assert!(logged.contains("estop is stopping") && !logged.contains("cut off"), "{logged}");
    }
}

#[test]
fn ob_4_readiness_and_status_say_that_estop_ends() {
    let house = House::new(LONG);
    house.model.always(Reply { hold: Some(Hold::Headers), ..Reply::default() });
    let estop = house.start();
    assert_eq!(house.owner("GET", "/readyz", "").0, 200);
    assert!(house.owner("GET", "/metrics", "").1.contains("\nestop_ending 0\n"));
    let asked = in_progress(&house, &estop);
    drain(&estop);
    let (status, body) = house.owner("GET", "/readyz", "");
    assert!(status == 503 && body.contains("estop is ending"), "{status}: {body}");
    let (status, body) = house.owner("GET", "/api/emergency/status", "");
    assert!(status == 200 && body.contains(r#""ending":true"#), "{status}: {body}");
    assert!(body.contains(r#""operational":false"#), "{body}");
    assert!(house.owner("GET", "/metrics", "").1.contains("\nestop_ending 1\n"));
    let shown = house.estop(&["status"]);
    assert_eq!(shown.code, 1, "{shown:?}");
    assert!(shown.out.contains("RUNNING, BUT ENDING"), "{shown:?}");
    estop.signal("-INT");
    drop(asked.join().expect("no panic"));
    ended(estop);
}

#[test]
fn ob_4_after_drain_s_answers_are_cut_off_and_settled() {
    let house = House::new("limits: {drain_s: 0.2}");
    house.model.always(Reply { hold: Some(Hold::Headers), ..Reply::default() });
    let estop = house.start();
    let asked = in_progress(&house, &estop);
    let begun = Instant::now();
    drain(&estop);
    let told = asked.join().expect("no panic");
    assert!(told.is_none_or(|(status, body)| status == 503 && body.contains("estop is being stopped")));
    assert!(begun.elapsed() >= Duration::from_millis(200), "it waited");
    ended(estop);
    house.verified();
}

#[test]
fn ob_4_a_second_signal_ends_it_at_once() {
    let house = House::new(LONG);
    house.model.always(Reply { hold: Some(Hold::Headers), ..Reply::default() });
    let estop = house.start();
    let asked = in_progress(&house, &estop);
    drain(&estop);
    estop.signal("-INT");
    drop(asked.join().expect("no panic"));
    ended(estop);
    house.verified();
}

#[test]
fn ks_1_the_button_stops_what_is_in_progress_while_estop_ends() {
    let house = House::new(LONG);
    house.model.always(Reply { hold: Some(Hold::Headers), ..Reply::default() });
    let estop = house.start();
    let asked = in_progress(&house, &estop);
    drain(&estop);
    assert_eq!(house.owner("POST", "/api/emergency/kill", r#"{"reason":"manual"}"#).0, 200);
    let told = asked.join().expect("no panic");
    assert!(told.is_none_or(|(status, body)| status == 400 && body.contains("emergency stop")), "stopped");
    ended(estop);
    let again = house.start();
    assert_eq!(again.ask("coder", "Hello").expect("an answer").0, 400, "it stays pressed");
    again.end();
    house.verified();
}

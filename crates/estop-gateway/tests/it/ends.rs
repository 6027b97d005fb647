//! The ends of answers: held back until the journal has them, and whole however the connection ends after them (ST-1).
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};

use crate::common::http::Wire;
use crate::common::raw::Raw;
use crate::common::{House, PATIENCE, aim};

const CHAT: &str = "/openai/v1/chat/completions";
const ASK: &str = r#"{"messages":[]}"#;

fn house(answer: &str) -> (Raw, House) {
    let raw = Raw::saying(answer);
    let house = House::build("{}", |settings| aim(settings, raw.port()));
    (raw, house)
}

/// hyper ends a connection that asked to be upgraded without a last word to its socket.
#[test]
fn st_1_an_answer_is_whole_when_its_connection_ends_with_it() {
    let (_raw, house) = house("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
    for extra in [
        "connection: close\r\n",
        "connection: close, Upgrade\r\nupgrade: h2c\r\n",
        "connection: keep-alive\r\n",
    ] {
        for path in [CHAT, "/openai/v1/files"] {
            let mut wire = Wire::open(house.address());
            wire.post(path, extra, ASK);
            let reply = wire.reply();
            assert_eq!(
                (reply.status, reply.text().as_str(), reply.whole),
                (200, "ok", true),
                "{extra}{path}"
            );
        }
    }
}

#[test]
fn st_1_of_two_requests_at_once_the_first_answer_comes_though_the_client_says_no_more() {
    let (_raw, house) = house("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
    let one =
        format!("POST {CHAT} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: {}\r\n\r\n{ASK}", ASK.len());
    let mut socket = TcpStream::connect(house.address()).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket.write_all(one.repeat(2).as_bytes()).unwrap();
    // In the turn in which the first answer ends, the second request is read, and that its client is gone.
    socket.shutdown(Shutdown::Write).unwrap();
    let mut answers = String::new();
    socket.read_to_string(&mut answers).unwrap();
    assert!(answers.starts_with("HTTP/1.1 200 OK\r\n") && answers.contains("\r\n\r\nok"), "{answers}");
}

#[test]
fn id_6_more_header_lines_than_anybody_sends_are_the_providers_fault() {
    let many = "x-h: v\r\n".repeat(257);
    let (_raw, house) = house(&format!("HTTP/1.1 200 OK\r\n{many}content-length: 2\r\n\r\nok"));
    let mut wire = Wire::open(house.address());
    wire.post(CHAT, "", ASK);
    let reply = wire.reply();
    assert_eq!((reply.status, reply.header("x-estop-reason")), (502, Some("upstream_unreachable")));
}

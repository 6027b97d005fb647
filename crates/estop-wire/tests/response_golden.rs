//! Recorded answers of every protocol, each sent in many ways, always read the same.
//!
//! `ESTOP_BLESS=1 cargo test -p estop-wire --test response_golden recorded` writes what is read today; read the
//! difference before you keep it.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod response_support;

use response_support::{Golden, compressed, goldens, observe, render};

fn check_all(mut send: impl FnMut(&Golden) -> Vec<(String, estop_wire::response::Observed)>) {
    for golden in goldens() {
        let expected = std::fs::read_to_string(&golden.expect).unwrap_or_default();
        for (how, observed) in send(&golden) {
            assert_eq!(render(&observed), expected, "{} sent {how}", golden.name);
        }
    }
}

#[test]
fn id_5_every_recorded_answer_is_read_as_expected() {
    let all = goldens();
    assert!(all.len() >= 50, "only {} recorded answers were found", all.len());
    if std::env::var_os("ESTOP_BLESS").is_some() {
        for golden in &all {
            std::fs::write(&golden.expect, render(&observe(golden, "", [&golden.body[..]]))).unwrap();
        }
    }
    check_all(|golden| vec![("in one piece".to_owned(), observe(golden, "", [&golden.body[..]]))]);
}

#[test]
fn id_6_pieces_of_any_size_are_read_the_same() {
    check_all(|golden| {
        let send =
            |size: usize| (format!("in pieces of {size}"), observe(golden, "", golden.body.chunks(size)));
        [1, 2, 3, 7, 64, 1000].map(send).into()
    });
}

#[test]
fn id_6_line_ends_do_not_matter() {
    check_all(|golden| {
        let text = String::from_utf8(golden.body.clone()).unwrap().replace("\r\n", "\n");
        let mut ways = Vec::new();
        let mut send = |how: &str, body: String| {
            let golden = Golden { body: body.into_bytes(), ..golden.clone() };
            ways.push((how.to_owned(), observe(&golden, "", [&golden.body[..]])));
            ways.push((format!("{how}, byte by byte"), observe(&golden, "", golden.body.chunks(1))));
        };
        send("with CRLF", text.replace('\n', "\r\n"));
        match golden.framing {
            estop_wire::response::Framing::Sse => {
                send("with CR", text.replace('\n', "\r"));
                send("with a mix", text.replacen('\n', "\r", 1).replace("\n\n", "\r\n\n"));
            }
            estop_wire::response::Framing::Ndjson | estop_wire::response::Framing::Plain => {}
        }
        ways
    });
}

#[test]
fn id_6_compressed_answers_are_read_the_same() {
    check_all(|golden| {
        let mut ways = Vec::new();
        for (encoding, body) in compressed(&golden.body) {
            ways.push((format!("as {encoding}"), observe(golden, encoding, [&body[..]])));
            ways.push((format!("as {encoding}, byte by byte"), observe(golden, encoding, body.chunks(1))));
        }
        ways
    });
}

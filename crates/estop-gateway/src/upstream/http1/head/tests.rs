//! Heads, well formed and not.

use super::*;

fn head(text: &str) -> Result<Option<Head>, Malformed> {
    read(&Bytes::copy_from_slice(text.as_bytes()), &Method::POST)
}

fn whole(text: &str) -> Head {
    head(text).expect("it is well formed").expect("it is whole")
}

/// What follows a head with these lines, and whether the connection stays.
fn says(start: &str, lines: &str) -> (Follows, bool) {
    let head = whole(&format!("{start}\r\n{lines}\r\n"));
    (head.follows, head.keep_alive)
}

#[test]
fn id_6_a_head_says_how_long_its_body_is() {
    use Follows::{Chunks, Length, UntilClose};
    for (lines, follows) in [
        ("content-length: 5\r\n", Length(5)),
        ("Content-Length: 5\r\ncontent-length: 5\r\n", Length(5)),
        ("content-length: 5 , 5\r\n", Length(5)),
        ("content-length: 007\r\n", Length(7)),
        ("", UntilClose),
        ("transfer-encoding: chunked\r\n", Chunks),
        ("transfer-encoding: gzip, Chunked\r\n", Chunks),
        ("transfer-encoding: gzip\r\ntransfer-encoding: chunked\r\n", Chunks),
        ("transfer-encoding: chunked, gzip\r\n", UntilClose),
        ("transfer-encoding: identity\r\ncontent-length: 5\r\n", UntilClose),
        ("transfer-encoding: chunked\r\ncontent-length: 5\r\n", Chunks),
    ] {
        assert_eq!(says("HTTP/1.1 200 OK", lines).0, follows, "{lines:?}");
    }
    for status in ["204 No Content", "304 Not Modified", "101 Switching Protocols", "100 Continue"] {
        let follows =
            says(&format!("HTTP/1.1 {status}"), "content-length: 5\r\ntransfer-encoding: chunked\r\n").0;
        assert_eq!(follows, Length(0), "{status}");
    }
    let bytes = Bytes::from_static(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n");
    let to_head = read(&bytes, &Method::HEAD).expect("it is well formed").expect("it is whole");
    assert_eq!(to_head.follows, Length(0));
}

#[test]
fn id_6_a_connection_stays_if_both_sides_say_so() {
    for (start, lines, stays) in [
        ("HTTP/1.1 200 OK", "", true),
        ("HTTP/1.1 200 OK", "connection: close\r\n", false),
        ("HTTP/1.1 200 OK", "connection: x, Close\r\n", false),
        ("HTTP/1.1 200 OK", "connection: close\r\nconnection: keep-alive\r\n", false),
        ("HTTP/1.1 200 OK", "transfer-encoding: chunked\r\ncontent-length: 5\r\n", false),
        ("HTTP/1.0 200 OK", "", false),
        ("HTTP/1.0 200 OK", "connection: Keep-Alive\r\n", true),
    ] {
        assert_eq!(says(start, lines).1, stays, "{start} {lines:?}");
    }
}

#[test]
fn id_6_what_is_no_head_is_refused() {
    let many = "x: y\r\n".repeat(LINES_MAX + 1);
    for wrong in [
        "HTTP/1.1 2000 OK\r\n\r\n",
        "HTTP/1.1 20 OK\r\n\r\n",
        "HTTP/1.1 099 OK\r\n\r\n",
        "HTTP/2 200 OK\r\n\r\n",
        "SSH-2.0-x\r\n\r\n",
        "HTTP/1.1 200 OK\r\nx y: z\r\n\r\n",
        "HTTP/1.1 200 OK\r\nx : z\r\n\r\n",
        "HTTP/1.1 200 OK\r\nx: y\r\n z\r\n\r\n",
        "HTTP/1.1 200 OK\r\nx: \u{1}\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 5, 6\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: +5\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: -5\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 5,\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length:\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 99999999999999999999\r\n\r\n",
        "HTTP/1.0 200 OK\r\ntransfer-encoding: chunked\r\n\r\n",
        &format!("HTTP/1.1 200 OK\r\n{many}\r\n"),
    ] {
        assert!(head(wrong).is_err(), "{:?}", &wrong[..wrong.len().min(80)]);
    }
}

#[test]
fn id_6_a_head_is_read_when_all_of_it_is_there() {
    let text = "HTTP/1.1 429 Slow Down\r\nRetry-After: 5\r\nx-odd: gr\u{fc}n\r\n\r\n";
    for cut in 0..text.len() {
        let part = Bytes::copy_from_slice(&text.as_bytes()[..cut]);
        assert!(read(&part, &Method::POST).expect("as far as it goes").is_none(), "cut at {cut}");
    }
    let head = whole(&format!("{text}body"));
    assert_eq!(head.length, text.len());
    assert_eq!(head.parts.status, 429);
    assert_eq!(head.parts.headers["retry-after"], "5");
    assert_eq!(head.parts.headers["x-odd"].as_bytes(), "gr\u{fc}n".as_bytes());
    let reason = head.parts.extensions.get::<ReasonPhrase>().expect("it is not the usual one");
    assert_eq!(reason.as_bytes(), b"Slow Down");
}

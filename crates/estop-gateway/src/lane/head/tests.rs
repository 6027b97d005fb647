//! What is usual, and what is not.

use super::*;

fn read_text(text: &str) -> Head {
    read(&Bytes::copy_from_slice(text.as_bytes()), BYTES_MAX, LINES_MAX)
}

fn post(lines: &str) -> String {
    format!("POST /a?b=c HTTP/1.1\r\nhost: h\r\n{lines}\r\n")
}

#[test]
fn id_6_a_usual_head_is_taken_as_it_is() {
    let text = post("Content-Length: 3\r\nConnection: Keep-Alive\r\nx-a: 1\r\nx-a: 2\r\n");
    let read = read_text(&format!("{text}abcPOST /"));
    assert!(matches!(read, Head::Usual { .. }));
    let Head::Usual { head, bytes, body } = read else { return };
    assert_eq!((bytes, body), (text.len(), 3));
    assert_eq!((&head.method, head.uri.to_string().as_str()), (&Method::POST, "/a?b=c"));
    let values: Vec<_> = head.headers.get_all("x-a").iter().map(HeaderValue::as_bytes).collect();
    assert_eq!((values, head.headers.len()), (vec![&b"1"[..], b"2"], 5));
}

#[test]
fn st_3_h4_what_leaves_a_question_open_is_left_to_hyper() {
    let many = format!("content-length: 1\r\n{}", "x: 1\r\n".repeat(LINES_MAX));
    let long = format!("content-length: 1\r\nx: {}\r\n", "y".repeat(BYTES_MAX));
    let lines = [
        "",
        "content-length: 1\r\ncontent-length: 1\r\n",
        "content-length: 1, 1\r\n",
        "content-length: +1\r\n",
        "content-length: 0x1\r\n",
        "content-length:\r\n",
        "content-length: 18446744073709551616\r\n",
        "content-length: 18446744073709551615\r\n",
        "content-length : 1\r\n",
        "content-length: 1\r\n folded\r\n",
        "content-length: 1\r\ntransfer-encoding: chunked\r\n",
        "transfer-encoding: identity\r\ncontent-length: 1\r\n",
        "content-length: 1\r\nexpect: 100-continue\r\n",
        "content-length: 1\r\nupgrade: websocket\r\n",
        "content-length: 1\r\nconnection: close\r\n",
        "content-length: 1\r\nconnection: keep-alive, x-a\r\n",
        "content-length: 1\r\nx-a: \u{1}\r\n",
        &many,
        &long,
    ];
    for lines in lines {
        assert!(matches!(read_text(&post(lines)), Head::Unusual), "{lines:?}");
    }
    let rest = "host: h\r\ncontent-length: 1\r\n\r\n";
    for line in [
        "GET /a HTTP/1.1\r\n",
        "post /a HTTP/1.1\r\n",
        "POST /a HTTP/1.0\r\n",
        "POST /a HTTP/2.0\r\n",
        "POST http://h/a HTTP/1.1\r\n",
        "POST * HTTP/1.1\r\n",
        "POST  /a HTTP/1.1\r\n",
        "POST /a b HTTP/1.1\r\n",
        "\r\nPOST /a HTTP/1.1\r\n",
    ] {
        assert!(matches!(read_text(&format!("{line}{rest}")), Head::Unusual), "{line:?}");
    }
}

#[test]
fn id_6_a_head_that_is_not_over_is_waited_for() {
    let text = post("content-length: 1\r\n");
    for end in 0..text.len() {
        assert!(matches!(read_text(&text[..end]), Head::Unfinished), "{end}");
    }
    let limited = read(&Bytes::copy_from_slice(text.as_bytes()), text.len() - 1, LINES_MAX);
    assert!(matches!(limited, Head::Unusual), "longer than the configuration allows");
}

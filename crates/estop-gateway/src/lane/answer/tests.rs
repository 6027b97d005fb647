//! Heads of answers.

use estop_core::time::Millis;

use super::*;

fn written(answer: Response<()>, framing: Framing) -> (String, bool) {
    let mut to = Vec::new();
    let clock = Clock::starting_at(Millis(0));
    let is_last = write_head(&mut to, &answer.into_parts().0, framing, &clock);
    let text = String::from_utf8_lossy(&to).into_owned();
    let (before, date) = text.split_once("date: ").unwrap_or((&text, ""));
    assert!(date.is_empty() || date.ends_with(" GMT\r\n\r\n"), "{text}");
    (before.to_owned(), is_last)
}

#[test]
fn id_6_a_head_says_how_its_body_is_framed_once() {
    let answer = |status: u16| {
        let of = Response::builder().status(status);
        of.header("content-length", "5").header("content-length", "5").header("x", "y").body(()).expect("one")
    };
    let (text, is_last) = written(answer(200), Framing::Length(5));
    assert_eq!((text.as_str(), is_last), ("HTTP/1.1 200 OK\r\ncontent-length: 5\r\nx: y\r\n", false));
    let (text, _) = written(answer(200), Framing::Chunks);
    assert_eq!(text, "HTTP/1.1 200 OK\r\nx: y\r\ntransfer-encoding: chunked\r\n");
    let (text, _) = written(answer(200), Framing::Length(0));
    assert_eq!(text, "HTTP/1.1 200 OK\r\nx: y\r\ncontent-length: 0\r\n");
    for status in [204, 304] {
        let (text, _) = written(answer(status), Framing::Nothing);
        assert!(!text.contains("content-length") && !text.contains("transfer-encoding"), "{text}");
    }
}

#[test]
fn an_1_an_answer_that_closes_says_so() {
    let answer = Response::builder().status(413).header("connection", "close").body(()).expect("an answer");
    let (text, is_last) = written(answer, Framing::Length(0));
    assert!(text.starts_with("HTTP/1.1 413 ") && text.contains("connection: close\r\n"), "{text}");
    assert!(is_last);
}

//! What a broken upstream does, and that the model notices who goes away.

mod common;

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use common::{Got, PATIENCE, open, post, read, scripted, start};
use estop_fake_model::Outcome;
use serde_json::{Value, json};

fn hello() -> Value {
    json!({"model": "m", "stream": true, "messages": [{"role": "user", "content": "hi"}]})
}

fn with(reply: &Value) -> (estop_fake_model::FakeModel, std::io::Result<Got>) {
    let model = scripted(json!([{"reply": reply}]));
    let got = post(&model, "/v1/chat/completions", &hello());
    (model, got)
}

#[test]
fn a_reset_is_a_reset() {
    for at in ["before_headers", "after_headers", "mid_stream"] {
        let model = scripted(json!([{"reply": {"abort": {"at": at}}}]));
        let mut stream = open(&model, "/v1/chat/completions", &hello());
        let mut bytes = Vec::new();
        let error = stream.read_to_end(&mut bytes).expect_err("the connection is reset");
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "{at}");
        let text = String::from_utf8_lossy(&bytes);
        assert_eq!(text.contains("200 OK"), at != "before_headers", "{at}: {text}");
        assert_eq!(text.contains("data: "), at == "mid_stream", "{at}: {text}");
        assert_eq!(model.wait_for_end(1, PATIENCE).map(|seen| seen.outcome), Some(Outcome::Aborted));
        assert!(model.wait_for_close(1, PATIENCE));
    }
}

#[test]
fn a_stream_can_end_without_its_last_events() {
    let (_model, got) = with(&json!({"abort": {"at": "mid_stream", "how": "eof"}}));
    let got = got.expect("an answer");
    assert!(got.whole && !got.text().contains("[DONE]") && got.events().len() == 3, "{got:?}");

    let (_model, got) = with(&json!({"abort": {"at": "mid_stream", "how": "fin", "after_events": 1}}));
    let got = got.expect("an answer");
    assert!(!got.whole && got.events().len() == 1, "{got:?}");

    let (_model, got) =
        with(&json!({"message": "boom", "abort": {"at": "mid_stream", "how": "error_event"}}));
    let got = got.expect("an answer");
    assert_eq!(got.events()[3]["error"]["message"], "boom");

    let (_model, got) = with(&json!({"abort": {"at": "before_headers", "how": "fin"}}));
    assert_eq!(got.expect_err("no answer").kind(), std::io::ErrorKind::UnexpectedEof);
}

#[test]
fn bytes_can_be_split_and_lines_can_end_in_crlf() {
    let (_model, whole) = with(&json!({}));
    let whole = whole.expect("an answer").events();
    for reply in [json!({"split": {"bytes": 1}}), json!({"split": {"random": 7}, "crlf": true})] {
        let (_model, got) = with(&reply);
        let got = got.expect("an answer");
        assert_eq!(got.events().len(), whole.len(), "{reply}");
        assert_eq!(got.text().contains("\r\n\r\n"), reply["crlf"] == true);
    }
}

#[test]
fn encodings_decode() {
    let plain = |bytes: &[u8], encoding: &str| {
        let mut text = String::new();
        match encoding {
            "gzip" => flate2::read::MultiGzDecoder::new(bytes).read_to_string(&mut text),
            "deflate" => flate2::read::ZlibDecoder::new(bytes).read_to_string(&mut text),
            "br" => brotli::Decompressor::new(bytes, 4096).read_to_string(&mut text),
            _ => return bytes.to_vec(),
        }
        .expect("it decodes");
        text.into_bytes()
    };
    for encoding in ["gzip", "deflate", "br"] {
        let (_model, got) = with(&json!({"encoding": encoding}));
        let mut got = got.expect("an answer");
        assert!(got.head.contains(&format!("content-encoding: {encoding}")));
        got.body = plain(&got.body, encoding);
        assert!(got.text().ends_with("[DONE]\n\n"));
    }
    let (_model, got) = with(&json!({"encoding": "zstd"}));
    let body = got.expect("an answer").body;
    let (mut rest, mut text) = (body.as_slice(), String::new());
    while !rest.is_empty() {
        let mut frame = ruzstd::decoding::StreamingDecoder::new(&mut rest).expect("a frame begins");
        frame.read_to_string(&mut text).expect("it decodes");
    }
    assert!(text.ends_with("[DONE]\n\n"));
}

#[test]
fn huge_and_chanting_answers_are_long() {
    let model = scripted(json!([{"match": {"model": "m"}, "reply": {"size": 3_000_000}}]));
    let got = post(&model, "/v1/chat/completions", &hello()).expect("an answer");
    let text: String =
        got.events().iter().filter_map(|e| e["choices"][0]["delta"]["content"].as_str()).collect();
    assert_eq!(text.len(), 3_000_000);
    let chant = json!({"model": "fake-chant", "stream": true, "messages": []});
    assert_eq!(post(&model, "/v1/messages", &chant).expect("an answer").events().len(), 10_000 + 6);
}

#[test]
fn raw_bytes_go_past_http() {
    let (_model, got) =
        with(&json!({"raw_base64": "SFRUUC8xLjEgMjAwIE9LDQpjb250ZW50LWxlbmd0aDogOQ0KDQpzaG9ydA=="}));
    let got = got.expect("an answer");
    assert_eq!((got.status, got.text().as_str(), got.whole), (200, "short", false));
}

#[test]
fn a_client_that_goes_away_is_noticed_wherever_it_waits() {
    for reply in [
        json!({"hold": "upload"}),
        json!({"hold": "headers"}),
        json!({"hold": "body"}),
        json!({"hold": "mid_stream"}),
        json!({"delay": {"headers_ms": 60_000}}),
        json!({"endless": true, "delay": {"chunk_ms": 60_000}}),
        json!({"keep_alive": true, "delay": {"chunk_ms": 60_000}}),
    ] {
        let model = scripted(json!([{"reply": reply}]));
        let stream = open(&model, "/v1/chat/completions", &hello());
        assert!(model.wait_for_requests(1, PATIENCE));
        // Time for headers and what comes before the wait.
        assert_eq!(
            model.wait_for_end(1, Duration::from_millis(60)).map(|seen| seen.outcome),
            None,
            "{reply}"
        );
        drop(stream);
        let seen = model.wait_for_end(1, Duration::from_secs(2));
        assert_eq!(seen.map(|seen| seen.outcome), Some(Outcome::Gone), "{reply}");
        assert!(model.wait_for_close(1, Duration::from_secs(2)), "{reply}");
        assert_eq!(model.connections().open, 0, "{reply}");
    }
}

#[test]
fn what_was_seen_is_told() {
    let model = start();
    let body = r#"{"model":"m","messages":[]}"#;
    let mut stream = TcpStream::connect(model.addr()).expect("the model listens");
    let head = "POST /x/v1/messages?beta=true HTTP/1.1\r\nhost: h\r\nauthorization: Bearer k\r\nconnection: close\r\n";
    write!(stream, "{head}content-length: {}\r\n\r\n{body}", body.len()).expect("the model reads");
    assert_eq!(read(stream).expect("an answer").status, 200);
    let seen = model.wait_for_end(1, PATIENCE).expect("it ended");
    assert_eq!((seen.path.as_str(), seen.query.as_str(), seen.status), ("/x/v1/messages", "beta=true", 200));
    assert_eq!((seen.header("authorization"), seen.body.as_str()), (Some("Bearer k"), body));
    assert_eq!(
        (seen.body_length, seen.body_sha256.len(), seen.outcome),
        (body.len(), 64, Outcome::Completed)
    );
    assert_eq!((model.requests(), model.connections().accepted), (1, 1));

    let told = post(&model, "/_script", &json!([{"reply": {"txet": "typo"}}])).expect("an answer");
    assert_eq!(told.status, 400);
    assert_eq!(post(&model, "/_reset", &json!({})).expect("an answer").status, 200);
    assert_eq!(model.requests(), 0);
}

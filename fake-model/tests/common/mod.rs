//! A small HTTP/1.1 client for the tests of this crate: blocking, one request a connection.
#![allow(dead_code, reason = "each test file uses its own part")]

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use estop_fake_model::{FakeModel, Options};
use serde_json::{Value, json};

/// Nothing here may take longer.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// An answer.
#[derive(Debug)]
pub(crate) struct Got {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
    /// The body came to its proper end.
    pub(crate) whole: bool,
}

impl Got {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| json!({"not json": error.to_string(), "body": self.text()}))
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The JSON documents of a stream of server-sent events.
    pub(crate) fn events(&self) -> Vec<Value> {
        let text = self.text().replace("\r\n", "\n");
        let data = text.lines().filter_map(|line| line.strip_prefix("data: "));
        data.filter_map(|data| serde_json::from_str(data).ok()).collect()
    }

    /// The JSON documents of lines.
    pub(crate) fn lines(&self) -> Vec<Value> {
        self.text().lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }
}

pub(crate) fn start() -> FakeModel {
    FakeModel::start(Options::default()).expect("the model starts")
}

/// A model with these rules.
pub(crate) fn scripted(rules: Value) -> FakeModel {
    let model = start();
    model.script(serde_json::from_value(rules).expect("rules can be read"));
    model
}

pub(crate) fn open(model: &FakeModel, path: &str, body: &Value) -> TcpStream {
    let body = body.to_string();
    let mut stream = TcpStream::connect(model.addr()).expect("the model listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout can be set");
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: fake\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream
        .write_all(head.as_bytes())
        .and_then(|()| stream.write_all(body.as_bytes()))
        .expect("the model reads");
    stream
}

/// Sends a request and reads the answer; an error if the connection broke before headers.
pub(crate) fn post(model: &FakeModel, path: &str, body: &Value) -> io::Result<Got> {
    read(open(model, path, body))
}

pub(crate) fn read(mut stream: TcpStream) -> io::Result<Got> {
    let mut bytes = Vec::new();
    let ended = stream.read_to_end(&mut bytes);
    let Some(at) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else {
        ended?;
        return Err(io::ErrorKind::UnexpectedEof.into());
    };
    let head = String::from_utf8_lossy(&bytes[..at]).to_lowercase();
    let status = head.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap_or(0);
    let raw = &bytes[at + 4..];
    let (body, whole) = if head.contains("transfer-encoding: chunked") {
        unchunk(raw)
    } else {
        let length =
            head.split("content-length: ").nth(1).and_then(|rest| rest.lines().next()?.parse::<usize>().ok());
        (raw.to_vec(), length == Some(raw.len()))
    };
    Ok(Got { status, head, body, whole: whole && ended.is_ok() })
}

fn unchunk(mut raw: &[u8]) -> (Vec<u8>, bool) {
    let mut body = Vec::new();
    while let Some(at) = raw.windows(2).position(|window| window == b"\r\n") {
        let size = std::str::from_utf8(&raw[..at]).ok().and_then(|hex| usize::from_str_radix(hex, 16).ok());
        let Some(size) = size.filter(|size| raw.len() >= at + 2 + size + 2) else { return (body, false) };
        if size == 0 {
            return (body, true);
        }
        body.extend(&raw[at + 2..at + 2 + size]);
        raw = &raw[at + 2 + size + 2..];
    }
    (body, false)
}

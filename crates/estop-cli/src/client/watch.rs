//! The line on which estop says when a run, or the calls of an agent, must end.

use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde_json::Value;

use super::error::TransportError;
use super::path::path;
use super::transport::{Received, Transport, post};

/// estop says every ten seconds that it is alive; after three times that it is not.
const SILENT_MAX: Duration = Duration::from_secs(30);
/// A line is shorter.
const LINE_BYTES_MAX: usize = 64 << 10;

/// An open line.
pub(crate) struct Watch {
    body: Incoming,
    rest: Vec<u8>,
}

/// What is said on it.
pub(crate) enum WatchMessage {
    /// It is watched: what estop says of it.
    Watching(Value),
    /// It must end, and why.
    End(String),
}

/// What became of opening it.
pub(crate) enum Opened {
    Watching(Watch),
    /// estop, or something else, said something other than yes.
    Answered(Received),
}

impl Transport {
    /// Opens the line for what `about` describes.
    pub(crate) async fn watch(&self, about: &Value, within: Duration) -> Result<Opened, TransportError> {
        let request = post(&path(&["runs", "watch"]), about.to_string())?;
        let opened = async {
            let response = self.send(request).await?;
            if response.status() == StatusCode::OK {
                return Ok(Opened::Watching(Watch { body: response.into_body(), rest: Vec::new() }));
            }
            self.receive(response).await.map(Opened::Answered)
        };
        self.in_time(within, opened).await
    }
}

impl Watch {
    /// What is said next; `None` once the line is broken, silent, or no line of estop's.
    pub(crate) async fn next(&mut self) -> Option<WatchMessage> {
        loop {
            while let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.rest.drain(..=end).collect();
                let said: Value = serde_json::from_slice(&line).unwrap_or_default();
                if said["watching"] == true {
                    return Some(WatchMessage::Watching(said));
                }
                if let Some(why) = said["end"].as_str() {
                    return Some(WatchMessage::End(why.to_owned()));
                }
            }
            if self.rest.len() > LINE_BYTES_MAX {
                return None;
            }
            let frame = tokio::time::timeout(SILENT_MAX, self.body.frame()).await.ok()??.ok()?;
            self.rest.extend_from_slice(frame.data_ref().map(Bytes::as_ref).unwrap_or_default());
        }
    }
}

//! The line on which estop sends what it records of an agent.

use std::time::Duration;

use bytes::Bytes;
use estop_core::operator::RECORDING_LINE_MAX;
use http::StatusCode;
use http_body_util::BodyExt;
use serde_json::Value;
use tokio::signal::unix::{SignalKind, signal};

use super::transport::post;
use super::{Client, ClientError};

/// estop says every two seconds that it is alive.
const SILENT_MAX: Duration = Duration::from_secs(30);
/// Why a recording is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RecordingEnd {
    /// estop said so, in its last line.
    Told,
    /// A signal asked for it.
    Signal,
    /// estop is gone.
    Gone,
}

impl Client {
    /// Opens the line, and gives each object on it to `on_line` until it is over or a signal comes.
    pub(crate) fn follow(
        &self,
        target: &str,
        body: &Value,
        on_line: &mut dyn FnMut(&Value) -> anyhow::Result<()>,
    ) -> anyhow::Result<RecordingEnd> {
        self.runtime.block_on(async {
            // Before anything is recorded: a signal from here on ends it with its file written.
            let (mut int, mut term) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
            let mut hup = signal(SignalKind::hangup())?;
            let request = post(target, body.to_string()).map_err(super::error::TransportError::from);
            let response = async { self.transport.send(request?).await };
            let response = self.transport.in_time(self.within, response).await.map_err(ClientError::from)?;
            if response.status() != StatusCode::OK {
                let received = self.transport.receive(response).await.map_err(ClientError::from)?;
                self.judge(received)?;
                return Ok(RecordingEnd::Gone);
            }
            on_line(&Value::Null)?;
            let mut body = response.into_body();
            let mut rest: Vec<u8> = Vec::new();
            let mut asked = false;
            loop {
                let frame = tokio::select! {
                    frame = tokio::time::timeout(SILENT_MAX, body.frame()) => frame,
                    _ = int.recv() => match self.end(target, &mut asked).await { true => continue, false => break },
                    _ = hup.recv() => match self.end(target, &mut asked).await { true => continue, false => break },
                    _ = term.recv() => match self.end(target, &mut asked).await { true => continue, false => break },
                };
                let Ok(Some(Ok(frame))) = frame else { return Ok(RecordingEnd::Gone) };
                let bytes = frame.data_ref().map(Bytes::as_ref).unwrap_or_default();
                let mut lines = bytes.split_inclusive(|byte| *byte == b'\n');
                for part in &mut lines {
                    rest.extend_from_slice(part);
                    if !part.ends_with(b"\n") {
                        continue;
                    }
                    let line = serde_json::from_slice::<Value>(&rest);
                    rest.clear();
                    let Ok(line) = line else { continue };
                    on_line(&line)?;
                    if line["end"].is_string() {
                        return Ok(if asked { RecordingEnd::Signal } else { RecordingEnd::Told });
                    }
                }
                anyhow::ensure!(rest.len() <= RECORDING_LINE_MAX, "what estop sends has no end of line");
            }
            Ok(RecordingEnd::Signal)
        })
    }

    /// Asks for the end, so that what was said before still comes; whether it will. A second signal does not wait for it.
    async fn end(&self, target: &str, asked: &mut bool) -> bool {
        if std::mem::replace(asked, true) {
            return false;
        }
        let request = http::Request::delete(target).body(Bytes::new());
        let Ok(request) = request else { return false };
        let answer = self.transport.exchange(request, self.within).await;
        answer.is_ok_and(|answer| answer.status.is_success())
    }
}

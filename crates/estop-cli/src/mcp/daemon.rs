//! The running estop, as this gate asks it: before and after each call, and a line on which it says when calls must end.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use bytes::Bytes;
use estop_config::Env;
use estop_config::data_dir::socket;
use estop_wire::mcp;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderName};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::{sleep, timeout};

use super::super::hook::{is_of, of_both};
use super::Args;
use crate::client::{host_and_port, own_detail, path};

/// A daemon answers within milliseconds; at half of this it is in trouble as well.
const WITHIN: Duration = Duration::from_secs(5);
/// The line says every 10 s that it is alive.
const SILENT_MAX: Duration = Duration::from_secs(35);
/// A line that broke or was refused is tried again after this time.
const AGAIN: Duration = Duration::from_millis(500);
const ANSWER_BYTES_MAX: usize = 1 << 20;
const CONFLICT: u16 = 409;
const AGENT: &str = "default";

/// Where estop is, and who asks.
pub(super) struct Daemon {
    way: Way,
    headers: Vec<(HeaderName, HeaderValue)>,
    agent: String,
    run: Option<String>,
    data_dir: Option<PathBuf>,
    /// Tells the calls of this process from those of others.
    process: String,
}

enum Way {
    Socket(PathBuf),
    /// Host and port.
    Tcp(String),
}

/// What estop says to a question.
pub(super) enum Asked {
    Allowed,
    Denied(String),
    Unreachable(String),
}

#[derive(Deserialize)]
struct Problem {
    detail: String,
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

impl Daemon {
    /// As the options and the environment say.
    pub(super) fn of(args: &Args) -> anyhow::Result<Daemon> {
        let (way, data_dir) = way(args)?;
        let env_counts = is_of(match &way {
            Way::Socket(path) => Some(path),
            Way::Tcp(_) => None,
        });
        let first =
            |option: &Option<String>, name| of_both(option.as_ref(), name, args.installed, env_counts);
        let agent = first(&args.agent, "ESTOP_AGENT");
        let run = first(&args.run, "ESTOP_RUN");
        let token = variable("ESTOP_TOKEN").filter(|_| matches!(way, Way::Tcp(_)));
        let mut headers = Vec::new();
        for (name, value) in [
            ("x-estop-agent", agent.clone()),
            ("x-estop-run", run.clone()),
            ("x-estop-ticket", variable("ESTOP_TICKET").filter(|_| env_counts)),
            (AUTHORIZATION.as_str(), token.map(|token| format!("Bearer {token}"))),
        ] {
            let Some(value) = value else { continue };
            let value = HeaderValue::from_str(&value)
                .with_context(|| format!("what is given for {name} has characters that cannot be sent"))?;
            headers.push((HeaderName::from_bytes(name.as_bytes())?, value));
        }
        let mut random = [0; 8];
        getrandom::fill(&mut random).context("no random numbers")?;
        let process = format!("{:016x}", u64::from_be_bytes(random));
        Ok(Daemon { way, headers, agent: agent.unwrap_or_else(|| AGENT.to_owned()), run, data_dir, process })
    }

    pub(super) fn agent(&self) -> &str {
        &self.agent
    }

    pub(super) fn run(&self) -> Option<&str> {
        self.run.as_deref()
    }

    /// Where estop keeps everything, if that is on this machine.
    pub(super) fn data_dir(&self) -> Option<&Path> {
        self.data_dir.as_deref()
    }

    /// The number of a call, which no other call of the agent has.
    pub(super) fn number(&self, number: u64) -> String {
        format!("{}-{number}", self.process)
    }

    /// Asks before a call, or tells after it.
    pub(super) async fn ask(&self, event: &str, body: String) -> Asked {
        let asked = timeout(WITHIN, async {
            let (head, answer) = self.exchange(&path(&["hooks", event]), body).await?.into_parts();
            let body = Limited::new(answer, ANSWER_BYTES_MAX).collect().await;
            Ok((head, body.map_err(|error| format!("its answer broke off: {error}"))?.to_bytes()))
        });
        let (head, body) = match asked.await {
            Ok(Ok(answered)) => answered,
            Ok(Err(why)) => return Asked::Unreachable(why),
            Err(_) => {
                return Asked::Unreachable(format!("there was no answer within {} s", WITHIN.as_secs()));
            }
        };
        if head.status == StatusCode::OK {
            return mcp::refusal(&body).map_or(Asked::Allowed, Asked::Denied);
        }
        let status = head.status.as_u16();
        let content_type = head.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        match own_detail(status, content_type.unwrap_or_default(), &body) {
            // It is estop, and it has no yes: then no tool runs, whatever holds when it is away.
            Some(detail) => Asked::Denied(format!("estop refused this: {detail}")),
            None => Asked::Unreachable(format!("what answers there is not estop (status {status})")),
        }
    }

    /// Asks whether the agent and its run may work at all, by opening the line that says when they must stop.
    pub(super) async fn may_work(&self) -> Asked {
        let opened = timeout(WITHIN, async {
            let (head, mut answer) =
                self.exchange(&path(&["runs", "watch"]), self.watched()).await?.into_parts();
            if head.status == StatusCode::OK {
                // The line stays open; its first word is enough.
                let _ = answer.frame().await;
                return Ok((head, Bytes::new()));
            }
            let body = Limited::new(answer, ANSWER_BYTES_MAX).collect().await;
            Ok((head, body.map_err(|error| format!("its answer broke off: {error}"))?.to_bytes()))
        });
        let (head, body) = match opened.await {
            Ok(Ok(answered)) => answered,
            Ok(Err(why)) => return Asked::Unreachable(why),
            Err(_) => {
                return Asked::Unreachable(format!("there was no answer within {} s", WITHIN.as_secs()));
            }
        };
        if head.status == StatusCode::OK {
            return Asked::Allowed;
        }
        let status = head.status.as_u16();
        let content_type = head.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        match own_detail(status, content_type.unwrap_or_default(), &body) {
            Some(detail) if status == CONFLICT => Asked::Denied(detail),
            Some(detail) => Asked::Denied(format!("estop refused this: {detail}")),
            None => Asked::Unreachable(format!("what answers there is not estop (status {status})")),
        }
    }

    /// Who is watched.
    fn watched(&self) -> String {
        let who =
            json!({"agent": self.agent, "run": self.run, "kind": "call", "attended": false, "begin": false});
        who.to_string()
    }

    /// Holds the line for ever; `on_end` is called whenever calls under way must end.
    pub(super) async fn watch(&self, on_end: impl Fn(&str)) {
        loop {
            // Broken or refused: calls are asked about one by one meanwhile.
            let _ = self.hold_line(&on_end).await;
            sleep(AGAIN).await;
        }
    }

    async fn hold_line(&self, on_end: &impl Fn(&str)) -> Result<(), String> {
        let target = path(&["runs", "watch"]);
        let opened = timeout(WITHIN, self.exchange(&target, self.watched())).await;
        let opened = opened.map_err(|_| "no answer")??;
        let (status, mut stream) = (opened.status().as_u16(), opened.into_body());
        if status != 200 {
            let body =
                Limited::new(stream, ANSWER_BYTES_MAX).collect().await.map_err(|error| error.to_string())?;
            let problem = serde_json::from_slice::<Problem>(&body.to_bytes());
            // It must not run any more, and was stopped while nobody held the line.
            if let (CONFLICT, Ok(problem)) = (status, problem) {
                on_end(&problem.detail);
            }
            return Err(format!("status {status}"));
        }
        let mut text = Vec::new();
        loop {
            let frame = timeout(SILENT_MAX, stream.frame()).await.map_err(|_| "silent")?;
            let Some(frame) = frame else { return Ok(()) };
            let frame = frame.map_err(|error| error.to_string())?;
            text.extend_from_slice(frame.data_ref().map(Bytes::as_ref).unwrap_or_default());
            while let Some(at) = text.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = text.drain(..=at).collect();
                let said: Value = serde_json::from_slice(&line).unwrap_or_default();
                if let Some(why) = said.get("end").and_then(Value::as_str) {
                    on_end(why);
                }
            }
            if text.len() > ANSWER_BYTES_MAX {
                return Err("it speaks no lines".to_owned());
            }
        }
    }

    async fn exchange(&self, target: &str, body: String) -> Result<Response<Incoming>, String> {
        let host = match &self.way {
            // Nobody looks at it there, but HTTP/1.1 has one.
            Way::Socket(_) => "localhost",
            Way::Tcp(place) => place,
        };
        let request = Request::builder().method(Method::POST).uri(target).header(HOST, host);
        let request = request.header(CONTENT_TYPE, "application/json").body(Full::new(Bytes::from(body)));
        let mut request = request.map_err(|error| error.to_string())?;
        request.headers_mut().extend(self.headers.iter().cloned());
        match &self.way {
            Way::Socket(path) => {
                let stream = UnixStream::connect(path).await;
                let stream =
                    stream.map_err(|error| format!("it does not run ({}: {error})", path.display()))?;
                converse(stream, request).await
            }
            Way::Tcp(place) => {
                let stream = TcpStream::connect(place).await;
                converse(
                    stream.map_err(|error| format!("it cannot be reached at {place}: {error}"))?,
                    request,
                )
                .await
            }
        }
    }
}

async fn converse<S>(stream: S, request: Request<Full<Bytes>>) -> Result<Response<Incoming>, String>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let broken = |error: hyper::Error| format!("the connection to it broke: {error}");
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(broken)?;
    // How it ends is told by the answer, or by its absence.
    tokio::spawn(async move { drop(connection.await) });
    sender.send_request(request).await.map_err(broken)
}

/// Where estop is, and its data directory if that is on this machine. What the command line names goes before the
/// environment, as for hooks.
fn way(args: &Args) -> anyhow::Result<(Way, Option<PathBuf>)> {
    let in_folder = |folder: PathBuf| (Way::Socket(socket(&folder)), Some(folder));
    match (&args.data_dir, &args.url) {
        (Some(folder), _) => return Ok(in_folder(folder.clone())),
        (None, Some(url)) => return Ok((tcp(url)?, None)),
        (None, None) => {}
    }
    if let Some(path) = variable("ESTOP_SOCKET").map(PathBuf::from) {
        let folder = path.parent().map(Path::to_owned);
        return Ok((Way::Socket(path), folder));
    }
    // In a run this is the address for models.
    let is_run = variable("ESTOP_TICKET").is_some();
    if let Some(url) = variable("ESTOP_URL").filter(|_| !is_run) {
        return Ok((tcp(&url)?, None));
    }
    let folder = estop_config::usual_data_dir(&Env::of_process());
    let folder =
        folder.context("nobody says where estop is: set HOME, or ESTOP_SOCKET to the path of its socket")?;
    Ok(in_folder(folder))
}

fn tcp(url: &str) -> anyhow::Result<Way> {
    host_and_port(url).map(Way::Tcp).with_context(|| {
        format!("the URL {url:?} cannot be used: write it as http://127.0.0.1:4101, the admin port")
    })
}

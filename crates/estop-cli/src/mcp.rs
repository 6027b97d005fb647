//! `estop mcp -- CMD…`: an MCP server that speaks by its standard streams, behind the gate (TL-3).
//!
//! It starts the server, passes every line on as it came, and asks the running estop before each `tools/call`. What is
//! denied is answered with the result of a tool that failed. When the agent or the channel `tools` is stopped, calls under
//! way are taken back and answered; when the button is pressed, the server ends too.
//!
//! It never holds a message back, except a call that nobody has decided about.

mod daemon;
mod lines;
mod outbox;
mod reading;
mod session;
mod unreachable;

use std::ffi::OsString;
use std::io::{BufReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, ExitCode, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use anyhow::Context;
use estop_supervise::{KILL_AFTER, Orphans, Start, Supervised};
use tokio::runtime::Handle;
use tokio::signal::unix::{SignalKind, signal};

use super::{Exit, latch};
use crate::client::OnUnreachable;
use daemon::Daemon;
use lines::{Lines, Piece};
use outbox::Outbox;
use session::Session;

/// What an ended server has still to say is waited for this long, if somebody holds its streams open.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// After SIGKILL nothing lives; a little more than until then.
const UNTIL_ENDED: Duration = KILL_AFTER.saturating_add(Duration::from_secs(2));

/// Run a stdio MCP server behind estop
///
/// Starts CMD and stands between it and its client. Everything passes as it is; a tool call passes when the running estop
/// allows it. A denied call is answered as a tool that failed, so that the model can read why. `estop install mcp` puts
/// this before the servers in a client's settings.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The server's name: its tools are called mcp__NAME__TOOL, as Claude Code calls them. Without it, the command's name
    #[arg(long, value_name = "NAME")]
    server: Option<String>,
    /// The agent that calls [env: ESTOP_AGENT]
    #[arg(long, value_name = "AGENT")]
    agent: Option<String>,
    /// Its run [env: ESTOP_RUN]
    #[arg(long, value_name = "RUN")]
    run: Option<String>,
    /// What to do with calls when estop cannot be asked; without it: deny inside a run, allow outside
    /// [env: ESTOP_ON_UNREACHABLE]
    #[arg(long, value_name = "deny|allow")]
    on_unreachable: Option<OnUnreachable>,
    /// `estop install mcp` wrote this command: what the environment says goes before the options
    #[arg(long, hide = true)]
    installed: bool,
    /// Where estop keeps everything; its socket is there [env: ESTOP_SOCKET names the socket itself]
    #[arg(long, value_name = "FOLDER")]
    data_dir: Option<PathBuf>,
    /// Reach estop at its admin port instead, with the token in ESTOP_TOKEN [env: ESTOP_URL]
    #[arg(long, value_name = "URL", conflicts_with = "data_dir")]
    url: Option<String>,
    /// The server's command
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// What ends the command.
enum Event {
    ServerExited(ExitStatus),
    ServerSilent,
    ClientGone,
    Signalled,
    Pressed(String),
}

/// Runs the command.
pub fn main(args: &Args) -> ExitCode {
    match run(args) {
        Ok(exit) => exit,
        Err(error) => {
            eprintln!("estop: {}", estop_config::printable::escaped_lines(&format!("{error:#}")));
            Exit::of(&error).into()
        }
    }
}

fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let Some((program, rest)) = args.command.split_first() else {
        anyhow::bail!("name the server's command after `--`");
    };
    let daemon = Daemon::of(args)?;
    if let Some(why) = daemon.data_dir().and_then(latch::why_tools_are_killed) {
        eprintln!("estop: this MCP server is not started. {why}");
        return Ok(Exit::No.into());
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let handle = runtime.handle().clone();
    thread("estop-mcp-ask", move || runtime.block_on(std::future::pending()))?;
    let start = Start {
        program,
        args: rest,
        agent: Some(daemon.agent()),
        orphans: Orphans::All,
        shim: std::env::current_exe().ok(),
        leash: true,
        own_group: true,
    };
    let started = start.start(|command| {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
    });
    let (supervised, child) = started?;
    serve(args, daemon, &handle, &Arc::new(supervised), child)
}

fn serve(
    args: &Args,
    daemon: Daemon,
    runtime: &Handle,
    supervised: &Arc<Supervised>,
    mut child: Child,
) -> anyhow::Result<ExitCode> {
    let (tell, events) = channel();
    let (input, output) = child.stdin.take().zip(child.stdout.take()).context("the server has no streams")?;
    let to_server = Outbox::start("estop-mcp-in", input, || {})?;
    let gone = tell.clone();
    // Nobody reads any more: then nobody needs the server.
    let to_client =
        Outbox::start("estop-mcp-out", std::io::stdout(), move || tells(&gone, Event::ClientGone))?;
    let session = Session::new(session::Parts {
        server: server_name(args),
        to_server,
        to_client: Arc::clone(&to_client),
        rule: unreachable::Rule::of(args.on_unreachable, daemon.run().is_some()),
        daemon: Arc::new(daemon),
        runtime: runtime.clone(),
    });
    watch(&session, runtime, &tell);
    let reading = Arc::clone(&session);
    thread("estop-mcp-client", move || from_client(&reading))?;
    let (reading, silent) = (Arc::clone(&session), tell.clone());
    thread("estop-mcp-server", move || {
        from_server(&reading, output);
        tells(&silent, Event::ServerSilent);
    })?;
    let waiting = Arc::clone(supervised);
    thread("estop-mcp-wait", move || {
        let status = waiting.wait(child).unwrap_or_else(|_| ExitStatus::from_raw(0));
        tells(&tell, Event::ServerExited(status));
    })?;
    let status = until_exit(&events, &session, supervised);
    to_client.close(LAST_WORDS);
    // What it started ends with it.
    supervised.end("its MCP server has ended");
    supervised.ended(UNTIL_ENDED);
    Ok(exit_code(status))
}

/// Until the server has ended and said everything.
fn until_exit(events: &Receiver<Event>, session: &Session, supervised: &Supervised) -> ExitStatus {
    let mut is_silent = false;
    loop {
        // The thread that waits for the server always tells.
        let Ok(event) = events.recv() else { return ExitStatus::from_raw(0) };
        match event {
            Event::ServerSilent => is_silent = true,
            Event::ServerExited(status) => {
                while !is_silent {
                    match events.recv_timeout(LAST_WORDS) {
                        Ok(Event::ServerSilent) => is_silent = true,
                        Ok(_) => {}
                        Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
                    }
                }
                return status;
            }
            Event::ClientGone => supervised.end("its client is gone"),
            Event::Signalled => supervised.end("estop mcp was told to end"),
            Event::Pressed(why) => {
                session.stop(&why);
                eprintln!("estop: the MCP server ends. {why}");
                supervised.end(&why);
            }
        }
    }
}

fn tells(to: &Sender<Event>, event: Event) {
    // Nobody listens any more: it has ended.
    let _ = to.send(event);
}

fn exit_code(status: ExitStatus) -> ExitCode {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1);
    ExitCode::from(u8::try_from(code).unwrap_or(1))
}

/// The line to estop, the latch, and signals.
fn watch(session: &Arc<Session>, runtime: &Handle, tell: &Sender<Event>) {
    let (told, daemon) = (Arc::clone(session), session.daemon());
    runtime.spawn(async move { daemon.watch(|why| told.end(why)).await });
    if let Some(folder) = session.daemon().data_dir().map(PathBuf::from) {
        let pressed = tell.clone();
        runtime.spawn(async move {
            let why = latch::until_tools_are_shut(&folder).await;
            tells(&pressed, Event::Pressed(why));
        });
    }
    let signalled = tell.clone();
    runtime.spawn(async move {
        let kinds = [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup()];
        for kind in kinds {
            // Without a handler the signal ends this process, and the server sees its streams close.
            let Ok(mut signal) = signal(kind) else { continue };
            let signalled = signalled.clone();
            tokio::spawn(async move {
                signal.recv().await;
                tells(&signalled, Event::Signalled);
            });
        }
    });
}

fn from_client(session: &Arc<Session>) {
    let mut lines = Lines::new(BufReader::new(std::io::stdin()));
    loop {
        match lines.next_piece() {
            Ok(Piece::Line(line)) => session.client_said(line),
            // Nobody can say what is in it.
            Ok(Piece::Part { is_last: true, .. }) => session.too_long(),
            Ok(Piece::Part { is_last: false, .. }) => {}
            Ok(Piece::End) | Err(_) => break,
        }
    }
    session.client_is_done();
}

fn from_server(session: &Session, output: impl Read) {
    let mut lines = Lines::new(BufReader::new(output));
    loop {
        match lines.next_piece() {
            Ok(Piece::Line(line)) => session.server_said(line),
            Ok(Piece::Part { bytes, .. }) => session.pass_to_client(bytes),
            Ok(Piece::End) | Err(_) => return,
        }
    }
}

fn thread(name: &str, work: impl FnOnce() + Send + 'static) -> anyhow::Result<()> {
    let started = std::thread::Builder::new().name(name.to_owned()).spawn(work);
    started.map(drop).context("cannot start a thread")
}

/// The name that was given, or the command's: the first word that is not a way to start another.
fn server_name(args: &Args) -> String {
    const STARTERS: &[&str] =
        &["npx", "uvx", "node", "python", "python3", "uv", "run", "bunx", "deno", "docker", "env"];
    let given = args.server.clone();
    let of = |word: &OsString| {
        let text = word.to_str()?;
        let name = text.rsplit('/').next().unwrap_or(text);
        let is_name = !name.is_empty() && !name.starts_with('-') && !STARTERS.contains(&name);
        is_name.then(|| name.chars().filter(|c| c.is_ascii_alphanumeric() || "-_.".contains(*c)).collect())
    };
    given.or_else(|| args.command.iter().find_map(of)).unwrap_or_else(|| "server".to_owned())
}

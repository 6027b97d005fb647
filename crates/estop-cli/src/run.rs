//! `estop run -- CMD…`: runs a program under estop, with everything it starts (TL-2).
//!
//! Its model calls go through the daemon and count in one run; its process tree ends when the button is pressed. The
//! terminal stays the program's. What cannot be covered is said, not hidden.

mod base_urls;
mod codex;
mod daemon;
mod daemon_link;
mod environment;
mod folder;
mod hooks;
mod job;
mod model_calls;
mod opencode;
mod options;
mod prepare;
mod project;
mod signals;
mod summary;
mod terminal;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use estop_config::Env;
use estop_config::data_dir::socket;
use estop_config::printable::escaped_lines;

use super::Exit;
use super::data_dir::DataDirArgs;
use crate::latch::LatchWatch;

/// Run a program under estop, with everything it starts
///
/// Starts a daemon if none runs, points the program's model calls at it, begins a run, and ends the program with
/// everything it started when the emergency stop is pressed. Signals and the exit code pass through.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    estop run -- claude\n  \
    estop run --stop-loops -- python agent.py\n  \
    estop run --agent fixer --issue ACME-7 --limit max_tool_calls=50 -- codex exec \"fix the tests\"\n\n\
    Exit code: the program's own; 128 + n if signal n ended it; 127 if there is no such program; 1 if estop refuses it; \
    2 for a wrong command line; 3 if no daemon can be reached or started.")]
pub struct Args {
    /// The agent it works as; without it, the project folder's name
    #[arg(long, value_name = "AGENT")]
    agent: Option<String>,
    /// The role it runs under: its limits hold for this run
    #[arg(long, value_name = "ROLE")]
    role: Option<String>,
    /// A limit for this run alone, as max_tool_calls=50 or max_turns=off; repeatable
    #[arg(long = "limit", value_name = "KEY=VALUE")]
    limits: Vec<String>,
    /// The issue it works on; spend is summed up by it
    #[arg(long, value_name = "ISSUE")]
    issue: Option<String>,
    /// A label, as team=core; spend is summed up by it; repeatable
    #[arg(long = "label", value_name = "KEY=VALUE")]
    labels: Vec<String>,
    /// The run's name; generated if omitted
    #[arg(long, value_name = "NAME")]
    run: Option<String>,
    /// Have loops stop the agent, in this run and from here on: turns its loop guard on
    #[arg(long)]
    stop_loops: bool,
    /// Leave the program's hooks alone
    #[arg(long)]
    no_hooks: bool,
    /// Say nothing but errors
    #[arg(long, short)]
    quiet: bool,
    /// Write the closing summary as JSON into this file, too
    #[arg(long, value_name = "FILE")]
    summary: Option<PathBuf>,
    #[command(flatten)]
    place: DataDirArgs,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// Every program under `estop run` has it. A run inside a run would be outside of the limits of the one around it, and a
/// daemon started there would end with it.
const TICKET: &str = "ESTOP_TICKET";

/// Why the program was not started, with the exit code shells have for it.
#[derive(Debug, thiserror::Error)]
#[error("{why}")]
struct NotStarted {
    code: u8,
    why: String,
}

/// Runs it to its end.
pub fn main(args: &Args) -> ExitCode {
    match run(args) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("estop: {}", escaped_lines(&format!("{error:#}")));
            match error.downcast_ref::<NotStarted>() {
                Some(not_started) => ExitCode::from(not_started.code),
                None => Exit::of(&error).into(),
            }
        }
    }
}

fn run(args: &Args) -> anyhow::Result<u8> {
    if std::env::var_os(TICKET).is_some_and(|ticket| !ticket.is_empty()) {
        return super::refused(
            "this is inside a run already, whose limits hold: start the program without `estop run`",
        );
    }
    let options = options::RunOptions::read(args)?;
    let (program, rest) = args.command.split_first().context("no program is named")?;
    project::find_program(program)?;
    // Before the first thread: none of them is interrupted, and the kernel keeps what comes meanwhile.
    let signals = signals::Signals::hold_back()?;
    let config = estop_config::load_serve(options.config.as_deref(), &Env::of_process());
    // Beside a named data directory it only tells the providers; the daemon there says itself what it cannot read.
    let is_needed = options.data_dir.is_none() || options.config.is_some();
    let config = if is_needed { Some(config?) } else { config.ok() };
    let data_dir = match (&options.data_dir, &config) {
        (Some(folder), _) => folder.clone(),
        (None, Some(config)) => std::path::absolute(&config.data_dir)?,
        (None, None) => anyhow::bail!("no data directory is known: name one with --data-dir"),
    };
    let started = daemon::find_or_start(&data_dir, options.config.as_deref())?;
    let latch = LatchWatch::begin(&data_dir);
    let ticket = options.ticket()?;
    let socket = socket(&data_dir);
    let (line, watching) = daemon_link::open(&socket, options.about(&ticket))?;
    if args.stop_loops {
        summary::stop_loops(&socket, &options.agent)?;
    }
    let (providers, secrets) =
        config.map(|config| (config.providers, config.secret_variables)).unwrap_or_default();
    let place = prepare::Place {
        agent: options.agent.clone(),
        run: watching.run.clone(),
        data_url: watching.data_url.clone(),
        data_dir: data_dir.clone(),
        socket: socket.clone(),
        ticket,
        hooks: !args.no_hooks,
        secrets: secrets.and(watching.secrets.clone()),
    };
    let environment = prepare::environment(program, rest, &place, &providers);
    if !args.quiet {
        started.iter().for_each(|said| eprintln!("estop: {}", escaped_lines(said)));
        let how = if options.attended { "" } else { " (unattended)" };
        let loops = summary::are_loops_stopped(&socket, &options.agent).map_or("", |stopped| match stopped {
            true => "; a loop stops it",
            false => "; loops are only watched (`--stop-loops` has them stop it)",
        });
        eprintln!("estop: run {} begins{how}{loops}.", watching.id);
        environment.said.iter().for_each(|said| eprintln!("estop: {}", escaped_lines(said)));
    }
    let done =
        job::Job { program, environment: &environment, agent: &options.agent, signals, latch, line: &line }
            .run();
    // A run whose program could not be started is over, too.
    let is_read = !args.quiet || args.summary.is_some();
    let summary = summary::close(&socket, &watching.id, is_read);
    // Only now: until here its ticket was good and its run watched.
    drop(line);
    drop(environment);
    let done = done?;
    if !args.quiet {
        eprint!("{}", summary.text(&done, &estop_config::commands(&data_dir, &Env::of_process())));
    }
    if let Some(file) = &args.summary {
        // The program is over: how it ended counts, whatever becomes of the file.
        let text = format!("{:#}\n", summary.json(&done));
        if let Err(error) = std::fs::write(file, text) {
            let file = escaped_lines(&file.display().to_string());
            eprintln!(
                "estop: the summary cannot be written to {file}: {error}. The exit code is the program's."
            );
        }
    }
    Ok(done.code)
}

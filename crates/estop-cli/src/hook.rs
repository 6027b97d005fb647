//! `estop hook CLIENT [EVENT]`: what a coding agent starts before and after each of its tools (TL-1).
//!
//! It passes on what the client wrote, and prints what the running estop answers; the contracts of the clients are
//! `estop_wire::hooks`. It runs before every tool call, so it reads no configuration.
//!
//! It ends with 0 or 2 and never with 1: for most clients 1 means that the hook is broken and the tool may run. An
//! error of its own refuses before a tool, a panic too.

pub(super) mod branch;
mod exchange;
mod payload;
mod unreachable;

use std::ffi::OsString;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use clap::Parser;
use estop_wire::hooks::{HookAnswer, HookClient};

use super::{Exit, latch};
use crate::client::{CallerOptions, OnUnreachable};
use payload::Moment;
use unreachable::NoAnswer;

/// All of it: reading, asking, answering. Clients wait a minute; people at a keyboard do not. A daemon answers within
/// milliseconds, at half of this it is in trouble as well.
const TIME_LIMIT: Duration = Duration::from_secs(5);

/// Options that `estop install` writes before `hook`, so that all its commands end alike.
const OPTIONS: &[&str] = &["--agent", "--run", "--on-unreachable", "--data-dir", "--url"];

/// Answer a hook of a coding agent; clients start it, `estop install` tells them to
///
/// Reads the client's JSON from the standard input and answers in the client's own contract: standard output, standard
/// error and exit code, which is 0 or 2. Options may also stand before `hook`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[arg(help = format!("Whose contract: {}", HookClient::ALL.map(HookClient::name).join(", ")))]
    client: String,
    /// The event in the client's own words; without it, the payload names it
    event: Option<String>,
    /// The agent that works here [env: ESTOP_AGENT]
    #[arg(long, value_name = "AGENT")]
    agent: Option<String>,
    /// Its run; without it, each session of the client is one [env: ESTOP_RUN]
    #[arg(long, value_name = "RUN")]
    run: Option<String>,
    /// What to answer when estop cannot be asked; without it: deny inside a run, allow outside
    /// [env: ESTOP_ON_UNREACHABLE]
    #[arg(long, value_name = "deny|allow")]
    on_unreachable: Option<OnUnreachable>,
    /// `estop install` wrote this command: in a run of the estop it names, the run's agent goes before --agent
    #[arg(long)]
    installed: bool,
    /// Where estop keeps everything; its socket is there. It goes before [env: ESTOP_SOCKET, which names the socket itself]
    #[arg(long, value_name = "FOLDER")]
    data_dir: Option<PathBuf>,
    /// Reach estop at its admin port instead, with the token in ESTOP_TOKEN [env: ESTOP_URL]
    #[arg(long, value_name = "URL", conflicts_with = "data_dir")]
    url: Option<String>,
}

impl Args {
    fn caller(&self) -> CallerOptions<'_> {
        CallerOptions {
            agent: self.agent.as_ref(),
            run: self.run.as_ref(),
            installed: self.installed,
            data_dir: self.data_dir.as_deref(),
            url: self.url.as_deref(),
        }
    }
}

/// The same as a command of its own: building all of estop's commands takes longer than everything else here.
#[derive(Parser)]
#[command(name = "estop hook", bin_name = "estop hook")]
struct Alone {
    #[command(flatten)]
    args: Args,
}

/// Answers, if the command line is `estop hook …`.
pub fn if_asked(words: impl Iterator<Item = OsString>) -> Option<ExitCode> {
    let mut words: Vec<OsString> = words.collect();
    let at = place_of_hook(&words)?;
    words.remove(at);
    // What is refused must be refused in the client's words, also where the rest of the line cannot be read.
    let named =
        |nth: usize| words.get(nth).and_then(|word| word.to_str()).filter(|word| !word.starts_with('-'));
    let client = named(at).and_then(HookClient::from_name);
    let moment = client.map(|client| Moment::of_name(client, named(at + 1)));
    let args = match Alone::try_parse_from(&words) {
        Ok(Alone { args }) => args,
        // Help was asked for.
        Err(error) if !error.use_stderr() => error.exit(),
        Err(error) => {
            return Some(match moment {
                Some(moment) => say(&unreachable::misused(&moment, &first_line(&error.to_string()))),
                None => {
                    eprintln!("{error}");
                    Exit::Usage.into()
                }
            });
        }
    };
    Some(run(args))
}

/// Runs the command, already parsed.
pub fn main(args: Args) -> ExitCode {
    run(args)
}

fn run(args: Args) -> ExitCode {
    let Some(client) = HookClient::from_name(&args.client) else {
        let known = HookClient::ALL.map(HookClient::name).join(", ");
        eprintln!("estop: there are no hooks for `{}`. Known are: {known}", args.client.escape_debug());
        return Exit::Usage.into();
    };
    if std::io::stdin().is_terminal() {
        eprintln!(
            "estop: {0} starts `estop hook {0}` itself and writes JSON to it. `estop install {0}` tells it to.",
            client.name()
        );
        return Exit::Usage.into();
    }
    let moment = Moment::of_name(client, args.event.as_deref());
    // A panic says nothing on its own: what is printed must be an answer.
    std::panic::set_hook(Box::new(|_| {}));
    let answer = std::panic::catch_unwind(|| answer(args, &moment));
    say(&answer.unwrap_or_else(|_| unreachable::broken(&moment)))
}

fn answer(args: Args, moment: &Moment) -> HookAnswer {
    let rule = unreachable::rule(args.on_unreachable, args.run.is_some());
    let folder = args.caller().endpoint().ok().and_then(|endpoint| endpoint.data_dir().map(Path::to_owned));
    // A pressed button goes before every rule for an estop that is away.
    let away = |moment: &Moment, why: &str| match folder.as_deref().and_then(latch::why_tools_are_shut) {
        Some(why) => unreachable::pressed(moment, &why),
        None => unreachable::by_rule(rule, moment, why),
    };
    let (tell, told) = mpsc::sync_channel(1);
    let client = moment.client;
    let is_read = Arc::new(AtomicBool::new(false));
    let reading = Arc::clone(&is_read);
    // A thread of its own: whatever it hangs in, a connection, the client's pipe, the answer comes in time.
    let asking = std::thread::Builder::new().spawn(move || {
        // Nobody listens any more once the time is up.
        let _ = tell.send(exchange::ask(&args, client, &reading));
    });
    if let Err(error) = asking {
        return away(moment, &format!("a thread cannot be started: {error}"));
    }
    match told.recv_timeout(TIME_LIMIT) {
        Ok(Ok(answer)) => answer,
        Ok(Err(NoAnswer::Unreachable { moment, why })) => away(&moment, &why),
        Ok(Err(NoAnswer::Refused { moment, why })) => unreachable::refused(&moment, &why),
        Ok(Err(NoAnswer::Misused { moment, why })) => unreachable::misused(&moment, &why),
        Ok(Err(NoAnswer::Unread(answer))) => answer,
        Err(mpsc::RecvTimeoutError::Timeout) => {
            let seconds = TIME_LIMIT.as_secs();
            if !is_read.load(Ordering::Relaxed) {
                // estop may well be there: what never came cannot be allowed.
                return unreachable::refused(
                    moment,
                    &format!("the payload did not arrive within {seconds} s"),
                );
            }
            away(moment, &format!("estop gave no answer within {seconds} s"))
        }
        Err(mpsc::RecvTimeoutError::Disconnected) => unreachable::broken(moment),
    }
}

/// Prints the answer. What cannot be printed is refused the other way: by the exit code.
fn say(answer: &HookAnswer) -> ExitCode {
    let print = |mut to: Box<dyn Write>, text: &str| to.write_all(text.as_bytes()).and_then(|()| to.flush());
    let printed = print(Box::new(std::io::stdout().lock()), &answer.stdout);
    let mut words = answer.stderr.clone();
    if !words.is_empty() && !words.ends_with('\n') {
        words.push('\n');
    }
    // The exit code says the same.
    let _ = print(Box::new(std::io::stderr().lock()), &words);
    if printed.is_err() { Exit::Usage.into() } else { ExitCode::from(answer.exit_code) }
}

/// Where the word `hook` stands: first, or after options of it.
fn place_of_hook(words: &[OsString]) -> Option<usize> {
    let mut at = 1;
    loop {
        let word = words.get(at)?.to_str()?;
        if word == "hook" {
            return Some(at);
        }
        let (option, value) =
            word.split_once('=').map_or((word, None), |(option, value)| (option, Some(value)));
        if !OPTIONS.contains(&option) {
            return None;
        }
        at += if value.is_some() { 1 } else { 2 };
    }
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tl_1_the_word_hook_is_found_after_its_own_options_only() {
        let place = |line: &str| place_of_hook(&line.split(' ').map(OsString::from).collect::<Vec<_>>());
        assert_eq!(place("estop hook codex"), Some(1));
        assert_eq!(place("estop --agent a --data-dir=/d hook codex Stop --installed"), Some(4));
        assert_eq!(place("estop serve hook"), None);
        assert_eq!(place("estop --agent hook"), None);
        assert_eq!(place("estop"), None);
    }
}

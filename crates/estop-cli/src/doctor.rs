//! `estop doctor`: looks at everything a person would have to look at by hand, and says how to fix what is wrong (UI-2).
//!
//! It changes nothing and needs neither a running estop nor a data directory. Every check is a function that gives
//! findings; none of them can end the command.

mod alerts;
mod clock;
mod configuration;
mod data_folder;
mod hooks;
mod machine;
mod ports;
mod providers;
mod running;

use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use comfy_table::{ContentArrangement, Table, presets};
use estop_config::printable::escaped_lines;
use estop_config::{Env, ServeConfig};
use estop_core::printed_command::shell_word;
use serde::Serialize;
use serde_json::json;

use super::data_dir::DataDirArgs;
use super::{Exit, say, say_json};

/// Narrower than this no sentence can be read in three columns.
const COLUMNS_MIN: u16 = 60;

/// Look for what is wrong here; configuration, data, daemon, ports, providers, hooks; exit code 1 if something is
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    place: DataDirArgs,
    /// Connect to no provider
    #[arg(long)]
    offline: bool,
    /// Show what is fine, too
    #[arg(long)]
    all: bool,
    /// Print everything as JSON
    #[arg(long)]
    json: bool,
}

/// How bad it is, worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
enum Level {
    /// Something does not work.
    Wrong,
    /// Something may not be as it is meant.
    Warning,
    Ok,
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Finding {
    level: Level,
    area: &'static str,
    /// One sentence.
    what: String,
    /// What to do about it; nothing if it is fine.
    fix: Option<String>,
}

/// Findings about one area.
#[derive(Clone, Copy)]
struct Area(&'static str);

impl Area {
    fn ok(self, what: impl Into<String>) -> Finding {
        Finding { level: Level::Ok, area: self.0, what: what.into(), fix: None }
    }

    fn warning(self, what: impl Into<String>, fix: impl Into<String>) -> Finding {
        Finding { level: Level::Warning, area: self.0, what: what.into(), fix: Some(fix.into()) }
    }

    fn wrong(self, what: impl Into<String>, fix: impl Into<String>) -> Finding {
        Finding { level: Level::Wrong, area: self.0, what: what.into(), fix: Some(fix.into()) }
    }
}

/// What was named on the command line, and what follows from it.
struct Installation {
    config_file: Option<PathBuf>,
    named_folder: Option<PathBuf>,
    config: Option<ServeConfig>,
    /// The data directory; `None` if nobody can tell where it is.
    folder: Option<PathBuf>,
}

impl Installation {
    fn find(args: &Args, env: &Env, config: Option<ServeConfig>) -> Installation {
        let (named_folder, config_file) = args.place.named();
        let of_config = || config.as_ref().map(|config| config.data_dir.clone());
        // A file that cannot be read may name any folder.
        let usual = || config_file.is_none().then(|| estop_config::usual_data_dir(env)).flatten();
        let folder = named_folder.clone().or_else(of_config).or_else(usual);
        Installation { config_file, named_folder, config, folder }
    }

    /// How this estop is started.
    fn serve(&self) -> String {
        let config = self.config_file.as_ref().map(|file| format!(" --config {}", quoted(file)));
        format!("estop serve{}{}", config.unwrap_or_default(), self.folder_option())
    }

    /// A command about this estop.
    fn command(&self, words: &str) -> String {
        match (&self.named_folder, &self.config_file) {
            (None, Some(file)) => format!("`estop {words} --config {}`", quoted(file)),
            (Some(_), _) | (None, None) => format!("`estop {words}{}`", self.folder_option()),
        }
    }

    fn folder_option(&self) -> String {
        let option = |folder: &PathBuf| format!(" --data-dir {}", quoted(folder));
        self.named_folder.as_ref().map(option).unwrap_or_default()
    }
}

/// A path as a command takes it.
fn quoted(path: &Path) -> String {
    shell_word(&path.to_string_lossy())
}

/// Runs the command.
pub fn main(args: &Args) -> anyhow::Result<Exit> {
    let mut findings = look(args);
    findings.sort_by_key(|finding| finding.level);
    let count = |level: Level| findings.iter().filter(|finding| finding.level == level).count();
    let (wrong, warnings, fine) = (count(Level::Wrong), count(Level::Warning), count(Level::Ok));
    if args.json {
        say_json(&json!({"wrong": wrong, "warnings": warnings, "fine": fine, "findings": findings}))?;
    } else {
        let shown: Vec<&Finding> =
            findings.iter().filter(|finding| args.all || finding.level != Level::Ok).collect();
        if !shown.is_empty() {
            say(&table(&shown))?;
        }
        let verdict = match (wrong, warnings) {
            (0, 0) => "Nothing is wrong".to_owned(),
            (0, 1) => "Nothing is wrong, 1 warning".to_owned(),
            (0, n) => format!("Nothing is wrong, {n} warnings"),
            (n, 1) => format!("{n} wrong, 1 warning"),
            (n, m) => format!("{n} wrong, {m} warnings"),
        };
        say(&format!("{verdict}, {fine} fine{}.", if args.all { "" } else { " (--all shows them)" }))?;
    }
    Ok(if wrong == 0 { Exit::Fine } else { Exit::No })
}

/// Everything, in the order in which a person would look.
fn look(args: &Args) -> Vec<Finding> {
    let env = Env::of_process();
    let (_, file) = args.place.named();
    let (config, mut findings) = configuration::check(file.as_deref(), &env);
    let place = Installation::find(args, &env, config);
    // Providers and clients may take seconds to answer: they are asked beside the rest.
    std::thread::scope(|threads| {
        let reached = threads.spawn(|| providers::check(&place, args.offline));
        let hooked = threads.spawn(|| hooks::check(place.folder.as_deref(), &env));
        findings.extend(local(&place));
        let broken = |area: &'static str| {
            vec![Area(area).wrong("this check broke", "report it: this is a fault of estop doctor")]
        };
        findings.extend(reached.join().unwrap_or_else(|_| broken("providers")));
        findings.extend(hooked.join().unwrap_or_else(|_| broken("hooks")));
    });
    findings
}

fn local(place: &Installation) -> Vec<Finding> {
    let mut findings = Vec::new();
    match &place.folder {
        Some(folder) => findings.extend(of_folder(place, folder)),
        None => findings.push(Area("data directory").warning(
            "nobody can tell where it is while the configuration cannot be used",
            "fix the configuration, or name the folder with --data-dir",
        )),
    }
    findings.extend(machine::check(place.config.as_ref()));
    findings
}

fn of_folder(place: &Installation, folder: &Path) -> Vec<Finding> {
    let daemon = running::look(folder);
    let mut findings = data_folder::check(place, folder, &daemon);
    findings.extend(running::check(place, folder, &daemon));
    if let (Some(config), false) = (&place.config, daemon.is_there()) {
        findings.extend(ports::check(&config.listen));
    }
    findings.extend(clock::check(folder, place.config.as_ref()));
    findings
}

/// What there is, for people. On a terminal it is as wide as that; a pipe gets whole lines.
fn table(findings: &[&Finding]) -> String {
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED);
    let terminal = std::io::stdout();
    if let (true, Ok(size)) = (terminal.is_terminal(), rustix::termios::tcgetwinsize(&terminal)) {
        table.set_content_arrangement(ContentArrangement::Dynamic);
        table.set_width(size.ws_col.max(COLUMNS_MIN));
    }
    table.set_header(["", "where", "what", "fix"]);
    let row = |finding: &&Finding| {
        let level = match finding.level {
            Level::Wrong => "WRONG",
            Level::Warning => "warning",
            Level::Ok => "fine",
        };
        let fix = finding.fix.as_deref().unwrap_or_default();
        [level.to_owned(), finding.area.to_owned(), escaped_lines(&finding.what), escaped_lines(fix)]
    };
    table.add_rows(findings.iter().map(row));
    table.to_string()
}

//! `estop manual DIR`: the manual pages of all commands, made from clap's own description of them. Packages bring them along.

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::builder::Resettable;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};

use super::{Exit, say};

/// Write the manual pages of all commands
#[derive(Debug, clap::Args)]
#[command(after_help = "For example: estop manual ~/.local/share/man/man1; then `man estop-agents-list`")]
pub struct Args {
    /// The folder they are written into; it is made if it is missing
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

/// Runs the command.
pub fn main(args: &Args, cli: clap::Command) -> anyhow::Result<Exit> {
    let folder = &args.folder;
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    // Every page has `--help`; pages of `help` itself would only say the same again.
    let mut cli = cli.disable_help_subcommand(true);
    cli.build();
    let source = format!("{} {}", cli.get_name(), cli.get_version().unwrap_or_default());
    let pages = write_pages(&cli, folder, &source)?;
    say(&format!("Wrote {pages} pages to {}.", folder.display()))?;
    Ok(Exit::Fine)
}

/// Writes the page of a command and those of its own commands, and says how many they were.
fn write_pages(command: &clap::Command, folder: &Path, source: &str) -> anyhow::Result<usize> {
    // Its examples would be filled to one paragraph.
    let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let man = Man::new(command.clone().after_help(Resettable::Reset));
    // An empty date would be left out, and what follows would take its place.
    let man = man.date(" ").source(source).manual("estop manual");
    let mut page = Vec::new();
    man.render(&mut page)?;
    sections_after(&after).to_writer(&mut page)?;
    let file = folder.join(man.get_filename());
    std::fs::write(&file, page).with_context(|| format!("cannot write {}", file.display()))?;
    let mut pages = 1;
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
        pages += write_pages(sub, folder, source)?;
    }
    Ok(pages)
}

/// What stands after the options in `--help`: examples, whose lines stay as they are, and notes.
fn sections_after(text: &str) -> Roff {
    let mut roff = Roff::new();
    let mut section = "";
    for block in text.split("\n\n") {
        let is_example = |line: &str| line.starts_with(' ');
        let heading = if block.lines().any(is_example) { "EXAMPLES" } else { "NOTES" };
        if block.trim().is_empty() {
            continue;
        }
        if heading == section {
            roff.control("PP", []);
        } else {
            roff.control("SH", [heading]);
            section = heading;
        }
        for line in block.lines().filter(|line| !["Example:", "Examples:"].contains(line)) {
            if is_example(line) {
                roff.control("nf", []);
                roff.text([roman(line.trim_start())]);
                roff.control("fi", []);
            } else {
                roff.text([roman(line)]);
            }
        }
    }
    roff
}

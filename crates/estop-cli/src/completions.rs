//! `estop completions SHELL`: lets a shell complete estop's commands.

use clap_complete::Shell;

use super::{Exit, say};

/// Print the completions for a shell
#[derive(Debug, clap::Args)]
#[command(
    after_help = "For example: estop completions bash > ~/.local/share/bash-completion/completions/estop"
)]
pub struct Args {
    /// Which shell
    shell: Shell,
}

/// Runs the command.
pub fn main(args: &Args, mut cli: clap::Command) -> anyhow::Result<Exit> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut cli, "estop", &mut script);
    say(String::from_utf8(script)?.trim_end())?;
    Ok(Exit::Fine)
}

//! `estop config …`: the configuration `estop serve` would read, without starting it.

use std::path::{Path, PathBuf};

use estop_config::printable::{escaped, escaped_within};
use estop_config::{Env, GivenValue, PemFiles};

use super::table::table;
use super::{Exit, say, say_json};

/// Longer values are cut; `--json` has them whole.
const VALUE_MAX: usize = 120;

/// Check and show the configuration
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Say whether `estop serve` would take the configuration, and what is wrong with it
    Check(FileArgs),
    /// Show every value that file and environment set, and where
    Show {
        #[command(flatten)]
        file: FileArgs,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Print the JSON schema of the file, for editors
    Schema,
}

#[derive(Debug, clap::Args)]
struct FileArgs {
    /// The file, instead of ESTOP_CONFIG, ~/.config/estop/estop.yaml or /etc/estop/estop.yaml
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// The same file, named as other commands name it
    #[arg(long, value_name = "FILE", conflicts_with = "file")]
    config: Option<PathBuf>,
}

impl FileArgs {
    fn named(&self) -> Option<&Path> {
        self.file.as_deref().or(self.config.as_deref())
    }
}

/// Runs the command.
pub fn main(args: &Args) -> anyhow::Result<Exit> {
    match &args.command {
        Command::Check(file) => check(file),
        Command::Show { file, json } => show(file, *json),
        Command::Schema => say_json(&estop_config::schema()),
    }?;
    Ok(Exit::Fine)
}

fn check(args: &FileArgs) -> anyhow::Result<()> {
    let config = estop_config::load_serve(args.named(), &Env::of_process())?;
    // What a start reads besides: certificates and keys in files.
    PemFiles::read(&config)?;
    say(&match &config.file {
        Some(file) => format!("{} can be used.", escaped(&file.display().to_string())),
        None => {
            let note = estop_config::overlooked(&Env::of_process()).map(|note| format!(" Note: {note}."));
            format!(
                "There is no configuration file: everything has its default, or what the environment sets.{}",
                note.unwrap_or_default()
            )
        }
    })
}

fn show(args: &FileArgs, json: bool) -> anyhow::Result<()> {
    let values = estop_config::given(args.named(), &Env::of_process())?;
    if json {
        return say_json(&values);
    }
    if values.is_empty() {
        return say("Nothing is set: everything has its default (docs/configuration.md lists them).");
    }
    let row = |given: &GivenValue| {
        [&given.key, &given.value, &given.origin].map(|text| escaped_within(text, VALUE_MAX))
    };
    say(&table(["Key", "Value", "Set by"], values.iter().map(row)))
}

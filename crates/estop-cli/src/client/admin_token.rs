//! The admin token of a command of the red button: where it comes from, and when it is shown.

use std::io::{BufRead, IsTerminal, Write};

use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
use secrecy::SecretString;

use super::daemon::{Daemon, DaemonArgs, Whereabouts};

/// Beside ESTOP_TOKEN, as estop itself reads it.
const VARIABLE: &str = "ESTOP_ADMIN_TOKEN";
/// As an option's value: read the token from the standard input.
const FROM_INPUT: &str = "-";

/// A token on the command line.
#[derive(Debug, clap::Args)]
pub(crate) struct AdminTokenArg {
    /// The admin token, or `-` to read it from the standard input. On the command line everybody on this machine can see it
    /// while the command runs: --admin-token-file, ESTOP_TOKEN or `-` is better
    #[arg(long, value_name = "TOKEN", global = true)]
    admin_token: Option<String>,
}

impl AdminTokenArg {
    /// The daemon for a kill or a look. Over the owner's socket these need no token, and a stale one in the environment must
    /// not keep anybody from a kill: only one that the command line names is shown.
    pub(crate) fn daemon(&self, daemon: &DaemonArgs) -> anyhow::Result<Daemon> {
        let token = match (self.given()?, daemon.whereabouts()?) {
            (Some(token), _) => Some(token),
            (None, Whereabouts::Url(_)) if !daemon.has_token() => from_env(),
            (None, Whereabouts::Url(_) | Whereabouts::DataDir(_)) => None,
        };
        daemon.daemon_with(token.as_ref())
    }

    /// The daemon for what always needs an admin token (KS-5): one that is given, or else asked for on a terminal.
    pub(crate) fn daemon_to_unlock(&self, daemon: &DaemonArgs) -> anyhow::Result<Daemon> {
        let token = match self.given()? {
            Some(token) => Some(token),
            None if daemon.has_token() => daemon.token()?,
            None => from_env().or_else(ask),
        };
        daemon.daemon_with(token.as_ref())
    }

    fn given(&self) -> anyhow::Result<Option<SecretString>> {
        match self.admin_token.as_deref().filter(|token| !token.is_empty()) {
            Some(FROM_INPUT) => {
                let mut line = String::new();
                std::io::stdin().lock().read_line(&mut line)?;
                anyhow::ensure!(
                    !line.trim().is_empty(),
                    "--admin-token -: there is no token on the standard input"
                );
                Ok(Some(line.trim().into()))
            }
            Some(token) => {
                eprintln!(
                    "estop: --admin-token can be seen by everybody on this machine while the command runs. Better: \
                     --admin-token-file FILE, ESTOP_TOKEN, or `--admin-token -` and the token on the standard input."
                );
                Ok(Some(token.into()))
            }
            None => Ok(None),
        }
    }
}

fn from_env() -> Option<SecretString> {
    std::env::var(VARIABLE).ok().filter(|token| !token.is_empty()).map(Into::into)
}

/// On a terminal, without showing what is typed. A pipe is not asked: it might never answer.
fn ask() -> Option<SecretString> {
    let (input, mut asked) = (std::io::stdin(), std::io::stderr());
    if !input.is_terminal() || !asked.is_terminal() {
        return None;
    }
    let before = tcgetattr(&input).ok()?;
    let mut silent = before.clone();
    silent.local_modes.remove(LocalModes::ECHO);
    write!(asked, "Admin token (lost it: `estop token reset`): ").ok()?;
    asked.flush().ok()?;
    tcsetattr(&input, OptionalActions::Flush, &silent).ok()?;
    let mut line = String::new();
    let read = input.lock().read_line(&mut line);
    // Whatever was read, the terminal shows again what is typed.
    let _ = tcsetattr(&input, OptionalActions::Flush, &before);
    let _ = writeln!(asked);
    read.ok().filter(|_| !line.trim().is_empty()).map(|_| line.trim().into())
}

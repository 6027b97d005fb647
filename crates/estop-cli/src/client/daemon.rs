//! What commands that ask the running estop share: where it is, how to ask, how to answer.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::Context;
use estop_config::data_dir::socket;
use estop_config::printable::escaped;
use estop_config::printed_command::Commands;
use estop_config::{Env, closest};
use http::Method;
use secrecy::SecretString;
use serde_json::{Value, json};

use super::{Answer, Ask, Client, ClientError, RecordingEnd, path, variable, with_query};
use crate::data_dir::DataDirArgs;
use crate::table::each;
use crate::{say, say_json};

const URL_VARIABLE: &str = "ESTOP_URL";
const TOKEN_VARIABLE: &str = "ESTOP_TOKEN";
/// Tokens have some 80 characters, chosen ones up to 256.
const TOKEN_FILE_MAX: u64 = 4096;
/// Each time somebody else must have been faster; five times in a row somebody is at war with us.
const ATTEMPTS_MAX: usize = 5;
/// The most the API puts on a page.
const PAGE: usize = 500;

/// Which estop, and how to answer.
#[derive(Debug, clap::Args)]
pub(crate) struct DaemonArgs {
    #[command(flatten)]
    place: DataDirArgs,
    /// Reach estop at its admin port, as http://127.0.0.1:4101, instead of through the owner's socket in the data
    /// directory [env: ESTOP_URL]
    #[arg(long, value_name = "URL", global = true, conflicts_with_all = ["data_dir", "config"])]
    url: Option<String>,
    /// A file with the token for --url, and for unlocking the emergency stop. Without it, ESTOP_TOKEN is used. The token
    /// itself does not belong here: everybody on a machine can see the options of its commands
    #[arg(long, value_name = "FILE", global = true, visible_alias = "admin-token-file")]
    token_file: Option<PathBuf>,
    /// Print the answer as JSON
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

impl DaemonArgs {
    /// The estop they name.
    pub(crate) fn daemon(&self) -> anyhow::Result<Daemon> {
        self.daemon_with(None)
    }

    /// The same with a token from somewhere else, if there is one. Over the owner's socket no other is shown.
    pub(crate) fn daemon_with(&self, token: Option<&SecretString>) -> anyhow::Result<Daemon> {
        let (client, mut commands) = match self.whereabouts()? {
            Whereabouts::Url(url) => {
                let own = if token.is_some() { None } else { self.token()? };
                // One of the environment is there for the next command, too.
                let commands = match &self.url {
                    Some(url) => Commands::default().with("--url", url),
                    None => Commands::default(),
                };
                (Client::to_url(&url, token.or(own.as_ref()))?, commands)
            }
            Whereabouts::DataDir(folder) => {
                let commands = estop_config::commands(&folder, &Env::of_process());
                (Client::to_socket(&socket(&folder))?.bearing(token)?, commands)
            }
        };
        if let Some(file) = &self.token_file {
            commands = commands.with("--token-file", &file.to_string_lossy());
        }
        Ok(Daemon { client, json: self.json, commands })
    }

    /// Where estop is.
    pub(crate) fn whereabouts(&self) -> anyhow::Result<Whereabouts> {
        Ok(match self.url() {
            Some(url) => Whereabouts::Url(url),
            None => Whereabouts::DataDir(self.place.folder()?),
        })
    }

    /// The same for what only the owner may do.
    pub(crate) fn daemon_of_owner(&self, what: &str) -> anyhow::Result<Daemon> {
        anyhow::ensure!(
            self.url().is_none(),
            "{what} goes through the owner's socket only: run it on estop's own machine, without --url and \
             {URL_VARIABLE}, or name the data directory with --data-dir"
        );
        self.daemon()
    }

    /// What the command line names comes before the environment.
    fn url(&self) -> Option<String> {
        let from_env = || variable(URL_VARIABLE);
        self.url.clone().or_else(|| if self.place.is_given() { None } else { from_env() })
    }

    /// Whether a token is given in one of the usual ways.
    pub(crate) fn has_token(&self) -> bool {
        self.token_file.is_some() || std::env::var_os(TOKEN_VARIABLE).is_some_and(|token| !token.is_empty())
    }

    /// The token that is given in one of the usual ways.
    pub(crate) fn token(&self) -> anyhow::Result<Option<SecretString>> {
        match &self.token_file {
            Some(file) => read_token(file).map(Some),
            None => Ok(variable(TOKEN_VARIABLE).map(Into::into)),
        }
    }
}

/// Where estop is.
pub(crate) enum Whereabouts {
    /// Behind its admin port.
    Url(String),
    /// On this machine.
    DataDir(PathBuf),
}

fn read_token(file: &Path) -> anyhow::Result<SecretString> {
    let name = file.display();
    let read = || {
        let mut text = String::new();
        File::open(file)?.take(TOKEN_FILE_MAX).read_to_string(&mut text).map(|_| text)
    };
    let text = read().with_context(|| format!("cannot read the token in {name}"))?;
    anyhow::ensure!(!text.trim().is_empty(), "there is no token in {name}");
    Ok(text.trim().into())
}

/// A running estop.
pub(crate) struct Daemon {
    client: Client,
    pub(crate) json: bool,
    /// Makes commands that reach the same estop.
    pub(crate) commands: Commands,
}

/// Entries a command lists at most.
const LISTED_MAX: usize = 10_000;

/// How many entries a list may have.
pub(crate) fn list_limit(text: &str) -> Result<usize, String> {
    let limit = text.parse().ok().filter(|limit| (1..=LISTED_MAX).contains(limit));
    limit.ok_or_else(|| format!("expected a whole number from 1 to {LISTED_MAX}"))
}

/// A list that comes in pages.
pub(crate) struct Listing<'a> {
    pub(crate) path: &'a str,
    pub(crate) query: Vec<(&'a str, Option<String>)>,
    /// Under which key the entries are.
    pub(crate) key: &'a str,
    /// The parameter that takes the `next` of the page before.
    pub(crate) cursor: &'a str,
    /// As many as there are, if left out.
    pub(crate) limit: Option<usize>,
}

impl Daemon {
    /// With less patience, or more.
    pub(crate) fn within(self, within: std::time::Duration) -> Daemon {
        Daemon { client: self.client.within(within), ..self }
    }

    /// Follows a line that stays open: see [`Client::follow`].
    pub(crate) fn follow(
        &self,
        target: &str,
        body: &Value,
        on_line: &mut dyn FnMut(&Value) -> anyhow::Result<()>,
    ) -> anyhow::Result<RecordingEnd> {
        self.client.follow(target, body, on_line)
    }

    pub(crate) fn get(&self, target: String) -> anyhow::Result<Value> {
        self.send(Method::GET, target, None)
    }

    pub(crate) fn send(&self, method: Method, target: String, body: Option<&Value>) -> anyhow::Result<Value> {
        let ask = Ask { body, ..Ask::new(method, target) };
        Ok(self.attempt(|client| client.ask(&ask))?.json)
    }

    /// Asks again where something else was changed in between: nothing was done then, and the journal's projector changes
    /// agents too. With `--json` a refusal is an answer: the problem document.
    pub(crate) fn attempt(
        &self,
        attempt: impl Fn(&Client) -> Result<Answer, ClientError>,
    ) -> anyhow::Result<Answer> {
        let mut answer = attempt(&self.client);
        for _ in 1..ATTEMPTS_MAX {
            if !matches!(&answer, Err(ClientError::Refused(refusal)) if refusal.is_stale()) {
                break;
            }
            answer = attempt(&self.client);
        }
        if let Err(ClientError::Refused(refusal)) = &mut answer {
            if self.json {
                say_json(&refusal.document)?;
            }
            refusal.meant = refusal.unknown_agent().and_then(|name| self.closest_agent(name));
        }
        Ok(answer?)
    }

    /// The agent that is probably meant by this name.
    fn closest_agent(&self, name: &str) -> Option<String> {
        let target = with_query("/api/agents", &[("limit", Some(PAGE.to_string()))]);
        let found = self.client.ask(&Ask::new(Method::GET, target)).ok()?.json;
        let names = each(&found["agents"]).iter().filter_map(|agent| agent["id"].as_str());
        closest(name, names).map(str::to_owned)
    }

    /// Reads page after page into one.
    pub(crate) fn list(&self, listing: Listing<'_>) -> anyhow::Result<Value> {
        let Listing { path, mut query, key, cursor, limit } = listing;
        let mut entries: Vec<Value> = Vec::new();
        let mut next = Value::Null;
        let mut whole = None;
        loop {
            let room = limit.map_or(PAGE, |limit| limit.saturating_sub(entries.len()));
            if room == 0 {
                break;
            }
            let page_query =
                [("limit", Some(room.min(PAGE).to_string())), (cursor, next.as_str().map(str::to_owned))];
            query.extend(page_query);
            let mut page = self.get(with_query(path, &query))?;
            query.truncate(query.len() - 2);
            entries.extend(page[key].as_array_mut().map(std::mem::take).unwrap_or_default());
            next = page["next"].take();
            // What else the first page says is about all of them.
            whole.get_or_insert(page);
            if next.is_null() {
                break;
            }
        }
        // The API may give some more than asked for: those that are not stored yet.
        entries.truncate(limit.unwrap_or(usize::MAX));
        let mut whole = whole.unwrap_or_else(|| json!({}));
        (whole[key], whole["next"]) = (entries.into(), next);
        Ok(whole)
    }

    /// Takes back the entry with this id of a list of the API, and says so; `done` is the sentence about the id.
    pub(crate) fn revoke(
        &self,
        list: &str,
        id: &str,
        done: impl FnOnce(String) -> String,
    ) -> anyhow::Result<()> {
        self.send(Method::DELETE, path(&[list, id]), None)?;
        self.say(&json!({"id": id, "revoked": true}), |_| done(escaped(id)))
    }

    /// Prints the API's JSON, or what it means.
    pub(crate) fn say(&self, answer: &Value, text: impl FnOnce(&Value) -> String) -> anyhow::Result<()> {
        if self.json { say_json(answer) } else { say(&text(answer)) }
    }
}

//! Secrets on command lines whose option does not say that it takes one: `mysql -pVALUE`, `curl -u user:VALUE`.

use super::scan::{end_of_value, quote_before, quotes, spaces};
use super::{Found, is_mark, rules};

/// How an option takes its secret.
#[derive(Clone, Copy)]
enum Takes {
    /// `-pVALUE` alone: what stands after a space is something else.
    Attached,
    /// `-p VALUE`, `-p=VALUE`, and `-pVALUE` of an option with one letter.
    Word,
    /// The same, of a user with a password: `-u user:VALUE`.
    UserAndWord,
}

pub(super) struct TakesSecret {
    name: &'static str,
    takes: Takes,
}

const fn attached(name: &'static str) -> TakesSecret {
    TakesSecret { name, takes: Takes::Attached }
}

const fn word(name: &'static str) -> TakesSecret {
    TakesSecret { name, takes: Takes::Word }
}

const fn user(name: &'static str) -> TakesSecret {
    TakesSecret { name, takes: Takes::UserAndWord }
}

/// Commands, and which of their options take a secret. `--password` and its like are known by their names, whatever the command.
const COMMANDS: &[(&[&str], &[TakesSecret])] = &[
    (
        &[
            "mysql",
            "mysqldump",
            "mysqladmin",
            "mysqlimport",
            "mysqlsh",
            "mariadb",
            "mariadb-dump",
            "mariadb-admin",
        ],
        &[attached("-p")],
    ),
    (&["7z", "7za", "7zz", "rar", "unrar"], &[attached("-p")]),
    // docker, podman, helm registry, az, oc
    (&["login"], &[word("-p")]),
    (&["sshpass", "rabbitmqadmin"], &[word("-p")]),
    (&["mongo", "mongosh", "mongodump", "mongorestore", "mongoexport", "mongoimport"], &[word("-p")]),
    (&["redis-cli"], &[word("-a"), word("--pass")]),
    (
        &["curl"],
        &[user("-u"), user("--user"), user("-U"), user("--proxy-user"), word("--pass"), word("--proxy-pass")],
    ),
    (&["smbclient", "rpcclient"], &[user("-U"), user("--user")]),
    (&["ldapsearch", "ldapadd", "ldapmodify", "ldapdelete", "ldapwhoami", "ldappasswd"], &[word("-w")]),
    (&["sqlcmd", "bcp", "zip", "unzip", "mosquitto_pub", "mosquitto_sub"], &[word("-P")]),
    (&["plink", "pscp", "psftp"], &[word("-pw")]),
    (&["openssl"], &[word("-passin"), word("-passout"), word("-pass")]),
    // What a wrapper starts has options of its own.
    (&["ssh", "scp", "sftp", "rsync", "docker", "podman", "kubectl", "git", "cargo", "npm", "psql"], &[]),
];

/// The options of a command that take secrets; `None` if this is no command that is known.
pub(super) fn options_of(word: &str) -> Option<&'static [TakesSecret]> {
    COMMANDS.iter().find(|(names, _)| names.contains(&word)).map(|(_, options)| *options)
}

/// The secret that the option at `at` takes; its name ends at `end`, or goes on with the secret.
pub(super) fn secret_of_option(text: &str, at: usize, end: usize, options: &[TakesSecret]) -> Option<Found> {
    let word = &text[at..end];
    options.iter().find_map(|option| {
        let rest = word.strip_prefix(option.name)?;
        let is_letter = option.name.len() == 2;
        let bytes = text.as_bytes();
        let after = end - rest.len();
        let from = match (rest, option.takes) {
            ("", Takes::Attached) => after,
            ("", Takes::Word | Takes::UserAndWord) => match bytes.get(after) {
                Some(b'=') => after + 1,
                _ => after + spaces(&bytes[after..]),
            },
            _ if is_letter => after,
            _ => return None,
        };
        let from = from + quotes(&bytes[from..]);
        let to = end_of_value(text, from, quote_before(text, from));
        let value = text.get(from..to)?;
        let (kind, secret) = match option.takes {
            Takes::Attached | Takes::Word => ("value", value),
            Takes::UserAndWord => ("user", value.split_once([':', '%'])?.1),
        };
        let is_secret = rules::is_option_value(secret) && !is_mark(value);
        is_secret.then_some(Found { kind, from, to })
    })
}

/// A secret as a word of its own, in a list of arguments: whether this option says that it is the next one.
pub(super) fn takes_next(word: &str, options: &[TakesSecret]) -> bool {
    options.iter().any(|option| option.name == word && !matches!(option.takes, Takes::Attached))
}

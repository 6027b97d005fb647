//! The first admin token: shown to a person at a terminal; elsewhere, where output is kept in logs, written into a file that
//! only the owner can read.

use std::fs::OpenOptions;
use std::io::{IsTerminal, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use estop_config::data_dir::admin_token;
use secrecy::{ExposeSecret, SecretString};

/// What is said of it at the start.
pub(super) fn told(token: &SecretString, data_dir: &Path, dashboard: &str) -> String {
    if std::io::stdout().is_terminal() {
        let token = token.expose_secret();
        return format!(
            "\nLog in: {dashboard}/login#token={token}\nAdmin token (shown only once): {token}\nIt opens the dashboard and \
             unlocks the emergency stop. Lost it: `estop token reset`"
        );
    }
    let file = admin_token(data_dir);
    match write(&file, token) {
        Ok(()) => format!(
            "\nThe admin token is in {}, which only you can read. It opens the dashboard and unlocks the emergency stop. \
             Lost it: `estop token reset`",
            file.display()
        ),
        Err(error) => format!(
            "\nThe admin token could not be written into {} ({error}), and is not shown where no terminal is: \
             `estop token reset` makes another",
            file.display()
        ),
    }
}

/// Written beside its place and moved there: nobody else can have opened it, and no link is followed.
fn write(file: &Path, token: &SecretString) -> std::io::Result<()> {
    let fresh = file.with_extension("new");
    match std::fs::remove_file(&fresh) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let mut out = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&fresh)?;
    writeln!(out, "{}", token.expose_secret())?;
    out.sync_all()?;
    std::fs::rename(&fresh, file)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn ks_5_the_first_tokens_file_is_the_owners_alone_and_follows_no_link() {
        let folder = tempfile::tempdir().expect("a folder");
        let elsewhere = folder.path().join("elsewhere");
        std::fs::write(&elsewhere, "others'").expect("a file");
        std::fs::set_permissions(&elsewhere, std::fs::Permissions::from_mode(0o644)).expect("permissions");
        symlink(&elsewhere, admin_token(folder.path())).expect("a link");
        symlink(&elsewhere, admin_token(folder.path()).with_extension("new")).expect("a link");
        write(&admin_token(folder.path()), &"estop_admin_0".into()).expect("it is written");
        assert_eq!(std::fs::read_to_string(&elsewhere).expect("still there"), "others'");
        assert_eq!(
            std::fs::read_to_string(admin_token(folder.path())).expect("the token"),
            "estop_admin_0\n"
        );
        let about = std::fs::symlink_metadata(admin_token(folder.path())).expect("a file");
        assert!(about.is_file() && about.permissions().mode() & 0o777 == 0o600, "{about:?}");
    }
}

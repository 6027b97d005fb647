//! The data directory: who may look into it, whether there is room, and whether the next start will find what it needs.

use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use estop_config::data_dir::database;
use estop_config::printable::escaped;
use estop_core::system::SystemState;
use estop_core::system::button::Latched;
use estop_store::segments::{JOURNAL_FOLDER, look};
use estop_store::{FoundLatch, LatchFile, OpenError, check_database, check_whole_database, database_cursor};
use jiff::Timestamp;
use nix::sys::statvfs::{FsFlags, statvfs};
use rustix::process::geteuid;
use serde_json::Value;

use super::running::Daemon;
use super::{Area, Finding, Installation};

const AREA: Area = Area("data directory");
/// A busy day of a hundred agents writes some 500 MB; below the second the next burst may fill the disk.
const ROOM_MIN_BYTES: u64 = 1 << 30;
const ROOM_LEAST_BYTES: u64 = 64 << 20;
/// Read whole within a second. Larger ones are looked at as a start does; `estop journal verify` reads all.
const CHECKED_BYTES_MAX: u64 = 64 << 20;

pub(super) fn check(place: &Installation, folder: &Path, daemon: &Daemon) -> Vec<Finding> {
    let about = match std::fs::metadata(folder) {
        Ok(about) => about,
        // Nothing here yet, which is said of the daemon.
        Err(error) if error.kind() == ErrorKind::NotFound => return Vec::new(),
        Err(error) => {
            let what = format!("{} cannot be looked at: {error}", folder.display());
            return vec![AREA.wrong(what, "run this as its owner")];
        }
    };
    if !about.is_dir() {
        let what = format!("{} is not a folder", folder.display());
        return vec![AREA.wrong(what, "move it away, or set data_dir to another folder")];
    }
    let mut findings = vec![permissions(folder, about.mode())];
    findings.extend(owner(about.uid(), geteuid().as_raw()));
    findings.push(room(folder));
    if let Err(error) = std::fs::read_dir(folder) {
        // Nothing in it can be judged from here, neither as fine nor as wrong.
        findings
            .push(AREA.wrong(format!("what is in it cannot be looked at: {error}"), "run this as its owner"));
        return findings;
    }
    let has_database = database(folder).exists();
    if has_database {
        findings.push(stored(place, folder));
    }
    findings.extend(journal(place, folder, has_database, daemon));
    findings.extend(latch(place, folder, has_database, daemon));
    findings
}

fn permissions(folder: &Path, mode: u32) -> Finding {
    let shown = folder.display();
    if mode & 0o077 == 0 {
        return AREA.ok(format!("only its owner can open {shown}"));
    }
    AREA.wrong(
        format!(
            "others can open {shown} (mode {:03o}): what agents did, and the button itself",
            mode & 0o777
        ),
        format!("chmod 700 {shown}"),
    )
}

fn owner(owner: u32, me: u32) -> Option<Finding> {
    if owner == me {
        return None;
    }
    let what = format!("it belongs to user {owner}, and this is user {me}");
    Some(if me == 0 {
        AREA.warning(what, "start estop as its owner, not as root")
    } else {
        AREA.wrong(what, "run estop as its owner, or set data_dir to a folder of your own")
    })
}

fn room(folder: &Path) -> Finding {
    let about = match statvfs(folder) {
        Ok(about) => about,
        Err(error) => {
            return AREA.warning(format!("nobody can tell how full its disk is: {error}"), "look at `df`");
        }
    };
    if about.flags().contains(FsFlags::ST_RDONLY) {
        return AREA
            .wrong("its disk is read-only", "mount it so that it can be written, and look why it was not");
    }
    let free = about.blocks_available().saturating_mul(about.fragment_size());
    judge_room(free, about.files() > 0 && about.files_available() == 0)
}

fn judge_room(free: u64, is_without_inodes: bool) -> Finding {
    let (megabytes, fix) = (free >> 20, "free some, or shorten `retention`");
    if is_without_inodes {
        return AREA.wrong("its disk has no inodes left: no file can be made", "delete files there");
    }
    match free {
        _ if free < ROOM_LEAST_BYTES => AREA.wrong(format!("its disk has only {megabytes} MB left"), fix),
        _ if free < ROOM_MIN_BYTES => AREA.warning(format!("its disk has only {megabytes} MB left"), fix),
        _ => AREA.ok(format!("its disk has {megabytes} MB left")),
    }
}

/// The database, only read. A small one is read whole.
fn stored(place: &Installation, folder: &Path) -> Finding {
    let path = database(folder);
    let bytes = path.metadata().map_or(0, |about| about.len());
    let opened = if bytes <= CHECKED_BYTES_MAX {
        check_whole_database(&path).map(|()| "the database is whole".to_owned())
    } else {
        check_database(&path).map(|()| format!("the database ({} MB) can be opened", bytes >> 20))
    };
    let fix = match &opened {
        Ok(what) => return AREA.ok(what.as_str()),
        Err(OpenError::Newer { .. }) => {
            "start the newer estop, or restore a backup made before the update".into()
        }
        Err(OpenError::Corrupt { .. }) => {
            format!("{} puts a backup in its place; without one, move it away", place.command("restore FILE"))
        }
        Err(OpenError::Foreign { .. }) => "set data_dir to a folder of estop's own".into(),
        Err(OpenError::Locked { .. }) => {
            "end the program that holds it, such as `sqlite3`, and look again".into()
        }
        Err(OpenError::Io { .. }) => "see what the system says, and look again".into(),
    };
    let why = opened.err().map(|error| error.to_string()).unwrap_or_default();
    AREA.wrong(format!("the database cannot be used: {why}"), fix)
}

/// The journal, as a start would find it.
fn journal(place: &Installation, folder: &Path, has_database: bool, daemon: &Daemon) -> Option<Finding> {
    let restore = || format!("{} puts a backup in its place", place.command("restore FILE"));
    match look(&folder.join(JOURNAL_FOLDER)) {
        Ok(None) => has_database
            .then(|| AREA.wrong("the journal is gone, but estop has run here: estop starts shut", restore())),
        Ok(Some(found)) => {
            let cursor = database_cursor(&database(folder)).ok().flatten();
            let fits =
                cursor.is_none_or(|cursor| cursor.journal == found.journal && cursor.seq <= found.state.seq);
            // A running estop may have written more meanwhile.
            Some(if fits || daemon.answers() {
                AREA.ok(format!("the journal has {} records", found.state.seq))
            } else {
                let what = "the database knows of records that this journal does not have: estop starts shut";
                AREA.wrong(what, restore())
            })
        }
        Err(error) => {
            let what = format!("the journal cannot be trusted: {error}: estop starts shut");
            Some(AREA.wrong(what, restore()))
        }
    }
}

/// The latch: what the next start believes of the button.
fn latch(place: &Installation, folder: &Path, has_database: bool, daemon: &Daemon) -> Option<Finding> {
    let unlock = || {
        let (restart, clear) = (place.command("emergency unlock"), place.command("emergency clear"));
        format!("if nobody pressed the button: start estop, then {restart}, then {clear}")
    };
    match LatchFile::look(folder) {
        FoundLatch::Missing if !has_database => None,
        FoundLatch::Missing => {
            Some(AREA.wrong("the latch file is missing: the next start comes up SHUT DOWN", unlock()))
        }
        FoundLatch::Damaged(why) => Some(AREA.wrong(
            format!("the latch cannot be trusted: {why}. The next start comes up SHUT DOWN"),
            unlock(),
        )),
        FoundLatch::Valid(_) if !has_database => Some(AREA.warning(
            "there is a latch file and no database: an estop ran here, or was killed before it did",
            format!("put a backup back with {}, or start anew", place.command("restore FILE")),
        )),
        // A running estop says itself how the button stands.
        FoundLatch::Valid(_) if daemon.answers() => Some(AREA.ok("the latch can be read")),
        FoundLatch::Valid(latched) => Some(said(place, &latched)),
    }
}

fn said(place: &Installation, latched: &Latched) -> Finding {
    if latched.gate.state == SystemState::Running && latched.gate.shut.is_empty() {
        return AREA.ok("the latch says that nothing is stopped");
    }
    let since =
        Timestamp::from_millisecond(latched.since).map(|at| at.strftime("%Y-%m-%d %H:%M:%SZ").to_string());
    let note = latched.note.as_deref().map(|note| format!(": {}", escaped(note))).unwrap_or_default();
    let metadata: Value =
        latched.metadata.as_deref().and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    let user = metadata["user"].as_str().map(|user| format!(", {}", escaped(user))).unwrap_or_default();
    let (restart, clear) = (place.command("emergency unlock"), place.command("emergency clear"));
    let what = match latched.gate.state {
        SystemState::Running => "channels are shut",
        SystemState::SafeMode => "the system is in SAFE_MODE",
        SystemState::Starting | SystemState::Shutdown => "the button is pressed",
    };
    AREA.wrong(
        format!(
            "{what} since {}, by {} ({}{user}){note}; the next start comes up so",
            since.unwrap_or_default(),
            latched.by,
            latched.source
        ),
        format!("find out why; start estop, then {restart}, then {clear}"),
    )
}

#[cfg(test)]
mod tests {
    use super::super::Level;
    use super::*;

    #[test]
    fn ui_2_a_disk_without_room_is_told_before_it_is_full() {
        assert_eq!(judge_room(ROOM_MIN_BYTES, false).level, Level::Ok);
        assert_eq!(judge_room(ROOM_MIN_BYTES - 1, false).level, Level::Warning);
        assert_eq!(judge_room(ROOM_LEAST_BYTES - 1, false).level, Level::Wrong);
        assert_eq!(judge_room(u64::MAX, true).level, Level::Wrong);
    }

    #[test]
    fn ui_2_a_folder_is_its_owners_alone() {
        let level = |mode| permissions(Path::new("/d"), mode).level;
        assert_eq!([level(0o40700), level(0o40750), level(0o40701)], [Level::Ok, Level::Wrong, Level::Wrong]);
        assert_eq!(owner(1000, 1000), None);
        assert_eq!(owner(1000, 0).map(|finding| finding.level), Some(Level::Warning));
        assert_eq!(owner(1000, 1001).map(|finding| finding.level), Some(Level::Wrong));
    }
}

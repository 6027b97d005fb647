//! What the machine allows: open files for streams, and the means by which `estop run` ends everything it started.

use nix::sys::resource::{Resource, getrlimit};

use super::{Area, Finding};
use crate::config::{Limits, ServeConfig};
use crate::supervise;

const OPEN_FILES: Area = Area("open files");
const RUN: Area = Area("estop run");
/// The database, the journal, listeners and people.
const OTHER_FILES: u64 = 256;

pub(super) fn check(config: Option<&ServeConfig>) -> Vec<Finding> {
    let usual = Limits::default();
    let connections = config.map_or(&usual, |config| &config.limits).connections;
    let mut findings = Vec::new();
    // The soft limit does not matter: estop raises it.
    if let Ok((_, hard)) = getrlimit(Resource::RLIMIT_NOFILE) {
        findings.push(open_files(hard, connections as u64));
    }
    findings.push(if supervise::takes_orphans() {
        RUN.ok("orphans fall back to estop, so that it can end them")
    } else {
        RUN.warning(
            "orphans do not fall back to estop: a program that leaves its session may survive a kill",
            "allow prctl(PR_SET_CHILD_SUBREAPER), which a sandbox around estop may forbid",
        )
    });
    findings.push(RUN.ok(if supervise::has_cgroup() {
        "cgroup v2 can be written: one write ends a whole tree of processes"
    } else {
        "cgroup v2 cannot be written: processes are ended one by one, which works and is slower"
    }));
    findings
}

/// Each stream takes two: one to the client, one to the provider.
fn open_files(hard: u64, connections: u64) -> Finding {
    let needed = connections.saturating_mul(2).saturating_add(OTHER_FILES);
    if hard >= needed {
        return OPEN_FILES.ok(format!("{hard} are allowed, {connections} connections need {needed}"));
    }
    let room = hard.saturating_sub(OTHER_FILES) / 2;
    OPEN_FILES.warning(
        format!(
            "{hard} are allowed: enough for {room} streams, not for the {connections} of limits.connections"
        ),
        format!(
            "allow {needed} (`LimitNOFILE=` of a service, `ulimit -Hn`), or set limits.connections to {room}"
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::super::Level;
    use super::*;

    #[test]
    fn ui_2_each_connection_needs_two_open_files() {
        assert_eq!(open_files(20_256, 10_000).level, Level::Ok);
        let few = open_files(4096, 10_000);
        assert_eq!(few.level, Level::Warning);
        assert!(few.what.contains("1920 streams"), "{few:?}");
        assert_eq!(open_files(0, u64::MAX).level, Level::Warning);
    }
}

//! A cgroup of its own for a tree, where cgroup v2 can be written: nothing leaves it by forking, and one write ends all.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Dead processes leave their cgroup within this time.
const EMPTY_TIMEOUT: Duration = Duration::from_millis(500);

/// What the names of all of them begin with; the number of the process that made it follows.
const PREFIX: &str = "estop-";

/// A cgroup that was made for one tree. Gone when dropped, if it is empty then.
#[derive(Debug)]
pub(super) struct Cgroup(PathBuf);

impl Cgroup {
    /// Makes one below the cgroup this process is in; `None` where that cannot be done, or where the kernel cannot end a
    /// cgroup at once (before 5.14).
    pub(super) fn make(name: &str) -> Option<Cgroup> {
        let own = own()?;
        clear_away(&own);
        let path = own.join(format!("{PREFIX}{name}"));
        fs::create_dir(&path).ok()?;
        let made = Cgroup(path);
        // Opened to write, without writing anything: whether it may be used shows here, not in an emergency.
        let may = |file: &str| fs::OpenOptions::new().write(true).open(made.0.join(file)).is_ok();
        (may("cgroup.kill") && may("cgroup.procs")).then_some(made)
    }

    /// Where a process writes itself in.
    pub(super) fn procs(&self) -> PathBuf {
        self.0.join("cgroup.procs")
    }

    /// Who is in it.
    pub(super) fn members(&self) -> BTreeSet<i32> {
        let text = fs::read_to_string(self.procs()).unwrap_or_default();
        text.lines().filter_map(|line| line.parse().ok()).collect()
    }

    /// SIGKILL to everybody in it, also to those who are just being forked.
    pub(super) fn kill(&self) {
        // It was checked to be writable; whoever is left is killed one by one.
        let _ = fs::write(self.0.join("cgroup.kill"), "1");
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        let begun = Instant::now();
        // Whoever was just killed may still be on the way out. A tree that was let go keeps it.
        while fs::remove_dir(&self.0).is_err() && self.members().is_empty() && begun.elapsed() < EMPTY_TIMEOUT
        {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Removes empty ones of processes that are gone: a killed supervisor cannot do it itself.
fn clear_away(own: &Path) {
    for entry in fs::read_dir(own).into_iter().flatten().filter_map(Result::ok) {
        let name = entry.file_name();
        let maker = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.split('-').next());
        let is_left =
            maker.is_some_and(|pid| pid.parse::<u32>().is_ok() && !Path::new("/proc").join(pid).exists());
        if is_left {
            // One with somebody in it cannot be removed, and is not.
            let _ = fs::remove_dir(entry.path());
        }
    }
}

/// The folder of the cgroup v2 this process is in.
fn own() -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let (root, mount) = mounts.lines().find_map(cgroup2_mount)?;
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let path = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
    let below = Path::new(path).strip_prefix(root).ok()?;
    Some(Path::new(mount).join(below))
}

/// Root and mount point of a line of `mountinfo`, if it is of cgroup v2.
fn cgroup2_mount(line: &str) -> Option<(&str, &str)> {
    let (about, kind) = line.split_once(" - ")?;
    let mut fields = about.split(' ').skip(3);
    kind.starts_with("cgroup2 ").then(|| Some((fields.next()?, fields.next()?)))?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tl_2_the_mount_of_cgroup_v2_is_found_among_others() {
        let one = "35 24 0:30 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw";
        assert_eq!(cgroup2_mount(one), Some(("/", "/sys/fs/cgroup/unified")));
        let other = "34 24 0:29 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,name=systemd";
        assert_eq!(cgroup2_mount(other), None);
        assert_eq!(cgroup2_mount(""), None);
    }
}

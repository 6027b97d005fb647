//! Who belongs to a tree of processes, by what `/proc` says.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, kill_process, kill_process_group, pidfd_open, pidfd_send_signal,
    waitpid,
};

use super::Orphans;
use super::cgroup::Cgroup;

/// A process as it was when somebody looked. Its number and its start together mean one process for ever.
#[derive(Clone, Debug)]
pub(super) struct Process {
    pub(super) pid: i32,
    parent: i32,
    group: i32,
    is_dead: bool,
    start: u64,
}

impl Process {
    /// The process of this number.
    fn read(pid: i32) -> Option<Process> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // A name may have anything in it, brackets too: what follows begins after the last one.
        let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
        let is_dead = matches!(fields.next()?, "Z" | "X" | "x");
        let parent = fields.next()?.parse().ok()?;
        let group = fields.next()?.parse().ok()?;
        // The 22nd field of the line; the group is the 5th.
        let start = fields.nth(16)?.parse().ok()?;
        Some(Process { pid, parent, group, is_dead, start })
    }

    pub(super) fn key(&self) -> (i32, u64) {
        (self.pid, self.start)
    }

    /// Signals it, if the number still is this process's.
    pub(super) fn signal(&self, signal: Signal) {
        let Some(pid) = Pid::from_raw(self.pid) else { return };
        // The handle first: what is read afterwards tells whose it is, and it never becomes another's.
        let handle = pidfd_open(pid, PidfdFlags::empty());
        if Process::read(self.pid).is_none_or(|now| now.key() != self.key()) {
            return;
        }
        // It may have ended this very moment. Kernels before 5.3 have no handles.
        let _ = match handle {
            Ok(handle) => pidfd_send_signal(handle, signal),
            Err(_) => kill_process(pid, signal),
        };
    }

    /// Its name and number, for people.
    pub(super) fn shown(&self) -> String {
        let name = std::fs::read_to_string(format!("/proc/{}/comm", self.pid)).unwrap_or_default();
        format!("{} ({})", name.trim_end(), self.pid)
    }

    fn has_in_environment(&self, mark: &str) -> bool {
        let environment = std::fs::read(format!("/proc/{}/environ", self.pid)).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|entry| entry == mark.as_bytes())
    }
}

/// Signals a process group.
pub(super) fn signal_group(group: i32, signal: Signal) {
    if let Some(group) = Pid::from_raw(group) {
        // It may have ended this very moment.
        let _ = kill_process_group(group, signal);
    }
}

/// Signals one process, which nobody has reaped.
pub(super) fn signal_one(pid: i32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid) {
        // It may have ended this very moment.
        let _ = kill_process(pid, signal);
    }
}

/// Looks until nobody is believed. Chosen: with one, a process that forks twice and ends escaped in a third of all tries.
const LOOKS: u32 = 4;
const LOOK_AGAIN: Duration = Duration::from_millis(2);

/// A tree of processes.
pub(super) struct Tree {
    root: i32,
    /// Everybody who was ever seen to belong to it, by number and start.
    known: BTreeMap<i32, u64>,
    mark: String,
    orphans: Orphans,
    cgroup: Option<Cgroup>,
}

impl Tree {
    /// The tree of a child that nobody has reaped so far.
    pub(super) fn new(root: i32, mark: String, orphans: Orphans, cgroup: Option<Cgroup>) -> Tree {
        let known = Process::read(root).map(|root| root.key()).into_iter().collect();
        Tree { root, known, mark, orphans, cgroup }
    }

    /// Everybody of the tree who lives. Adopted dead are buried on the way.
    ///
    /// Nobody is believed only after some looks: a child of a parent that ends between two lines of `/proc` is in neither,
    /// and with the next look it is ours.
    pub(super) fn alive(&mut self) -> Vec<Process> {
        for look in 0..LOOKS {
            if look > 0 {
                std::thread::sleep(LOOK_AGAIN);
            }
            let found = self.look();
            if !found.is_empty() {
                return found;
            }
        }
        Vec::new()
    }

    fn look(&mut self) -> Vec<Process> {
        let mut all = processes();
        let me = i32::try_from(std::process::id()).unwrap_or(0);
        let in_cgroup: BTreeSet<i32> = self.cgroup.as_ref().map(Cgroup::members).unwrap_or_default();
        // Whoever was forked since.
        let seen: BTreeSet<i32> = all.iter().map(|process| process.pid).collect();
        all.extend(in_cgroup.difference(&seen).filter_map(|pid| Process::read(*pid)));
        let mut members: BTreeMap<i32, &Process> = BTreeMap::new();
        for process in &all {
            let is_known = self.known.get(&process.pid) == Some(&process.start);
            if is_known || in_cgroup.contains(&process.pid) || self.is_orphan(process, me) {
                members.insert(process.pid, process);
            }
        }
        // Children of members, and their children: until there are no more. Whoever shares the group of the leader came
        // from it, as long as the group has somebody we know.
        let leads =
            |members: &BTreeMap<i32, &Process>, root| members.values().any(|known| known.group == root);
        loop {
            let has_group = leads(&members, self.root);
            let more: Vec<&Process> = all
                .iter()
                .filter(|process| !members.contains_key(&process.pid) && process.pid != me)
                .filter(|process| {
                    members.contains_key(&process.parent) || (has_group && process.group == self.root)
                })
                .collect();
            if more.is_empty() {
                break;
            }
            members.extend(more.into_iter().map(|process| (process.pid, process)));
        }
        // Whoever is gone need not be known any more.
        self.known = members.values().map(|member| member.key()).collect();
        for dead in
            members.values().filter(|member| member.is_dead && member.parent == me && member.pid != self.root)
        {
            if let Some(pid) = Pid::from_raw(dead.pid) {
                // Adopted: nobody else waits for it. Whoever started the leader reaps that.
                let _ = waitpid(Some(pid), WaitOptions::NOHANG);
            }
        }
        members.into_values().filter(|member| !member.is_dead).cloned().collect()
    }

    fn is_orphan(&self, process: &Process, me: i32) -> bool {
        process.parent == me
            && process.pid != self.root
            && (self.orphans == Orphans::All || process.has_in_environment(&self.mark))
    }

    /// SIGKILL to everybody: the cgroup and whole groups at once, where a fork cannot slip through, then one by one.
    pub(super) fn kill_at_once(&self, alive: &[Process]) {
        if let Some(cgroup) = &self.cgroup {
            cgroup.kill();
        }
        let pids: BTreeSet<i32> = alive.iter().map(|process| process.pid).collect();
        // A group whose leader is of the tree is the tree's.
        let groups: BTreeSet<i32> =
            alive.iter().map(|process| process.group).filter(|group| pids.contains(group)).collect();
        groups.into_iter().for_each(|group| signal_group(group, Signal::KILL));
        alive.iter().for_each(|process| process.signal(Signal::KILL));
    }
}

/// Every process of this machine that can be seen.
fn processes() -> Vec<Process> {
    let Ok(folder) = std::fs::read_dir(PathBuf::from("/proc")) else { return Vec::new() };
    let numbers = folder.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    numbers.filter_map(Process::read).collect()
}

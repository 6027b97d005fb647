//! TL-2, KS-2: real trees of processes, ended by the supervisor. Whatever they do, nothing survives.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use estop_supervise::{Ended, Orphans, Start, Supervised};

/// No tree takes this long; whoever waits longer waits for ever.
const PATIENCE: Duration = Duration::from_secs(60);

/// One tree at a time: with `Orphans::All` every orphan of this process is the tree's.
fn one_at_a_time() -> MutexGuard<'static, ()> {
    static LOCK: Mutex<()> = Mutex::new(());
    LOCK.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A tree that runs, told apart from everything else by a word in its command lines.
struct Run {
    supervised: Supervised,
    child: Option<std::process::Child>,
    word: String,
}

impl Run {
    /// Runs a Python script, which says `ready` when its tree is complete. `WORD` and `stay()` are defined.
    fn python(script: &str, orphans: Orphans, shim: Option<PathBuf>) -> Run {
        let word = format!("estop-test-{}-{}", std::process::id(), fresh());
        let prelude = format!(
            "import os, signal, sys, time\nWORD = {word:?}\n\
             def stay():\n    while True: time.sleep(100)\n\
             def ready():\n    os.write(1, b'ready\\n')\n"
        );
        let args = ["-c".into(), OsString::from(format!("{prelude}{script}")), word.clone().into()];
        let program = "python3".as_ref();
        let start = Start { program, args: &args, agent: None, orphans, shim, leash: false, own_group: true };
        let (supervised, mut child) = start
            .start(|command| {
                command.stdin(Stdio::null()).stdout(Stdio::piped());
            })
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        Run { supervised, child: Some(child), word }
    }

    /// Ends it, and sees that nobody with its word is left.
    fn end(mut self) -> Ended {
        assert!(alive(&self.word) > 0, "the tree must be there");
        self.supervised.end("a test");
        self.supervised.end("a test");
        self.supervised.wait(self.child.take().unwrap()).unwrap();
        let ended = self.supervised.ended(PATIENCE).unwrap();
        assert_eq!((alive(&self.word), &ended.survivors), (0, &Vec::new()));
        ended
    }
}

fn fresh() -> u64 {
    static LAST: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    LAST.fetch_add(1, std::sync::atomic::Ordering::Relaxed)
}

/// Processes whose command line has the word: a dead one has none.
fn alive(word: &str) -> usize {
    let processes = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let lines = processes.filter_map(|process| std::fs::read(process.path().join("cmdline")).ok());
    lines.filter(|line| String::from_utf8_lossy(line).contains(word)).count()
}

/// The estop binary, which enters cgroups.
fn shim() -> Option<PathBuf> {
    Some(PathBuf::from(env!("CARGO_BIN_EXE_estop")))
}

#[test]
fn tl_2_who_obeys_sigterm_ends_without_sigkill() {
    let _one = one_at_a_time();
    let ended = Run::python("if os.fork(): ready()\nstay()\n", Orphans::All, None).end();
    assert_eq!(ended.killed, 0);
}

#[test]
fn ks_2_who_ignores_sigterm_is_killed_after_two_seconds() {
    let _one = one_at_a_time();
    let begun = Instant::now();
    let ended =
        Run::python("signal.signal(signal.SIGTERM, signal.SIG_IGN)\nready()\nstay()\n", Orphans::All, None)
            .end();
    assert_eq!(ended.killed, 1);
    assert!(begun.elapsed() >= Duration::from_secs(2), "not before its time");
}

/// Forks twice, so that the grandchild's parent is gone; in a session of its own; deaf to SIGTERM.
const DAEMONS: &str = "
signal.signal(signal.SIGTERM, signal.SIG_IGN)
def daemon(clean):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            env = {'PATH': os.environ['PATH']} if clean else dict(os.environ)
            code = 'import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(1000)'
            os.execvpe('python3', ['python3', '-c', code, WORD], env)
        os._exit(0)
    os.wait()
";

#[test]
fn tl_2_double_forked_processes_in_sessions_of_their_own_do_not_survive() {
    let _one = one_at_a_time();
    let script = format!("{DAEMONS}daemon(False)\ndaemon(False)\ntime.sleep(0.5)\nready()\nstay()\n");
    let ended = Run::python(&script, Orphans::Marked, None).end();
    assert_eq!(ended.killed, 3);
}

#[test]
fn tl_2_orphans_that_took_off_their_mark_do_not_survive_either() {
    let _one = one_at_a_time();
    let script = format!("{DAEMONS}daemon(True)\ntime.sleep(0.5)\nready()\nstay()\n");
    let ended = Run::python(&script, Orphans::All, None).end();
    assert_eq!(ended.killed, 2);
}

#[test]
fn tl_2_orphans_do_not_survive_when_the_command_itself_is_gone() {
    let _one = one_at_a_time();
    let script = format!("{DAEMONS}daemon(True)\ntime.sleep(0.5)\nready()\n");
    let mut run = Run::python(&script, Orphans::All, None);
    let status = run.supervised.wait(run.child.take().unwrap()).unwrap();
    assert!(status.success());
    assert_eq!(alive(&run.word), 1, "the orphan lives on");
    run.supervised.end("a test");
    let ended = run.supervised.ended(PATIENCE).unwrap();
    assert_eq!((ended.killed, ended.survivors, alive(&run.word)), (1, Vec::new(), 0));
}

#[test]
fn tl_2_stopped_processes_do_not_survive() {
    let _one = one_at_a_time();
    let script = "
child = os.fork()
if child == 0:
    os.kill(os.getpid(), signal.SIGSTOP)
    stay()
os.waitpid(child, os.WUNTRACED)
ready()
stay()
";
    let ended = Run::python(script, Orphans::All, None).end();
    assert_eq!(ended.killed, 0, "it is continued, and hears of its end");
}

/// Two hundred processes, deaf to SIGTERM, a third of them in sessions of their own, and more when one is missing: each
/// forks again until there were two hundred more.
const BOMB: &str = "
signal.signal(signal.SIGTERM, signal.SIG_IGN)
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
import mmap
count = mmap.mmap(-1, 8)
def booked():
    # Bounded, whatever happens: two hundred now and two hundred while it is hunted.
    n = int.from_bytes(count[:8], 'little') + 1
    count[:8] = n.to_bytes(8, 'little')
    return n <= 400
for i in range(200):
    booked()
    if os.fork() == 0:
        if i % 3 == 0: os.setsid()
        while True:
            time.sleep(0.01 if os.getppid() == 1 else 1.9)
            if booked() and os.fork() == 0: continue
            stay()
time.sleep(0.2)
ready()
stay()
";

#[test]
fn tl_2_a_fork_bomb_of_two_hundred_does_not_survive() {
    let _one = one_at_a_time();
    let ended = Run::python(BOMB, Orphans::All, None).end();
    assert!(ended.killed > 200, "{ended:?}");
}

#[test]
fn tl_2_with_a_cgroup_where_there_is_one_nothing_survives_either() {
    let _one = one_at_a_time();
    let script = format!("{DAEMONS}daemon(True)\ntime.sleep(0.5)\nready()\nstay()\n");
    // Marked only: without a cgroup the one without a mark would be found by its former parents alone.
    let orphans = if has_cgroup() { Orphans::Marked } else { Orphans::All };
    let ended = Run::python(&script, orphans, shim()).end();
    assert_eq!(ended.killed, 2);
    assert_eq!(cgroups_left(), 0, "the cgroup is removed");
}

/// Where cgroups of this process would be made; `None` if there is no cgroup v2, or it is not ours to write.
fn own_cgroup() -> Option<PathBuf> {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").ok()?;
    let mount = mounts.lines().find(|line| line.contains(" - cgroup2 "))?.split(' ').nth(4)?.to_owned();
    let groups = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    let path = groups.lines().find_map(|line| line.strip_prefix("0::/"))?.to_owned();
    Some(PathBuf::from(mount).join(path))
}

fn has_cgroup() -> bool {
    let Some(own) = own_cgroup() else { return false };
    let probe = own.join(format!("estop-probe-{}", std::process::id()));
    let made = std::fs::create_dir(&probe).is_ok();
    let can_kill = probe.join("cgroup.kill").exists();
    let _ = std::fs::remove_dir(&probe);
    made && can_kill
}

fn cgroups_left() -> usize {
    let ours = format!("estop-{}-", std::process::id());
    let entries = own_cgroup().and_then(|own| std::fs::read_dir(own).ok()).into_iter().flatten();
    entries
        .filter_map(Result::ok)
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(&ours))
        .count()
}

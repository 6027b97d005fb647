//! What a start finds: every file that must be there, every line of the segments that are not sealed yet, and how far they
//! must reach. Nothing is changed here.

use std::fs::OpenOptions;
use std::io::{self, Read};
use std::path::Path;

use estop_core::ids::Hash64;
use estop_core::time::Now;
use estop_journal::{Checker, Found, Manifest, Position, Record, Sealed, State, Watermark, check_line};

use super::files::{Listing, MANIFEST, base_path, raw_path, sealed_path};
use super::mark_file;
use crate::data_folder::open_regular;

/// One segment is sealed in a second or more.
const LOOKS: u32 = 4;

/// Why nothing is known of a journal.
#[derive(Debug, thiserror::Error)]
pub enum RecoverError {
    /// It is not what was written.
    #[error("{0}")]
    Untrusted(String),
    /// The operating system refused.
    #[error("{path} cannot be read: {error}")]
    Io {
        /// Which file.
        path: String,
        /// What the system said.
        error: io::Error,
    },
}

/// A journal as a start finds it.
#[derive(Debug)]
pub struct Recovered {
    /// Which journal.
    pub journal: Hash64,
    /// What its records add up to.
    pub state: State,
    /// Where it ends; `None` if the newest segment has ended and no other has begun.
    pub active: Option<Position>,
    /// Its sealed segments.
    pub manifest: Manifest,
    /// Segments that have ended and are not sealed yet.
    pub unsealed: Vec<u64>,
    /// When estop was last alive.
    pub last: Now,
    /// Bytes behind the last whole line, of a write that a crash cut off.
    pub torn: u64,
    /// Records that were written and not synced when the machine stopped, and are gone.
    pub lost: u64,
    /// When the newest segment was begun, by the wall clock, and after which record.
    pub(super) begun: (i64, u64),
    /// What the disk is known to have.
    pub(super) synced: Position,
    /// The newest mark's number.
    pub(super) mark_serial: u64,
}

impl Recovered {
    /// The segment that is to be begun, if none is active.
    pub(super) fn next_segment(&self) -> u64 {
        self.unsealed.last().copied().unwrap_or_else(|| self.manifest.last_segment()) + 1
    }
}

/// Which start of the machine this is.
pub fn boot_id() -> String {
    let read = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
    // Where nobody says, what was written counts as what must be there.
    read.map_or_else(|_| "unknown".to_owned(), |id| id.trim().to_owned())
}

/// The same of a journal that somebody may be writing: a segment may be sealed between two looks.
pub fn look(folder: &Path) -> Result<Option<Recovered>, RecoverError> {
    let boot = boot_id();
    let look = || recover(folder, &boot, &mut |_, _| {});
    (0..LOOKS).map(|_| look()).find(Result::is_ok).unwrap_or_else(look)
}

/// What became of the manifest, the mark or a sealed segment, if somebody removed, cut or replaced one while estop runs: the
/// next start would refuse the journal.
pub fn lost_file(folder: &Path) -> Option<String> {
    let look = || {
        let listing = Listing::of(folder).ok()?;
        let found = read_manifest(folder, &listing).and_then(|manifest| {
            check_sealed(folder, &listing, &manifest)?;
            if listing.has_mark { Ok(()) } else { Err(untrusted("journal/mark is missing")) }
        });
        match found {
            Err(RecoverError::Untrusted(problem)) => Some(problem),
            // A system that refuses to look has lost nothing.
            Ok(()) | Err(RecoverError::Io { .. }) => None,
        }
    };
    // Between two looks a segment may be sealed or pruned.
    (0..LOOKS).map(|_| look()).find(Option::is_none).unwrap_or_else(look)
}

/// Reads a journal; `None` if there is none. `boot` names this start of the machine. `each` gets every line of the
/// segments that are not sealed, with the segment and its place there.
pub fn recover(
    folder: &Path,
    boot: &str,
    each: &mut dyn FnMut(Position, &[u8]),
) -> Result<Option<Recovered>, RecoverError> {
    let io = |path: &Path| {
        let path = path.display().to_string();
        move |error| RecoverError::Io { path, error }
    };
    let listing = Listing::of(folder).map_err(io(folder))?;
    if listing.is_empty() {
        return Ok(None);
    }
    let mark = mark_file::read(folder).map_err(io(&folder.join(super::files::MARK)))?;
    let Some(mark) = mark else {
        // The mark is made before the first record: without a whole one there is at most the first line of the first segment.
        let has_more = listing.raw.iter().try_fold(false, |has, segment| {
            let text = read_file(&raw_path(folder, *segment))?;
            Ok(has || *segment > 1 || memchr::memchr_iter(b'\n', &text).count() > 1)
        })?;
        let is_begun = listing.has_manifest || !listing.sealed.is_empty() || has_more;
        return if is_begun { Err(untrusted("journal/mark is missing or damaged")) } else { Ok(None) };
    };
    let manifest = read_manifest(folder, &listing)?;
    check_sealed(folder, &listing, &manifest)?;
    let mut reading = Reading {
        folder,
        mark: &mark,
        must: mark.must_reach(boot),
        is_same_boot: *mark.boot == *boot,
        checker: Checker::default(),
        last: mark.now,
        begun: (mark.now.wall, 0),
        each,
    };
    let (active, unsealed, torn) = reading.raw_segments(&listing, &manifest)?;
    let Reading { checker, last, begun, must, .. } = reading;
    let state = checker.into_state();
    let lost = mark.written.seq.max(must.seq).saturating_sub(state.seq);
    Ok(Some(Recovered {
        journal: mark.journal,
        state,
        active,
        manifest,
        unsealed,
        last,
        torn,
        lost,
        begun,
        synced: mark.synced,
        mark_serial: mark.serial,
    }))
}

fn untrusted(problem: impl Into<String>) -> RecoverError {
    RecoverError::Untrusted(problem.into())
}

fn read_file(path: &Path) -> Result<Vec<u8>, RecoverError> {
    let io = |error| RecoverError::Io { path: path.display().to_string(), error };
    let mut bytes = Vec::new();
    let mut file = open_regular(path, OpenOptions::new().read(true)).map_err(io)?;
    file.read_to_end(&mut bytes).map_err(io)?;
    Ok(bytes)
}

fn read_manifest(folder: &Path, listing: &Listing) -> Result<Manifest, RecoverError> {
    if !listing.has_manifest {
        return Ok(Manifest::default());
    }
    let text = read_file(&folder.join(MANIFEST))?;
    let parsed = Manifest::parse(&text);
    Ok(parsed.map_err(|error| untrusted(format!("journal/{MANIFEST}: {error}")))?.0)
}

/// Every sealed segment is there, with its length, and no other. What they say is looked at later: hashing all of them
/// takes too long for a start.
fn check_sealed(folder: &Path, listing: &Listing, manifest: &Manifest) -> Result<(), RecoverError> {
    for Sealed { segment, bytes, .. } in &manifest.sealed {
        let path = sealed_path(folder, *segment);
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        match std::fs::metadata(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(untrusted(format!("journal/{name} is missing")));
            }
            Err(error) => return Err(RecoverError::Io { path: path.display().to_string(), error }),
            Ok(about) if about.len() != *bytes => {
                let found = about.len();
                return Err(untrusted(format!(
                    "journal/{name} has {found} of {bytes} bytes: it was cut or replaced"
                )));
            }
            Ok(_) => {}
        }
    }
    let last = manifest.last_segment();
    if let Some(unlisted) =
        listing.sealed.iter().find(|segment| **segment > last && !listing.raw.contains(segment))
    {
        return Err(untrusted(format!(
            "segment {unlisted} is not in journal/{MANIFEST}, which is missing or was cut"
        )));
    }
    if let Some((segment, _)) = &manifest.pruned
        && !base_path(folder, *segment).is_file()
    {
        return Err(untrusted(format!("the states after segment {segment} are missing")));
    }
    Ok(())
}

struct Reading<'a> {
    folder: &'a Path,
    mark: &'a Watermark,
    must: Position,
    /// The machine has not stopped since: what was written is there. After a stop, behind what was synced some pages and files
    /// may be missing and later ones be there.
    is_same_boot: bool,
    checker: Checker,
    last: Now,
    begun: (i64, u64),
    each: &'a mut dyn FnMut(Position, &[u8]),
}

/// Where the journal ends, which segments have ended before, and how many bytes are torn.
type Ends = (Option<Position>, Vec<u64>, u64);

impl Reading<'_> {
    fn raw_segments(&mut self, listing: &Listing, manifest: &Manifest) -> Result<Ends, RecoverError> {
        let first = manifest.last_segment() + 1;
        let newest = listing.raw.range(first..).next_back().copied();
        let Some(newest) = newest else {
            return Err(untrusted(format!("segment {first} is missing")));
        };
        let mut unsealed = Vec::new();
        for segment in first..=newest {
            // Where the journal may end.
            let is_last = segment == newest || !self.is_same_boot;
            if !listing.raw.contains(&segment) {
                if is_last && segment > first {
                    break;
                }
                return Err(untrusted(format!("segment {segment} is missing")));
            }
            let text = read_file(&raw_path(self.folder, segment))?;
            let (good, problem) = self.lines(segment, &text);
            if segment == first && good > 0 {
                self.check_first(segment, manifest)?;
            }
            if good == 0 && problem.is_none() && is_last {
                // Not even its first line was written.
                break;
            }
            if problem.is_none() && self.checker.is_ended() {
                unsealed.push(segment);
                continue;
            }
            let cut = || format!("segment {segment} was cut: its last line is missing");
            let problem = problem.or_else(|| (segment != newest).then(cut));
            if let Some(problem) = problem.as_ref().filter(|_| !is_last) {
                return Err(untrusted(problem.clone()));
            }
            let at = Position { segment, bytes: good as u64, seq: self.checker.state().seq };
            self.reaches(at, problem.as_deref())?;
            // A line behind it that is whole was written later: this one was not cut off, but changed.
            let mut behind = text[good..].split(|byte| *byte == b'\n').skip(1);
            if let Some(problem) = problem
                && self.is_same_boot
                && behind.any(|line| check_line(line).is_ok())
            {
                return Err(untrusted(problem));
            }
            let torn = (text.len() - good) as u64;
            // Without its first line it was not begun.
            return Ok(((good > 0).then_some(at), unsealed, torn));
        }
        let next = unsealed.last().map_or(first, |last| last + 1);
        let at = Position { segment: next, bytes: 0, seq: self.checker.state().seq };
        self.reaches(at, None)?;
        Ok((None, unsealed, 0))
    }

    /// Checks a segment's lines: how many bytes are good, and what is wrong with the next line.
    fn lines(&mut self, segment: u64, text: &[u8]) -> (usize, Option<String>) {
        let name = format!("journal/{segment:08}.jsonl");
        let (mut good, mut newest) = (0, None);
        let mut problem = None;
        for (at, line) in text.split_inclusive(|byte| *byte == b'\n').enumerate() {
            let number = at + 1;
            let Some(whole) = line.strip_suffix(b"\n") else {
                problem = Some(format!("{name}:{number}: the line is not whole"));
                break;
            };
            match self.checker.take(whole) {
                Ok(Found::Header(header)) => {
                    if (header.journal, header.segment) != (self.mark.journal, segment) {
                        problem = Some(format!("{name} belongs to another journal"));
                        break;
                    }
                    self.alive(header.now);
                    self.begun = (header.now.wall, header.state.seq);
                }
                Ok(Found::Record(_) | Found::System(_)) => newest = Some(whole),
                Ok(Found::Base(_)) => {
                    problem = Some(format!("{name}:{number}: a state stands in a segment"));
                    break;
                }
                Ok(Found::End(_)) => {}
                Err(error) => {
                    problem = Some(format!("{name}:{number}: {error}"));
                    break;
                }
            }
            (self.each)(Position { segment, bytes: good as u64, seq: self.checker.state().seq }, whole);
            good += line.len();
        }
        if let Some(record) = newest.and_then(|line| Record::parse(line).ok()) {
            self.alive(record.now);
        }
        (good, problem)
    }

    fn alive(&mut self, now: Now) {
        if now.mono >= self.last.mono {
            self.last = now;
        }
    }

    /// The first segment that is not sealed follows the last that is.
    fn check_first(&self, segment: u64, manifest: &Manifest) -> Result<(), RecoverError> {
        let sealed = manifest.sealed.last().map(|sealed| sealed.last_seq);
        match sealed.filter(|last| *last != self.checker.begins_after()) {
            Some(last) => {
                let after = self.checker.begins_after();
                Err(untrusted(format!(
                    "segment {segment} begins after record {after}, the one before it ends with {last}"
                )))
            }
            None => Ok(()),
        }
    }

    /// Whether the journal reaches as far as it must.
    fn reaches(&self, at: Position, problem: Option<&str>) -> Result<(), RecoverError> {
        let must = self.must;
        if (at.segment, at.bytes) >= (must.segment, must.bytes) {
            return Ok(());
        }
        if let Some(problem) = problem.filter(|_| at.segment == must.segment) {
            return Err(untrusted(problem));
        }
        let (segment, bytes, seq) = (must.segment, must.bytes, must.seq);
        Err(untrusted(format!(
            "the journal ends with record {} (segment {}, byte {}), but it had reached record {seq} (segment {segment}, byte {bytes}): it was cut or replaced",
            at.seq, at.segment, at.bytes
        )))
    }
}

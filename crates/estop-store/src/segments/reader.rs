//! Reads a journal, also one that is being written and sealed meanwhile.

use std::fs::OpenOptions;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use estop_core::ids::Hash64;
use estop_journal::{Base, Checker, End, Head, Header, Manifest, State, lines_of, records};

use super::base::base_lines;
use super::files::{Listing, MANIFEST, raw_path, sealed_path};
use super::frames::{Frames, end_of_frame};
use super::sealer::sha256;
use crate::data_folder::open_regular;

/// Reads a journal.
#[derive(Clone, Debug)]
pub struct JournalReader {
    folder: PathBuf,
}

/// Takes lines; `false` ends the reading.
pub type EachLines<'a> = &'a mut dyn FnMut(&[u8]) -> bool;

/// A segment, open for reading.
#[derive(Debug)]
pub enum Segment {
    /// All whole lines of one that is not sealed, and where its frames end.
    Raw(Vec<u8>, Vec<usize>),
    /// One that is.
    Packed(Frames),
}

impl Segment {
    /// How many frames it has.
    pub fn frames(&self) -> usize {
        match self {
            Segment::Raw(_, ends) => ends.len(),
            Segment::Packed(frames) => frames.count(),
        }
    }

    /// The lines of a frame.
    pub fn frame(&self, frame: usize) -> io::Result<std::borrow::Cow<'_, [u8]>> {
        match self {
            Segment::Raw(lines, ends) => {
                let start = frame.checked_sub(1).and_then(|before| ends.get(before)).copied().unwrap_or(0);
                let end = ends.get(frame).copied().unwrap_or(start);
                Ok(lines.get(start..end).unwrap_or_default().into())
            }
            Segment::Packed(frames) => Ok(frames.read(frame)?.into()),
        }
    }
}

impl JournalReader {
    /// The journal in a folder.
    pub fn new(folder: &Path) -> JournalReader {
        JournalReader { folder: folder.to_owned() }
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The manifest; an empty one if there is none.
    pub fn manifest(&self) -> io::Result<Manifest> {
        Ok(self.manifest_text()?.0)
    }

    /// The manifest, and its whole lines.
    pub(crate) fn manifest_text(&self) -> io::Result<(Manifest, Vec<u8>)> {
        let mut text = Vec::new();
        match open_regular(&self.folder.join(MANIFEST), OpenOptions::new().read(true)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((Manifest::default(), text)),
            file => file?.read_to_end(&mut text)?,
        };
        let (manifest, whole) = Manifest::parse(&text).map_err(invalid)?;
        text.truncate(whole);
        Ok((manifest, text))
    }

    /// The numbers of all segments, in order.
    pub fn segments(&self) -> io::Result<Vec<u64>> {
        let Listing { mut raw, sealed, .. } = Listing::of(&self.folder)?;
        raw.extend(sealed);
        let manifest = self.manifest()?;
        // One that was sealed between two looks, or is missing: whoever reads it is told.
        raw.extend(manifest.sealed.iter().map(|sealed| sealed.segment));
        // A crash may have left one that was pruned.
        let pruned = manifest.pruned.map_or(0, |(segment, _)| segment);
        Ok(raw.into_iter().filter(|segment| *segment > pruned).collect())
    }

    /// Opens a segment. It may be sealed at any time, and then the raw file goes.
    pub fn open(&self, segment: u64) -> io::Result<Segment> {
        match open_regular(&raw_path(&self.folder, segment), OpenOptions::new().read(true)) {
            Ok(mut file) => {
                let mut lines = Vec::new();
                file.read_to_end(&mut lines)?;
                // What stands behind the last end of a line is being written.
                lines.truncate(memchr::memrchr(b'\n', &lines).map_or(0, |at| at + 1));
                let mut ends = Vec::new();
                while let Some(start) =
                    Some(ends.last().copied().unwrap_or(0)).filter(|start| *start < lines.len())
                {
                    ends.push(end_of_frame(&lines, start));
                }
                Ok(Segment::Raw(lines, ends))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Ok(Segment::Packed(Frames::open(&sealed_path(&self.folder, segment))?))
            }
            Err(error) => Err(error),
        }
    }

    /// The same; `None` if it was pruned since somebody looked.
    fn open_kept(&self, segment: u64) -> io::Result<Option<Segment>> {
        match self.open(segment) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let pruned = self.manifest()?.pruned.map_or(0, |(pruned, _)| pruned);
                if segment <= pruned { Ok(None) } else { Err(error) }
            }
            open => open.map(Some),
        }
    }

    /// The record after which the journal begins; 0 = it is whole.
    pub fn begins_after(&self) -> io::Result<u64> {
        Ok(self.first_state()?.seq)
    }

    /// Which journal it is; `None` if there is none.
    pub fn id(&self) -> io::Result<Option<Hash64>> {
        let newest = self.segments()?.last().copied();
        newest.map(|segment| Ok(first_header(&self.open(segment)?)?.journal)).transpose()
    }

    /// What the records that are gone add up to.
    pub fn first_state(&self) -> io::Result<State> {
        for segment in self.segments()? {
            if let Some(open) = self.open_kept(segment)? {
                return Ok(first_header(&open)?.state);
            }
        }
        Ok(State::default())
    }

    /// The agents' states after the last segment that was pruned, as lines; empty if none was.
    pub fn base_lines(&self) -> io::Result<Vec<u8>> {
        base_lines(&self.folder, &self.manifest()?)
    }

    /// What everything so far comes to: SHA-256 of the manifest's newest hash and of the segments that are not sealed yet, as
    /// 64 hex digits.
    pub fn digest(&self) -> io::Result<String> {
        let manifest = self.manifest()?;
        let mut all = manifest.head().as_bytes().to_vec();
        for segment in self.segments()?.into_iter().filter(|segment| *segment > manifest.last_segment()) {
            if let Segment::Raw(lines, _) = self.open(segment)? {
                all.extend_from_slice(&lines);
            }
        }
        Ok(sha256(&all).into())
    }

    /// Gives all lines of all segments, as they were written.
    pub fn lines(&self, each: EachLines<'_>) -> io::Result<()> {
        self.lines_after(0, each)
    }

    /// The same of the segments after one. If the next was pruned meanwhile it is an error: something would be missing.
    fn lines_after(&self, after: u64, each: EachLines<'_>) -> io::Result<()> {
        let segments = self.segments()?;
        if after > 0 && segments.first().is_some_and(|first| *first != after + 1) {
            return Err(pruned_meanwhile());
        }
        for segment in segments {
            let open = self.open(segment)?;
            for frame in 0..open.frames() {
                if !each(&open.frame(frame)?) {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Gives the whole journal for people: the states it begins with if records are gone, all lines, and a last one that says
    /// that nothing was cut off.
    pub fn export(&self, each: EachLines<'_>) -> io::Result<()> {
        let manifest = self.manifest()?;
        let base = base_lines(&self.folder, &manifest)?;
        if !base.is_empty() && !each(&base) {
            return Ok(());
        }
        let (mut checker, mut problem, mut is_wanted) = (Checker::default(), None, true);
        let pruned = manifest.pruned.as_ref().map_or(0, |(segment, _)| *segment);
        self.lines_after(pruned, &mut |lines| {
            let mut all = lines_of(lines);
            problem = all.find_map(|line| checker.take(line).err());
            is_wanted = problem.is_none() && each(lines);
            is_wanted
        })?;
        if let Some(problem) = problem {
            return Err(invalid(problem));
        }
        if is_wanted && !checker.is_ended() {
            let segment = checker.segment().unwrap_or(0);
            let is_listed = manifest.last_segment() > 0;
            let manifest = is_listed.then(|| manifest.head().into());
            each(&End { segment, last_seq: checker.state().seq, manifest }.line());
        }
        Ok(())
    }

    /// The same of one agent alone: its state if records are gone, its records, and a last line. `frames` as for
    /// [`JournalReader::back`].
    pub fn export_agent(
        &self,
        agent: &str,
        mut frames: impl FnMut(u64) -> Option<Vec<usize>>,
        each: EachLines<'_>,
    ) -> io::Result<()> {
        let (manifest, segments) = (self.manifest()?, self.segments()?);
        let Some(first) = segments.first() else { return Ok(()) };
        let header = first_header(&self.open(*first)?)?;
        let state = State::of_agent(header.state.seq, agent, header.state.count(agent));
        let mut part = base_line_of(&base_lines(&self.folder, &manifest)?, agent);
        part.extend_from_slice(&Header { state, agent: Some(agent.into()), ..header }.line());
        let (mut last_seq, first) = (header.state.seq, *first);
        for segment in segments {
            let open = self.open(segment)?;
            for frame in frames(segment).unwrap_or_else(|| (0..open.frames()).collect()) {
                for (line, head) in records(&open.frame(frame)?).filter(|(_, head)| head.agent == agent) {
                    part.extend_from_slice(line);
                    part.push(b'\n');
                    last_seq = head.seq;
                }
                if !part.is_empty() && !each(&part) {
                    return Ok(());
                }
                part.clear();
            }
        }
        // All of it stands in one segment here.
        part.extend_from_slice(&End { segment: first, last_seq, manifest: None }.line());
        each(&part);
        Ok(())
    }

    /// Gives the records `from..=to`, some hundreds at a time.
    pub fn records(&self, from: u64, to: u64, each: EachLines<'_>) -> io::Result<()> {
        let (mut part, mut is_begun) = (Vec::new(), false);
        for segment in self.segments_from(from)? {
            let open = match self.open_kept(segment)? {
                Some(open) => open,
                None if is_begun => return Err(pruned_meanwhile()),
                None => continue,
            };
            is_begun = true;
            for frame in first_frame(&open, from)?..open.frames() {
                let lines = open.frame(frame)?;
                part.clear();
                for (line, head) in records(&lines) {
                    if head.seq > to {
                        break;
                    }
                    if head.seq >= from {
                        part.extend_from_slice(line);
                        part.push(b'\n');
                    }
                }
                let is_over = records(&lines).last().is_some_and(|(_, head)| head.seq >= to);
                if (!part.is_empty() && !each(&part)) || is_over {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// The segments that may have records from this one on.
    fn segments_from(&self, from: u64) -> io::Result<Vec<u64>> {
        let manifest = self.manifest()?;
        let passed = manifest.sealed.iter().take_while(|sealed| sealed.last_seq < from).last();
        let first = passed.map_or(0, |sealed| sealed.segment + 1);
        Ok(self.segments()?.into_iter().filter(|segment| *segment >= first).collect())
    }

    /// Looks through records before this one, the newest first, until `each` says `false`. `frames` says in which frames of a
    /// segment it is worth looking; `None` = in all.
    pub fn back(
        &self,
        before: u64,
        mut frames: impl FnMut(u64) -> Option<Vec<usize>>,
        each: &mut dyn FnMut(&[u8], &Head<'_>) -> bool,
    ) -> io::Result<()> {
        let manifest = self.manifest()?;
        let is_later = |segment: u64| {
            manifest.sealed.iter().any(|sealed| sealed.segment == segment && sealed.after_seq + 1 >= before)
        };
        for segment in self.segments()?.into_iter().rev().filter(|segment| !is_later(*segment)) {
            let wanted = frames(segment);
            if wanted.as_ref().is_some_and(Vec::is_empty) {
                continue;
            }
            // Those before it are gone too.
            let Some(open) = self.open_kept(segment)? else { return Ok(()) };
            let wanted = wanted.unwrap_or_else(|| (0..open.frames()).collect());
            for frame in wanted.into_iter().rev() {
                let lines = open.frame(frame)?;
                let all: Vec<(&[u8], Head<'_>)> =
                    records(&lines).filter(|(_, head)| head.seq < before).collect();
                for (line, head) in all.iter().rev() {
                    if !each(line, head) {
                        return Ok(());
                    }
                }
            }
        }
        Ok(())
    }
}

fn pruned_meanwhile() -> io::Error {
    io::Error::other("its oldest records were pruned meanwhile: try again")
}

/// A segment's first line.
fn first_header(segment: &Segment) -> io::Result<Header> {
    let first = segment.frame(0)?;
    Header::parse(first.split(|byte| *byte == b'\n').next().unwrap_or_default()).map_err(invalid)
}

/// An agent's line among states; empty if there is none.
fn base_line_of(lines: &[u8], agent: &str) -> Vec<u8> {
    let is_its = |line: &&[u8]| Base::parse(line).is_ok_and(|base| base.agent == agent);
    let mut lines = lines.split_inclusive(|byte| *byte == b'\n');
    lines.find(is_its).map_or_else(Vec::new, <[u8]>::to_vec)
}

fn invalid(error: impl std::fmt::Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error.to_string())
}

/// The last frame whose first record is not after this one.
fn first_frame(segment: &Segment, from: u64) -> io::Result<usize> {
    let (mut low, mut high) = (0, segment.frames());
    while high - low > 1 {
        let middle = usize::midpoint(low, high);
        let lines = segment.frame(middle)?;
        let is_before = records(&lines).next().is_some_and(|(_, head)| head.seq <= from);
        if is_before { low = middle } else { high = middle }
    }
    Ok(low)
}

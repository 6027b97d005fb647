//! A copy of everything estop keeps, in one tar file: the journal as far as it reaches, and the database. estop may be
//! running meanwhile.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};

use estop_core::ids::Name;
use estop_journal::{Checker, Manifest, Position, Watermark, lines_of};

use crate::data_folder::open_regular;
use crate::error::{OpenError, StoreError};
use crate::journal::Cursor;
use crate::segments::{
    JOURNAL_FOLDER, JournalReader, MANIFEST, MARK, RecoverError, Segment, base_path, base_states, is_whole,
    raw_path, recover, sealed_path, sha256_of,
};
use crate::sqlite::{Copied, check_copy, copy_database};

/// The database's name in a copy.
const DATABASE: &str = "estop.db";
/// The file with its SHA-256: SQLite does not notice every damage.
const DATABASE_SHA256: &str = "estop.db.sha256";
/// A running estop may seal or prune a segment between two looks.
const TRIES: u32 = 5;
/// What a copy's mark names as the start of the machine: everything in it must be there.
const BOOT: &str = "backup";

/// What a copy holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backup {
    /// Its newest record.
    pub last_seq: u64,
    /// The schema of its database.
    pub schema: u32,
}

/// Copies everything. An existing file is not overwritten; what appears under the name is complete and on the disk.
pub fn backup(database: &Path, to: &Path) -> Result<Backup, StoreError> {
    if to.try_exists()? {
        return Err(StoreError::Exists { what: "file", id: to.display().to_string() });
    }
    let (draft, copy) = (beside(to, ".part"), beside(to, ".part.db"));
    let written = write(database, &draft, &copy);
    // The first error is the one to tell.
    let _ = std::fs::remove_file(&copy);
    if written.is_err() {
        let _ = std::fs::remove_file(&draft);
    }
    let backup = written?;
    std::fs::rename(&draft, to)?;
    File::open(folder_of(to))?.sync_all()?;
    Ok(backup)
}

fn write(database: &Path, draft: &Path, copy: &Path) -> Result<Backup, StoreError> {
    let journal = JournalReader::new(&folder_of(database).join(JOURNAL_FOLDER));
    let mut tries = 0;
    let last_seq = loop {
        tries += 1;
        // The database first: it must not know of records that the copy of the journal lacks.
        let pruned = journal.manifest()?.pruned;
        remove(copy)?;
        copy_database(database, copy)?;
        match write_tar(draft, copy, &journal, pruned.as_ref()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && tries < TRIES => {}
            written => break written?,
        }
    };
    let Copied { schema, cursor } = check_copy(copy).map_err(|error| damaged(&error))?;
    check_cursor(cursor, &journal, last_seq)?;
    Ok(Backup { last_seq, schema })
}

/// The database must not know of more than the journal has: a start would refuse it.
fn check_cursor(cursor: Option<Cursor>, journal: &JournalReader, last_seq: u64) -> Result<(), StoreError> {
    let Some(cursor) = cursor else { return Ok(()) };
    if journal.id()?.is_some_and(|id| id != cursor.journal) {
        return Err(StoreError::Corrupt("the database belongs to another journal".to_owned()));
    }
    if cursor.seq > last_seq {
        return Err(StoreError::Corrupt(format!(
            "the database knows of record {}, but the journal ends with {last_seq}",
            cursor.seq
        )));
    }
    Ok(())
}

fn damaged(error: &OpenError) -> StoreError {
    StoreError::Corrupt(error.to_string())
}

/// Not found = a file was sealed or pruned between two looks.
fn write_tar(
    draft: &Path,
    copy: &Path,
    journal: &JournalReader,
    pruned: Option<&(u64, Name)>,
) -> io::Result<u64> {
    remove(draft)?;
    let files = Files::of(journal)?;
    if files.manifest.pruned.as_ref() != pruned {
        // The copy of the database might lack rows of records that are gone.
        return Err(io::ErrorKind::NotFound.into());
    }
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(draft)?;
    let mut tar = tar::Builder::new(file);
    tar.append_path_with_name(copy, DATABASE)?;
    append(&mut tar, Path::new(DATABASE_SHA256), sha256_of(copy)?.as_bytes())?;
    for sealed in &files.manifest.sealed {
        if !is_whole(journal.folder(), sealed)? {
            let problem = format!("segment {} was changed after it was sealed", sealed.segment);
            return Err(io::Error::new(io::ErrorKind::InvalidData, problem));
        }
    }
    let last_seq = write_journal(&mut tar, files)?;
    tar.into_inner()?.sync_all()?;
    Ok(last_seq)
}

/// All files of one moment. Sealed ones do not change any more; there may be thousands, so that they are opened one
/// by one.
struct Files {
    manifest: Manifest,
    text: Vec<u8>,
    sealed_files: Vec<PathBuf>,
    raw: Vec<(u64, Vec<u8>)>,
}

impl Files {
    fn of(journal: &JournalReader) -> io::Result<Files> {
        let (manifest, text) = journal.manifest_text()?;
        let folder = journal.folder();
        let base = manifest.pruned.iter().map(|(segment, _)| base_path(folder, *segment));
        let sealed = manifest.sealed.iter().map(|sealed| sealed_path(folder, sealed.segment));
        let sealed_files = base.chain(sealed).collect();
        let mut raw = Vec::new();
        for segment in journal.segments()?.into_iter().filter(|segment| *segment > manifest.last_segment()) {
            match journal.open(segment)? {
                Segment::Raw(lines, _) => raw.push((segment, lines)),
                Segment::Packed(_) => return Err(io::ErrorKind::NotFound.into()),
            }
        }
        Ok(Files { manifest, text, sealed_files, raw })
    }
}

fn write_journal(tar: &mut tar::Builder<File>, files: Files) -> io::Result<u64> {
    if !files.manifest.sealed.is_empty() || files.manifest.pruned.is_some() {
        append(tar, &in_journal(MANIFEST), &files.text)?;
    }
    for path in files.sealed_files {
        let mut file = open_regular(&path, OpenOptions::new().read(true))?;
        tar.append_file(Path::new(JOURNAL_FOLDER).join(name_of(&path)), &mut file)?;
    }
    let invalid = |problem: String| io::Error::new(io::ErrorKind::InvalidData, problem);
    let mut checker = Checker::default();
    let (mut id, mut reached) = (None, Position::default());
    for (segment, lines) in &files.raw {
        for line in lines_of(lines) {
            let found = checker.take(line).map_err(|error| invalid(error.to_string()))?;
            if let estop_journal::Found::Header(header) = found {
                id = Some((header.journal, header.now));
            }
        }
        append(tar, &raw_path(Path::new(JOURNAL_FOLDER), *segment), lines)?;
        reached = Position { segment: *segment, bytes: lines.len() as u64, seq: checker.state().seq };
    }
    let (journal, now) = id.ok_or_else(|| invalid("it has no newest segment".to_owned()))?;
    let mark = Watermark { serial: 1, journal, boot: BOOT.into(), written: reached, synced: reached, now };
    let slots = [[b' '; estop_journal::SLOT_LEN], mark.slot()].concat();
    append(tar, &in_journal(MARK), &slots)?;
    Ok(reached.seq)
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn in_journal(name: &str) -> PathBuf {
    Path::new(JOURNAL_FOLDER).join(name)
}

fn append(tar: &mut tar::Builder<File>, name: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut header = tar::Header::new_gnu();
    header.set_size(bytes.len() as u64);
    header.set_mode(0o600);
    tar.append_data(&mut header, name, bytes)
}

/// Unpacks a copy into a new folder and reads all of it: whether it is ours and undamaged.
pub fn unpack(file: &Path, into: &Path) -> Result<Backup, StoreError> {
    DirBuilder::new().mode(0o700).create(into)?;
    DirBuilder::new().mode(0o700).create(into.join(JOURNAL_FOLDER))?;
    let mut tar = tar::Archive::new(File::open(file)?);
    let not_ours = |error: &dyn std::fmt::Display| {
        StoreError::Corrupt(format!("{} is no copy made by `estop backup`: {error}", file.display()))
    };
    for entry in tar.entries().map_err(|error| not_ours(&error))? {
        let mut entry = entry.map_err(|error| not_ours(&error))?;
        let path = entry.path().map_err(|error| not_ours(&error))?.into_owned();
        if !is_ours(&path) || !entry.header().entry_type().is_file() {
            return Err(not_ours(&format!("it has {}", path.display())));
        }
        let mut out = OpenOptions::new().write(true).create_new(true).mode(0o600).open(into.join(&path))?;
        io::copy(&mut entry, &mut out)?;
        out.sync_all()?;
    }
    let wanted = std::fs::read_to_string(into.join(DATABASE_SHA256)).map_err(|error| not_ours(&error))?;
    if *sha256_of(&into.join(DATABASE)).map_err(|error| not_ours(&error))? != *wanted {
        return Err(StoreError::Corrupt("the copy of the database was changed".to_owned()));
    }
    // It says nothing of the database once that is in use.
    std::fs::remove_file(into.join(DATABASE_SHA256))?;
    File::open(into.join(JOURNAL_FOLDER))?.sync_all()?;
    File::open(into)?.sync_all()?;
    check_unpacked(into)
}

/// The names in a copy: nothing is written outside of its folder.
fn is_ours(path: &Path) -> bool {
    let mut parts = path.components();
    match (parts.next(), parts.next(), parts.next()) {
        (Some(Component::Normal(name)), None, None) => name == DATABASE || name == DATABASE_SHA256,
        (Some(Component::Normal(folder)), Some(Component::Normal(_)), None) => folder == JOURNAL_FOLDER,
        _ => false,
    }
}

/// Reads everything that was unpacked.
pub fn check_unpacked(folder: &Path) -> Result<Backup, StoreError> {
    let Copied { schema, cursor } = check_copy(&folder.join(DATABASE)).map_err(|error| damaged(&error))?;
    let place = folder.join(JOURNAL_FOLDER);
    let corrupt = |problem: String| StoreError::Corrupt(format!("the journal: {problem}"));
    let found = recover(&place, BOOT, &mut |_, _| {}).map_err(|error| match error {
        RecoverError::Untrusted(problem) => corrupt(problem),
        RecoverError::Io { error, .. } => error.into(),
    })?;
    let found = found.ok_or_else(|| corrupt("there is none".to_owned()))?;
    for sealed in &found.manifest.sealed {
        if !is_whole(&place, sealed)? {
            return Err(corrupt(format!("segment {} was changed after it was sealed", sealed.segment)));
        }
    }
    base_states(&place, &found.manifest)?;
    check_cursor(cursor, &JournalReader::new(&place), found.state.seq)?;
    Ok(Backup { last_seq: found.state.seq, schema })
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

fn remove(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

//! Reads a file line by line, with a progress bar where a person watches.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use anyhow::Context;
use estop_config::printable::escaped;
use indicatif::{ProgressBar, ProgressStyle};

/// A line longer than this is refused: it would be no record or trace of ours, and memory has an end.
const LINE_MAX: usize = 64 << 20;

/// A file, line by line.
pub struct Lines {
    path: PathBuf,
    reader: BufReader<Box<dyn Read>>,
    bar: ProgressBar,
    buffer: Vec<u8>,
    number: usize,
    read: u64,
}

impl Lines {
    /// Opens the file. The bar is drawn on a terminal only.
    pub fn open(path: &Path, what: &'static str) -> anyhow::Result<Lines> {
        let name = escaped(&path.display().to_string());
        // Asked before it is opened: opening a pipe waits for somebody to write into it.
        let about = std::fs::metadata(path).with_context(|| format!("cannot open {name}"))?;
        anyhow::ensure!(about.is_file(), "{name} is not a regular file");
        let file = File::open(path).with_context(|| format!("cannot open {name}"))?;
        let style = ProgressStyle::with_template("{msg} {wide_bar} {bytes}/{total_bytes} {eta}")?;
        let bar = ProgressBar::new(about.len()).with_style(style).with_message(what);
        Ok(Lines {
            path: path.to_owned(),
            reader: BufReader::with_capacity(1 << 20, Box::new(file)),
            bar,
            buffer: Vec::new(),
            number: 0,
            read: 0,
        })
    }

    /// What is piped in. Nobody knows how long it is: there is no bar.
    pub fn of_stdin() -> Lines {
        Lines {
            path: PathBuf::from("standard input"),
            reader: BufReader::with_capacity(1 << 20, Box::new(std::io::stdin())),
            bar: ProgressBar::hidden(),
            buffer: Vec::new(),
            number: 0,
            read: 0,
        }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// How many lines were read.
    pub fn count(&self) -> usize {
        self.number
    }

    /// The next line with its end, if there is one; `Some((number, line))` counts from 1.
    pub fn next_line(&mut self) -> anyhow::Result<Option<(usize, &[u8])>> {
        self.buffer.clear();
        let mut limited = Read::take(&mut self.reader, LINE_MAX as u64 + 1);
        let place = || format!("{}:{}", self.path.display(), self.number + 1);
        let read = limited
            .read_until(b'\n', &mut self.buffer)
            .with_context(|| format!("{}: this line cannot be read", place()))?;
        anyhow::ensure!(
            self.buffer.len() <= LINE_MAX,
            "{}: this line is longer than {LINE_MAX} bytes",
            place()
        );
        if read == 0 {
            self.bar.finish_and_clear();
            return Ok(None);
        }
        self.number += 1;
        self.read += read as u64;
        // Drawing is throttled by the bar itself; telling it of every line would cost more than reading it.
        if self.number.is_multiple_of(256) {
            self.bar.set_position(self.read);
        }
        Ok(Some((self.number, &self.buffer)))
    }
}

//! The store's tail file, as the data plane's queue wants it.

use std::path::Path;
use std::sync::Arc;

use estop_gateway::Tail;
use estop_store::TailFile;

#[derive(Debug)]
struct Lines(Arc<TailFile>);

impl Tail for Lines {
    fn write(&self, lines: &[u8]) -> std::io::Result<()> {
        self.0.append(lines)
    }

    fn sync(&self) -> std::io::Result<()> {
        self.0.sync()
    }

    fn next_generation(&self) -> std::io::Result<()> {
        self.0.next_generation()
    }

    fn forget_before(&self) -> std::io::Result<()> {
        self.0.forget_before()
    }
}

/// Begins a tail file.
pub(super) fn begin(data_dir: &Path, generation: u64) -> std::io::Result<(Box<dyn Tail>, Arc<TailFile>)> {
    let file = Arc::new(TailFile::begin(data_dir, generation)?);
    Ok((Box::new(Lines(Arc::clone(&file))), file))
}

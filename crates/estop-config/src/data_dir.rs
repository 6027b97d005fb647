//! What a data directory holds, by name: the daemon and the commands find the same files without knowing each other.

use std::path::{Path, PathBuf};

/// The database's name in the data directory.
pub const DATABASE: &str = "estop.db";
/// The owner's socket in the data directory.
const SOCKET: &str = "estop.sock";
/// The first admin token, where nobody watches a first start.
const ADMIN_TOKEN: &str = "admin-token";

/// Where the database of a data directory is.
pub fn database(data_dir: &Path) -> PathBuf {
    data_dir.join(DATABASE)
}

/// Where the owner's socket of a data directory is.
pub fn socket(data_dir: &Path) -> PathBuf {
    data_dir.join(SOCKET)
}

/// Where a first start writes the admin token if nobody watches.
pub fn admin_token(data_dir: &Path) -> PathBuf {
    data_dir.join(ADMIN_TOKEN)
}

/// A small file beside the database that estop writes whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SmallFile {
    /// Its name in the data directory.
    pub name: &'static str,
    /// A file that is larger was not written by estop.
    pub bytes_max: u64,
}

impl SmallFile {
    /// Where it is.
    pub fn path(&self, data_dir: &Path) -> PathBuf {
        data_dir.join(self.name)
    }
}

/// The last proof test with all its steps. A result has some hundred bytes.
pub const PROOF_TEST: SmallFile = SmallFile { name: "prooftest.json", bytes_max: 64 << 10 };
/// Work at providers. An entry has at most a few kB, and their number is bounded.
pub const BACKGROUND: SmallFile = SmallFile { name: "background.json", bytes_max: 64 << 20 };

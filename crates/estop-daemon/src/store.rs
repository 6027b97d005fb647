//! The store that everything is kept in. Whatever uses it knows its traits alone, so that another one is a line here.

use std::path::Path;
use std::sync::Arc;

use estop_store::{OpenError, Sqlite, SqliteOptions, Store};

/// Opens the store, or creates it if there is none. The last handle to go closes it.
pub(crate) fn open(path: &Path) -> Result<Arc<dyn Store>, OpenError> {
    Ok(Arc::new(Sqlite::open(path, SqliteOptions::default())?))
}

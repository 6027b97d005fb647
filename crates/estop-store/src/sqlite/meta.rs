//! Single values in SQLite.

use rusqlite::Connection;

use super::Sqlite;
use super::query::{change, one};
use crate::Meta;
use crate::error::StoreError;

impl Meta for Sqlite {
    fn meta(&self, name: &str) -> Result<Option<String>, StoreError> {
        self.read(|connection| {
            one(connection, "SELECT value FROM meta WHERE name = ?", [name], |row| Ok(row.get(0)?))
        })
    }

    fn put_meta(&self, name: &str, value: &str) -> Result<(), StoreError> {
        let (name, value) = (name.to_owned(), value.to_owned());
        self.write_settings(move |connection| put(connection, &name, &value))
    }
}

pub(super) fn put(connection: &Connection, name: &str, value: &str) -> Result<(), StoreError> {
    change(connection, "INSERT OR REPLACE INTO meta (name, value) VALUES (?, ?)", [name, value])?;
    Ok(())
}

//! Brings a database to the schema this program knows: forward only, each step in its own transaction.

use rusqlite::{Connection, TransactionBehavior};

/// The steps; the schema's number is how many of them were taken.
pub(super) const MIGRATIONS: &[&str] = &[include_str!("../../migrations/sqlite/0001_first.sql")];

/// The newest schema this program knows.
pub(super) fn newest() -> u32 {
    u32::try_from(MIGRATIONS.len()).unwrap_or(u32::MAX)
}

/// The schema of a database.
pub(super) fn version(connection: &Connection) -> rusqlite::Result<u32> {
    connection.pragma_query_value(None, "user_version", |row| row.get(0))
}

/// Takes the steps that are missing. A step that fails leaves the database as it was before that step.
pub(super) fn migrate(connection: &mut Connection, steps: &[&str]) -> rusqlite::Result<()> {
    let mut taken = version(connection)?;
    for step in steps.iter().skip(taken as usize) {
        taken += 1;
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        transaction.execute_batch(step)?;
        transaction.pragma_update(None, "user_version", taken)?;
        transaction.commit()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_step_leaves_the_schema_before_it() -> rusqlite::Result<()> {
        let mut connection = Connection::open_in_memory()?;
        let broken = ["CREATE TABLE a (x)", "CREATE TABLE b (x); CREATE TABLE a (y)"];
        assert!(migrate(&mut connection, &broken).is_err());
        assert_eq!(version(&connection)?, 1);
        let fixed = ["never run again", "CREATE TABLE b (x)"];
        migrate(&mut connection, &fixed)?;
        assert_eq!(version(&connection)?, 2);
        Ok(())
    }
}

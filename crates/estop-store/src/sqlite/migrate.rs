//! Brings a database to the schema this program knows: forward only, each step in its own transaction.

use rusqlite::{Connection, TransactionBehavior};

/// The steps; the schema's number is how many of them were taken.
pub(super) const MIGRATIONS: &[&str] = &[
    include_str!("../../migrations/sqlite/0001_first.sql"),
    include_str!("../../migrations/sqlite/0002_beginning.sql"),
    include_str!("../../migrations/sqlite/0003_estimated_spend.sql"),
    include_str!("../../migrations/sqlite/0004_alerts.sql"),
    include_str!("../../migrations/sqlite/0005_escalation_facts.sql"),
    include_str!("../../migrations/sqlite/0006_packed_blocks.sql"),
    include_str!("../../migrations/sqlite/0007_open_cases.sql"),
    include_str!("../../migrations/sqlite/0008_digests_apart.sql"),
    include_str!("../../migrations/sqlite/0009_short_digests.sql"),
    include_str!("../../migrations/sqlite/0010_lists.sql"),
    include_str!("../../migrations/sqlite/0011_shorter.sql"),
    include_str!("../../migrations/sqlite/0012_session_use.sql"),
];

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
        let mended = ["never run again", "CREATE TABLE b (x)"];
        migrate(&mut connection, &mended)?;
        assert_eq!(version(&connection)?, 2);
        Ok(())
    }

    #[test]
    fn al_1_alerts_and_their_tries_are_there_after_the_fourth_step() -> rusqlite::Result<()> {
        let mut connection = Connection::open_in_memory()?;
        migrate(&mut connection, &MIGRATIONS[..3])?;
        connection.execute_batch(
            "INSERT INTO outbox VALUES (7, 'd', 'ops', '{}', 1, 2, 3, 'waiting');
             INSERT INTO outbox VALUES (8, 'e', 'ops', '{}', 1, 2, 2, 'given_up');
             INSERT INTO outbox VALUES (9, 'f', 'mail', '{}', 1, 2, 2, 'delivered');
             INSERT INTO delivery VALUES (7, 1, 5, 0, '503'), (8, 1, 6, 0, 'a'), (8, 2, 9, 0, 'b');
             INSERT INTO delivery VALUES (9, 1, 7, 0, 'c'), (9, 2, 8, 1, 'd');",
        )?;
        migrate(&mut connection, MIGRATIONS)?;
        let waiting = "SELECT id, attempts FROM outbox WHERE target = 'ops' AND status = 'waiting'";
        let row: (i64, i64) = connection.query_row(waiting, [], |row| Ok((row.get(0)?, row.get(1)?)))?;
        assert_eq!(row, (7, 3));
        let log = "SELECT group_concat(dedupe || target || attempt || at || outcome || detail, ' ')
            FROM (SELECT * FROM delivery_log ORDER BY id)";
        let log: String = connection.query_row(log, [], |row| row.get(0))?;
        assert_eq!(log, "dops15retry503 eops16retrya fmail17retryc fmail28deliveredd eops29given_upb");
        Ok(())
    }
}

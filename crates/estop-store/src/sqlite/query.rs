//! Small helpers around statements: read all rows, one row, or a page by optional conditions.

use rusqlite::types::Value;
use rusqlite::{Connection, Params, Row, params_from_iter};

use crate::error::StoreError;

/// Reads all rows.
pub(super) fn all<T>(
    connection: &Connection,
    sql: &str,
    params: impl Params,
    map: impl Fn(&Row<'_>) -> Result<T, StoreError>,
) -> Result<Vec<T>, StoreError> {
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query(params)?;
    let mut out = Vec::new();
    while let Some(row) = rows.next()? {
        out.push(map(row)?);
    }
    Ok(out)
}

/// Reads the first row, if there is one.
pub(super) fn one<T>(
    connection: &Connection,
    sql: &str,
    params: impl Params,
    map: impl Fn(&Row<'_>) -> Result<T, StoreError>,
) -> Result<Option<T>, StoreError> {
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query(params)?;
    rows.next()?.map(map).transpose()
}

/// Runs a statement; how many rows it changed.
pub(super) fn change(connection: &Connection, sql: &str, params: impl Params) -> Result<usize, StoreError> {
    Ok(connection.prepare_cached(sql)?.execute(params)?)
}

/// A `SELECT` whose conditions are put together, so that each can use its index.
pub(super) struct Page {
    sql: String,
    values: Vec<Value>,
}

impl Page {
    /// Begins with a `SELECT … FROM …`.
    pub(super) fn of(select: &str) -> Page {
        Page { sql: format!("{select} WHERE 1"), values: Vec::new() }
    }

    /// Adds a condition with as many `?` as there are values.
    pub(super) fn and(mut self, condition: &str, values: impl IntoIterator<Item = Value>) -> Page {
        self.sql.push_str(" AND ");
        self.sql.push_str(condition);
        self.values.extend(values);
        self
    }

    /// Adds `column = ?` if there is a value.
    pub(super) fn equal(self, column: &str, value: Option<&str>) -> Page {
        match value {
            Some(value) => self.and(&format!("{column} = ?"), [Value::from(value.to_owned())]),
            None => self,
        }
    }

    /// Reads the page.
    pub(super) fn read<T>(
        mut self,
        connection: &Connection,
        order: &str,
        limit: usize,
        map: impl Fn(&Row<'_>) -> Result<T, StoreError>,
    ) -> Result<Vec<T>, StoreError> {
        self.sql.push_str(&format!(" ORDER BY {order} LIMIT ?"));
        self.values.push(Value::from(i64::try_from(limit).unwrap_or(i64::MAX)));
        all(connection, &self.sql, params_from_iter(self.values), map)
    }
}

//! Sums of spend in SQLite.

use std::borrow::Cow;

use estop_core::ids::Name;
use estop_core::money::NanoUsd;
use rusqlite::{Connection, Row, params};

use super::Sqlite;
use super::convert::capped;
use super::query::{all, change};
use crate::error::StoreError;
use crate::journal::Durability;
use crate::ledger::{Ledger, Spend, SpendBy, SpendGroup, SpendQuery, SpendSum};

impl Ledger for Sqlite {
    fn add_spend(&self, spend: Vec<Spend>) -> Result<(), StoreError> {
        self.write(Durability::Process, move |connection| {
            spend.iter().try_for_each(|spend| add(connection, spend))
        })
    }

    fn spend(&self, query: &SpendQuery) -> Result<Vec<SpendGroup>, StoreError> {
        let (key, from) = source(query.by);
        let order = if query.by == SpendBy::Day { "day DESC" } else { "usd_nano_sum DESC, key" };
        let sums = SUMMED.map(sum).join(", ");
        let sql = format!(
            "SELECT {key} AS key, {sums}
            FROM {from} WHERE day BETWEEN ?1 AND ?2 AND (?3 IS NULL OR agent = ?3)
            GROUP BY 1 ORDER BY {order} LIMIT ?4"
        );
        let SpendQuery { from_day, to_day, agent, limit, .. } = query;
        self.read(|connection| all(connection, &sql, params![from_day, to_day, agent, limit], group))
    }
}

/// What is summed, in the order it is read.
const SUMMED: [&str; 9] = [
    "requests",
    "input_tokens",
    "output_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "reasoning_tokens",
    "usd_nano",
    "unpriced",
    "estimated",
];

/// The sum of a column; one that would not fit stays at its maximum, where SQLite's own would be an error. Its arithmetic
/// goes on in floating point beyond whole numbers.
fn sum(column: &str) -> String {
    format!(
        "min(sum({column} >> 32) * 4294967296 + sum({column} & 4294967295), 9223372036854775807) AS {column}_sum"
    )
}

/// What sums are made by, and from what.
fn source(by: SpendBy) -> (&'static str, &'static str) {
    match by {
        SpendBy::Day => ("CAST(day AS TEXT)", "spend"),
        SpendBy::Agent => ("agent", "spend"),
        SpendBy::Model => ("model", "spend"),
        SpendBy::Run => ("run", "spend"),
        SpendBy::Issue => ("issue", "spend"),
        SpendBy::Role => ("role", "spend"),
        SpendBy::Label => ("label.key || '=' || label.value", "spend JOIN json_each(spend.labels) AS label"),
    }
}

/// Adds to a sum. A sum that would not fit stays at its maximum.
pub(super) fn add(connection: &Connection, spend: &Spend) -> Result<(), StoreError> {
    let labels = if spend.labels.is_empty() {
        Cow::Borrowed("{}")
    } else {
        let labels = serde_json::to_string(&spend.labels);
        Cow::Owned(labels.map_err(|error| StoreError::Invalid(error.to_string()))?)
    };
    let Spend { day, agent, run, model, role, issue, sum, .. } = spend;
    let params = params![
        day,
        agent,
        run,
        model,
        role,
        issue,
        labels,
        capped(sum.requests),
        capped(sum.input_tokens),
        capped(sum.output_tokens),
        capped(sum.cache_read_tokens),
        capped(sum.cache_write_tokens),
        capped(sum.reasoning_tokens),
        capped(sum.usd.0),
        capped(sum.unpriced),
        capped(sum.estimated),
    ];
    // There mostly is one: changing it takes less than trying to insert it.
    let update = "UPDATE spend SET
            requests = min(requests + ?8, 9223372036854775807),
            input_tokens = min(input_tokens + ?9, 9223372036854775807),
            output_tokens = min(output_tokens + ?10, 9223372036854775807),
            cache_read_tokens = min(cache_read_tokens + ?11, 9223372036854775807),
            cache_write_tokens = min(cache_write_tokens + ?12, 9223372036854775807),
            reasoning_tokens = min(reasoning_tokens + ?13, 9223372036854775807),
            usd_nano = min(usd_nano + ?14, 9223372036854775807),
            unpriced = min(unpriced + ?15, 9223372036854775807),
            estimated = min(estimated + ?16, 9223372036854775807)
        WHERE day = ?1 AND agent = ?2 AND run = ?3 AND model = ?4 AND role = ?5 AND issue = ?6 AND labels = ?7";
    if change(connection, update, params)? == 0 {
        let insert = "INSERT INTO spend (day, agent, run, model, role, issue, labels, requests, input_tokens, output_tokens,
                cache_read_tokens, cache_write_tokens, reasoning_tokens, usd_nano, unpriced, estimated)
            VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
        change(connection, insert, params)?;
    }
    Ok(())
}

fn group(row: &Row<'_>) -> Result<SpendGroup, StoreError> {
    let sum = SpendSum {
        requests: row.get(1)?,
        input_tokens: row.get(2)?,
        output_tokens: row.get(3)?,
        cache_read_tokens: row.get(4)?,
        cache_write_tokens: row.get(5)?,
        reasoning_tokens: row.get(6)?,
        usd: NanoUsd(row.get(7)?),
        unpriced: row.get(8)?,
        estimated: row.get(9)?,
    };
    Ok(SpendGroup { key: row.get::<_, Name>(0)?, sum })
}

//! The account of all agents together, as the store has it: exactly what was booked up to the newest record.

use estop_core::budget::{Amount, Budget};
use estop_core::policy::BudgetPolicy;
use estop_core::time::{Millis, Now, Zone};
use estop_store::{FLEET_ACCOUNT, Ledger, SpendBy, SpendQuery, Store, StoreError};

/// Days of a month, and one to spare.
const DAYS: i32 = 32;
const DAY_MS: i64 = 86_400_000;

/// Reads the account. A store that has none yet has sums of each day.
pub(super) fn account(store: &dyn Store, wall: i64) -> Result<Budget, StoreError> {
    let kept = store.meta(FLEET_ACCOUNT)?;
    match kept.as_deref().map(serde_json::from_str::<Budget>) {
        Some(Ok(account)) => Ok(account),
        Some(Err(_)) | None => from_sums(store, wall),
    }
}

fn from_sums(store: &dyn Ledger, wall: i64) -> Result<Budget, StoreError> {
    let (zone, caps) = (Zone::default(), BudgetPolicy::default());
    let today = zone.local(wall);
    let by_day = SpendQuery {
        by: SpendBy::Day,
        from_day: today.day.saturating_sub(DAYS),
        to_day: today.day,
        agent: None,
        limit: DAYS as usize + 1,
    };
    let mut account = Budget::default();
    // The oldest first: the calendar turns as it did.
    for group in store.spend(&by_day)?.into_iter().rev() {
        let Ok(day) = group.key.parse::<i32>() else { continue };
        let at = Now { mono: Millis::default(), wall: i64::from(day) * DAY_MS };
        account.turn(at, &caps);
        let tokens = group.sum.input_tokens.saturating_add(group.sum.output_tokens);
        account.settle(Amount::default(), Amount { usd: group.sum.usd, tokens });
    }
    Ok(account)
}

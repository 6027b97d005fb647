//! Between rows and types: what SQLite says is made ours, and back.

use estop_core::agent::standing::{Cause, DeactivatedBy, Standing};
use estop_core::system::{KillReason, SystemState};
use estop_core::time::Millis;
use rusqlite::{ErrorCode, Row};

use crate::access::{TokenKind, TokenRole};
use crate::agents::Origin;
use crate::cases::CaseStatus;
use crate::error::StoreError;

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> StoreError {
        let text = error.to_string();
        match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => StoreError::Full,
            Some(ErrorCode::SystemIoFailure | ErrorCode::CannotOpen | ErrorCode::ReadOnly) => {
                StoreError::Io(text)
            }
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StoreError::Busy,
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => StoreError::Corrupt(text),
            Some(ErrorCode::ConstraintViolation | ErrorCode::TooBig) => StoreError::Invalid(text),
            Some(_) => StoreError::Database(text),
            None if is_wrong_value(&error) => StoreError::Invalid(text),
            // What remains is a row that does not hold what the schema promises.
            None => StoreError::Corrupt(text),
        }
    }
}

fn is_wrong_value(error: &rusqlite::Error) -> bool {
    matches!(error, rusqlite::Error::ToSqlConversionFailure(_))
}

/// A row or line that does not hold what it should.
pub(super) fn unreadable(what: &str) -> StoreError {
    StoreError::Corrupt(format!("{what} cannot be read"))
}

/// Money and tokens as SQLite keeps them: up to 2^63.
pub(super) fn capped(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// A state's XXH3, in the signed form SQLite keeps.
pub(super) fn checksum(state: &[u8]) -> i64 {
    xxhash_rust::xxh3::xxh3_64(state).cast_signed()
}

/// A value that is stored by its name.
pub(super) trait Named: Copy + 'static {
    const ALL: &'static [Self];

    fn text(self) -> &'static str;

    fn parse(text: &str) -> Result<Self, StoreError> {
        let found = Self::ALL.iter().find(|value| value.text() == text);
        found.copied().ok_or_else(|| unreadable(text))
    }
}

macro_rules! named {
    ($type:ident { $($variant:ident = $text:literal),+ }) => {
        impl Named for $type {
            const ALL: &'static [$type] = &[$($type::$variant),+];

            fn text(self) -> &'static str {
                match self {
                    $($type::$variant => $text,)+
                }
            }
        }
    };
}

named!(Origin { Config = "config", Api = "api", Traffic = "traffic" });
named!(TokenRole { Admin = "admin", Operator = "operator", Viewer = "viewer" });
named!(TokenKind { Sha256 = "sha256", Argon2 = "argon2" });
named!(CaseStatus { Open = "open", Acknowledged = "acknowledged", Resolved = "resolved" });
named!(SystemState {
    Starting = "starting",
    Running = "running",
    Shutdown = "shutdown",
    SafeMode = "safe_mode"
});
named!(KillReason {
    Manual = "manual",
    SecurityIncident = "security_incident",
    RunawayAgent = "runaway_agent",
    ApiQuotaExceeded = "api_quota_exceeded",
    Emergency = "emergency"
});
named!(Cause {
    Loop = "loop",
    Churn = "churn",
    Chanting = "chanting",
    Health = "health",
    Watchdog = "watchdog"
});

/// A standing as it stands in the columns of `agent`.
pub(super) struct StandingColumns {
    pub(super) active: bool,
    pub(super) deactivated_by: Option<&'static str>,
    pub(super) deactivation_cause: Option<&'static str>,
    pub(super) paused: bool,
    pub(super) pause_cause: Option<&'static str>,
    pub(super) since_mono: i64,
}

impl From<Standing> for StandingColumns {
    fn from(standing: Standing) -> StandingColumns {
        let active = StandingColumns {
            active: true,
            deactivated_by: None,
            deactivation_cause: None,
            paused: false,
            pause_cause: None,
            since_mono: 0,
        };
        match standing {
            Standing::Active => active,
            Standing::Inactive { by, since } => {
                let (by, cause) = match by {
                    DeactivatedBy::Manual => ("manual", None),
                    DeactivatedBy::KillSwitch(cause) => ("kill_switch", Some(cause.text())),
                };
                let since_mono = capped(since.0);
                let (deactivated_by, deactivation_cause) = (Some(by), cause);
                StandingColumns { active: false, deactivated_by, deactivation_cause, since_mono, ..active }
            }
            Standing::Paused { cause, since } => {
                let pause_cause = cause.map(Named::text);
                StandingColumns { paused: true, pause_cause, since_mono: capped(since.0), ..active }
            }
        }
    }
}

/// Reads a standing from the columns `active` … `standing_since_mono`, of which the first is number `at`.
pub(super) fn standing(row: &Row<'_>, at: usize) -> Result<Standing, StoreError> {
    let (active, paused): (bool, bool) = (row.get(at)?, row.get(at + 3)?);
    let since = Millis(row.get(at + 5)?);
    let cause = |column| -> Result<Option<Cause>, StoreError> {
        row.get_ref(column)?
            .as_str_or_null()
            .map_err(|_| unreadable("a cause"))?
            .map(Cause::parse)
            .transpose()
    };
    if active {
        let pause = if paused { Some(cause(at + 4)?) } else { None };
        return Ok(pause.map_or(Standing::Active, |cause| Standing::Paused { cause, since }));
    }
    let by: Box<str> = row.get(at + 1)?;
    let by = match (by.as_ref(), cause(at + 2)?) {
        ("manual", _) => DeactivatedBy::Manual,
        ("kill_switch", Some(cause)) => DeactivatedBy::KillSwitch(cause),
        (_, _) => return Err(unreadable("a standing")),
    };
    Ok(Standing::Inactive { by, since })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The API and the journal use the core's names; the store must not have others.
    #[test]
    fn causes_are_called_as_in_the_core() {
        assert!(Cause::ALL.iter().all(|cause| cause.text() == cause.name()));
    }
}

-- The alerts of a target go out one after the other, in the order they were made.
CREATE INDEX outbox_by_target ON outbox (target, id) WHERE status = 'waiting';
DROP INDEX outbox_due;

-- Every try to deliver, newest last. It outlives its alert and is bounded by number.
CREATE TABLE delivery_log (
    id      INTEGER PRIMARY KEY AUTOINCREMENT,
    outbox  INTEGER NOT NULL,
    dedupe  TEXT NOT NULL,
    target  TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    at      INTEGER NOT NULL,
    outcome TEXT NOT NULL CHECK (outcome IN ('delivered', 'retry', 'given_up')),
    detail  TEXT NOT NULL
) STRICT;
CREATE INDEX delivery_log_by_target ON delivery_log (target, id);
INSERT INTO delivery_log (outbox, dedupe, target, attempt, at, outcome, detail)
    SELECT outbox.id, dedupe, target, attempt, at,
        CASE
            WHEN is_success = 1 THEN 'delivered'
            WHEN status = 'given_up' AND attempt = max(attempt) OVER (PARTITION BY outbox.id) THEN 'given_up'
            ELSE 'retry'
        END,
        detail
    FROM delivery JOIN outbox ON outbox.id = delivery.outbox
    ORDER BY at, outbox.id, attempt;
DROP TABLE delivery;

-- What alert rules and sinks must know after a restart: what was told when, which issue was opened for which escalation.
CREATE TABLE alert_memory (
    name       TEXT NOT NULL PRIMARY KEY,
    value      TEXT NOT NULL CHECK (json_valid(value)),
    updated_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

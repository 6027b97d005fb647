-- What estop keeps. Times are milliseconds since 1970 (UTC), money is nano-dollars, booleans are 0/1.
-- JSON columns hold what only people and the layers above read; nothing here is judged by SQL.

-- One row: up to which record of which journal the rows below were made, and the last packed segment that is indexed.
CREATE TABLE journal_cursor (
    one             INTEGER PRIMARY KEY CHECK (one = 1),
    journal         INTEGER NOT NULL,
    seq             INTEGER NOT NULL,
    indexed_segment INTEGER NOT NULL
) STRICT;

-- In which frames of a packed segment an agent has records: distances from one to the next, seven bits a byte.
CREATE TABLE posting (
    agent   TEXT NOT NULL,
    segment INTEGER NOT NULL,
    frames  BLOB NOT NULL,
    PRIMARY KEY (agent, segment)
) STRICT, WITHOUT ROWID;

-- What people look for: kills, stops, changes of policy. `nth` tells the events of one record apart.
CREATE TABLE event (
    seq        INTEGER NOT NULL,
    nth        INTEGER NOT NULL,
    wall       INTEGER NOT NULL,
    agent      TEXT,
    event_type TEXT NOT NULL,
    detail     TEXT NOT NULL CHECK (json_valid(detail)),
    PRIMARY KEY (seq, nth)
) STRICT, WITHOUT ROWID;
CREATE INDEX event_by_agent ON event (agent, seq, nth);
CREATE INDEX event_by_type ON event (event_type, seq, nth);

CREATE TABLE agent (
    name                    TEXT NOT NULL PRIMARY KEY,
    active                  INTEGER NOT NULL CHECK (active IN (0, 1)),
    deactivated_by          TEXT CHECK (deactivated_by IN ('kill_switch', 'manual')),
    deactivation_cause      TEXT,
    paused                  INTEGER NOT NULL CHECK (paused IN (0, 1)),
    pause_cause             TEXT,
    standing_since_mono     INTEGER NOT NULL,
    role                    TEXT,
    kill_switch_enabled     INTEGER CHECK (kill_switch_enabled IN (0, 1)),
    kill_switch_window_size INTEGER,
    kill_switch_threshold_tenths INTEGER,
    policy_overrides        TEXT CHECK (json_valid(policy_overrides)),
    origin                  TEXT NOT NULL CHECK (origin IN ('config', 'api', 'traffic')),
    version                 INTEGER NOT NULL,
    created_at              INTEGER NOT NULL,
    updated_at              INTEGER NOT NULL,
    last_seen_at            INTEGER,
    deleted                 INTEGER NOT NULL CHECK (deleted IN (0, 1)),
    CHECK ((active = 1) = (deactivated_by IS NULL)),
    CHECK (active = 1 OR paused = 0)
) STRICT, WITHOUT ROWID;

-- An agent's state, opaque here, the record it holds for, and its XXH3: SQLite itself has no checksums. Apart from
-- `agent`, because it changes far more often.
CREATE TABLE agent_snapshot (
    agent TEXT NOT NULL UNIQUE,
    seq   INTEGER NOT NULL,
    xxh3  INTEGER NOT NULL,
    state BLOB NOT NULL
) STRICT;

CREATE TABLE run (
    id         TEXT NOT NULL PRIMARY KEY,
    agent      TEXT NOT NULL,
    name       TEXT,
    state      TEXT NOT NULL,
    attended   INTEGER NOT NULL CHECK (attended IN (0, 1)),
    role       TEXT,
    issue      TEXT,
    branch     TEXT,
    session    TEXT,
    labels     TEXT NOT NULL CHECK (json_valid(labels)),
    started_at INTEGER NOT NULL,
    ended_at   INTEGER,
    counters   TEXT NOT NULL CHECK (json_valid(counters)),
    spent_nano INTEGER NOT NULL,
    tokens     INTEGER NOT NULL,
    summary    TEXT
) STRICT, WITHOUT ROWID;
CREATE INDEX run_by_start ON run (started_at, id);
CREATE INDEX run_by_agent ON run (agent, started_at, id);

-- Spend, summed up as it comes in. An empty text stands for "none", so that the key is never null.
CREATE TABLE spend (
    day                INTEGER NOT NULL,
    agent              TEXT NOT NULL,
    run                TEXT NOT NULL,
    model              TEXT NOT NULL,
    role               TEXT NOT NULL,
    issue              TEXT NOT NULL,
    labels             TEXT NOT NULL CHECK (json_valid(labels)),
    requests           INTEGER NOT NULL,
    input_tokens       INTEGER NOT NULL,
    output_tokens      INTEGER NOT NULL,
    cache_read_tokens  INTEGER NOT NULL,
    cache_write_tokens INTEGER NOT NULL,
    reasoning_tokens   INTEGER NOT NULL,
    usd_nano           INTEGER NOT NULL,
    unpriced           INTEGER NOT NULL,
    -- Their provider did not say what they used, or nobody lived to hear it.
    estimated          INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (day, agent, run, model, role, issue, labels)
) STRICT, WITHOUT ROWID;

-- One row: the red button, as it was last persisted.
CREATE TABLE system_state (
    one      INTEGER PRIMARY KEY CHECK (one = 1),
    state    TEXT NOT NULL,
    epoch    INTEGER NOT NULL,
    shut     INTEGER NOT NULL,
    reason   TEXT,
    note     TEXT,
    by       TEXT NOT NULL,
    source   TEXT NOT NULL,
    since    INTEGER NOT NULL,
    metadata TEXT CHECK (json_valid(metadata))
) STRICT;

-- Only hashes: whoever reads this file cannot log in with it.
CREATE TABLE token (
    id           TEXT NOT NULL PRIMARY KEY,
    name         TEXT NOT NULL,
    role         TEXT NOT NULL CHECK (role IN ('admin', 'operator', 'viewer')),
    kind         TEXT NOT NULL CHECK (kind IN ('sha256', 'argon2')),
    hash         BLOB NOT NULL,
    created_at   INTEGER NOT NULL,
    expires_at   INTEGER,
    revoked_at   INTEGER,
    last_used_at INTEGER
) STRICT, WITHOUT ROWID;

CREATE TABLE agent_key (
    id           TEXT NOT NULL PRIMARY KEY,
    agent        TEXT NOT NULL,
    sha256       BLOB NOT NULL UNIQUE CHECK (length(sha256) = 32),
    prefix       TEXT NOT NULL,
    created_at   INTEGER NOT NULL,
    revoked_at   INTEGER,
    last_used_at INTEGER
) STRICT, WITHOUT ROWID;

CREATE TABLE session (
    sha256      BLOB NOT NULL PRIMARY KEY CHECK (length(sha256) = 32),
    token       TEXT NOT NULL,
    csrf_sha256 BLOB NOT NULL CHECK (length(csrf_sha256) = 32),
    created_at  INTEGER NOT NULL,
    expires_at  INTEGER NOT NULL,
    -- When it was last used, so that its idle end survives a restart.
    used_at     INTEGER NOT NULL DEFAULT 0,
    user_agent  TEXT NOT NULL DEFAULT ''
) STRICT, WITHOUT ROWID;

CREATE TABLE incident (
    id         TEXT NOT NULL PRIMARY KEY,
    agent      TEXT NOT NULL,
    run        TEXT,
    seq        INTEGER NOT NULL,
    kind       TEXT NOT NULL,
    opened_at  INTEGER NOT NULL,
    status     TEXT NOT NULL CHECK (status IN ('open', 'acknowledged', 'resolved')),
    resolution TEXT,
    resolved_at INTEGER,
    -- Who did what, and when: an array of objects, oldest first.
    history    TEXT NOT NULL DEFAULT '[]' CHECK (json_valid(history)),
    -- The same happened to the same agent shortly before, and shortly after.
    earlier    TEXT,
    later      TEXT,
    evidence   TEXT NOT NULL CHECK (json_valid(evidence)),
    summary    TEXT NOT NULL,
    version    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX incident_by_time ON incident (opened_at, id);
CREATE INDEX incident_by_agent ON incident (agent, opened_at, id);
-- What is not resolved is counted for every page, and is little beside all that ever was.
CREATE INDEX incident_open ON incident (opened_at, id, status) WHERE status <> 'resolved';

-- The steps before a stop: excerpts of what an agent said and did. They are in no journal, and `steps` is null once deleted.
CREATE TABLE evidence (
    incident   TEXT NOT NULL PRIMARY KEY,
    agent      TEXT NOT NULL,
    stored_at  INTEGER NOT NULL,
    steps      TEXT CHECK (json_valid(steps)),
    deleted_by TEXT,
    deleted_at INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX evidence_by_time ON evidence (stored_at);

CREATE TABLE escalation (
    id          TEXT NOT NULL PRIMARY KEY,
    agent       TEXT NOT NULL,
    run         TEXT,
    reason      TEXT NOT NULL,
    opened_at   INTEGER NOT NULL,
    seq         INTEGER NOT NULL,
    status      TEXT NOT NULL CHECK (status IN ('open', 'acknowledged', 'resolved')),
    owner       TEXT,
    history     TEXT NOT NULL DEFAULT '[]' CHECK (json_valid(history)),
    resolved_at INTEGER,
    resolved_by TEXT,
    version     INTEGER NOT NULL,
    -- What whoever is called for help needs to know: the agent's last words, and where its work is.
    summary     TEXT,
    facts       TEXT NOT NULL DEFAULT '{}'
) STRICT, WITHOUT ROWID;
CREATE INDEX escalation_by_time ON escalation (opened_at, id);
CREATE INDEX escalation_by_agent ON escalation (agent, opened_at, id);
CREATE INDEX escalation_open ON escalation (opened_at, id, status) WHERE status <> 'resolved';

CREATE TABLE alert_rule (
    id         TEXT NOT NULL PRIMARY KEY,
    rule       TEXT NOT NULL CHECK (json_valid(rule)),
    enabled    INTEGER NOT NULL CHECK (enabled IN (0, 1)),
    version    INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Alerts on their way out. `dedupe` makes adding the same alert twice a no-op.
CREATE TABLE outbox (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    dedupe     TEXT NOT NULL UNIQUE,
    target     TEXT NOT NULL,
    payload    TEXT NOT NULL CHECK (json_valid(payload)),
    created_at INTEGER NOT NULL,
    due_at     INTEGER NOT NULL,
    attempts   INTEGER NOT NULL,
    status     TEXT NOT NULL CHECK (status IN ('waiting', 'delivered', 'given_up'))
) STRICT;
-- The alerts of a target go out one after the other, in the order they were made.
CREATE INDEX outbox_by_target ON outbox (target, id) WHERE status = 'waiting';

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

-- What alert rules and sinks must know after a restart: what was told when, which issue was opened for which escalation.
CREATE TABLE alert_memory (
    name       TEXT NOT NULL PRIMARY KEY,
    value      TEXT NOT NULL CHECK (json_valid(value)),
    updated_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE meta (
    name  TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

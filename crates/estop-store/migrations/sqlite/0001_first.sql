-- What estop keeps. Times are milliseconds since 1970 (UTC), money is nano-dollars, booleans are 0/1.
-- JSON columns hold what only people and the layers above read; nothing here is judged by SQL.

-- The journal: whole lines, many in a row; each commit adds one. From time to time the newest blocks become a
-- segment, which is indexed by chain; small blocks are merged on that occasion.
CREATE TABLE block (
    first_seq  INTEGER PRIMARY KEY,
    last_seq   INTEGER NOT NULL,
    first_wall INTEGER NOT NULL,
    last_wall  INTEGER NOT NULL,
    lines      BLOB NOT NULL
) STRICT;

CREATE TABLE segment (
    first_seq   INTEGER PRIMARY KEY,
    last_seq    INTEGER NOT NULL,
    newest_wall INTEGER NOT NULL,
    bytes       INTEGER NOT NULL
) STRICT;

-- A chain is an agent's, or the system's; with its heads after the newest segment.
CREATE TABLE chain (
    id        INTEGER PRIMARY KEY,
    name      TEXT NOT NULL UNIQUE,
    count     INTEGER NOT NULL,
    events    BLOB NOT NULL,
    decisions BLOB NOT NULL
) STRICT;

-- Which segments hold records of a chain, and the chain's heads after each. The newest row of a chain outlives its
-- segment, so that what remains after pruning still verifies.
CREATE TABLE segment_chain (
    chain       INTEGER NOT NULL,
    first_seq   INTEGER NOT NULL,
    last_record INTEGER NOT NULL,
    count       INTEGER NOT NULL,
    events      BLOB NOT NULL,
    decisions   BLOB NOT NULL,
    PRIMARY KEY (chain, first_seq)
) STRICT, WITHOUT ROWID;

-- One row: how far the journal is indexed and pruned, and how far the write-ahead tail file was taken in.
CREATE TABLE journal_mark (
    one             INTEGER PRIMARY KEY CHECK (one = 1),
    indexed_to      INTEGER NOT NULL,
    pruned_to       INTEGER NOT NULL,
    tail_generation INTEGER NOT NULL,
    tail_offset     INTEGER NOT NULL
) STRICT;
INSERT INTO journal_mark VALUES (1, 0, 0, 0, 0);

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
    expires_at  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE incident (
    id         TEXT NOT NULL PRIMARY KEY,
    agent      TEXT NOT NULL,
    run        TEXT,
    seq        INTEGER NOT NULL,
    kind       TEXT NOT NULL,
    opened_at  INTEGER NOT NULL,
    status     TEXT NOT NULL CHECK (status IN ('open', 'closed')),
    resolution TEXT,
    evidence   TEXT NOT NULL CHECK (json_valid(evidence)),
    summary    TEXT NOT NULL,
    version    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX incident_by_time ON incident (opened_at, id);
CREATE INDEX incident_by_agent ON incident (agent, opened_at, id);

CREATE TABLE escalation (
    id          TEXT NOT NULL PRIMARY KEY,
    agent       TEXT NOT NULL,
    run         TEXT,
    reason      TEXT NOT NULL,
    opened_at   INTEGER NOT NULL,
    status      TEXT NOT NULL CHECK (status IN ('open', 'closed')),
    owner       TEXT,
    notes       TEXT NOT NULL,
    resolved_at INTEGER,
    resolved_by TEXT,
    version     INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX escalation_by_time ON escalation (opened_at, id);
CREATE INDEX escalation_by_agent ON escalation (agent, opened_at, id);

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
CREATE INDEX outbox_due ON outbox (due_at, id) WHERE status = 'waiting';

CREATE TABLE delivery (
    outbox     INTEGER NOT NULL REFERENCES outbox (id) ON DELETE CASCADE,
    attempt    INTEGER NOT NULL,
    at         INTEGER NOT NULL,
    is_success INTEGER NOT NULL CHECK (is_success IN (0, 1)),
    detail     TEXT NOT NULL,
    PRIMARY KEY (outbox, attempt)
) STRICT, WITHOUT ROWID;

CREATE TABLE meta (
    name  TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

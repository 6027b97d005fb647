-- What is open is counted for every page, and is little beside all that was ever closed: a count reads these alone.
CREATE INDEX incident_open ON incident (status, opened_at, id) WHERE status = 'open';
CREATE INDEX escalation_open ON escalation (status, opened_at, id) WHERE status = 'open';

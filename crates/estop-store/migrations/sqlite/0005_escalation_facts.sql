-- What whoever is called for help needs to know: the agent's last words, and where its work is.
ALTER TABLE escalation ADD COLUMN summary TEXT;
ALTER TABLE escalation ADD COLUMN facts TEXT NOT NULL DEFAULT '{}';

-- When a session was last used, so that its idle end survives a restart; and from which browser it was begun.
ALTER TABLE session ADD COLUMN used_at INTEGER NOT NULL DEFAULT 0;
ALTER TABLE session ADD COLUMN user_agent TEXT NOT NULL DEFAULT '';

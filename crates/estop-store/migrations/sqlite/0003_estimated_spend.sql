-- How many of the requests in a sum were estimated: their provider did not say what they used, or nobody lived to hear
-- it.
ALTER TABLE spend ADD COLUMN estimated INTEGER NOT NULL DEFAULT 0;

-- Lines are compressed (zstd) where that makes them shorter; this is how long they are then without it. NULL: they stand as they are.
ALTER TABLE block ADD COLUMN raw_bytes INTEGER;

-- The hashes of a block's records, 64 bytes each, and a checksum of them and of the lines: as digits in the lines they
-- cost most of the time and room of compressing. NULL: they stand in the lines.
ALTER TABLE block ADD COLUMN digests BLOB;

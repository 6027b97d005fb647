-- Which records of a segment belong to a chain: distances from one to the next, seven bits a byte. NULL in rows of
-- segments made before; there every block is looked through.
ALTER TABLE segment_chain ADD COLUMN seqs BLOB;

-- The state of each chain after the last record that was pruned, opaque here: what the rest of the journal is replayed
-- from. A row holds until a later record of its chain is pruned.
CREATE TABLE base_state (
    chain  TEXT NOT NULL PRIMARY KEY,
    sha256 BLOB NOT NULL CHECK (length(sha256) = 32),
    state  BLOB NOT NULL
) STRICT;

//! The journal on the disk: `journal/NNNNNNNN.jsonl`, one file after the other.
//!
//! The newest segment is written by [`SegmentWriter`], line behind line. When it has grown, the next begins, and the old one is
//! sealed ([`seal`]) and listed in `manifest.jsonl`. `mark` says how far the journal must reach. A start reads
//! the manifest and the segments that are not sealed yet ([`recover`]): what is missing, cut or changed there is noticed.

mod base;
mod files;
mod frames;
mod mark_file;
mod reader;
mod recovery;
mod sealer;
mod writer;

pub use base::{base_states, prune_oldest};
pub use files::{JOURNAL_FOLDER, Listing, base_path, raw_path, sealed_path};
pub(crate) use files::{MANIFEST, MARK};
pub use frames::{FRAME_BYTES, Frames, end_of_frame};
pub use reader::{EachLines, JournalReader, Segment};
pub use recovery::{RecoverError, Recovered, boot_id, look, lost_file, recover};
pub(crate) use sealer::sha256_of;
pub use sealer::{SealError, append_manifest, is_base_whole, is_whole, seal};
pub use writer::SegmentWriter;

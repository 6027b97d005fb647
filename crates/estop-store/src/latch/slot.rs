//! One slot of the latch file: text for people, bound by a checksum.

use estop_core::hex;
use estop_core::system::button::Latched;
use estop_core::system::{Channel, Channels, GateView, KillReason, SystemState};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use super::{Entry, FoundLatch, FoundSlot, SlotVersion};

/// Bytes of a slot: a page, which disks write whole.
pub(super) const SLOT: usize = 4096;

/// What the first line begins with; the checksum of the rest follows.
const TITLE: &str = "estop latch 1, xxh3 ";
/// Hex digits of the checksum, and the line's end.
const HEAD: usize = TITLE.len() + 16 + 1;
/// Longest name of who and from where, if nothing else helps to fit the slot.
const NAME_MAX: usize = 128;

/// Why the file does not say which slot is the newest.
#[derive(Debug, thiserror::Error)]
enum SlotError {
    #[error("the latch file has {0} bytes instead of {len}", len = 2 * SLOT)]
    Length(usize),
    #[error("the latch file's {0} slot is damaged")]
    Damaged(&'static str),
}

/// A slot that was read.
struct Slot {
    mark: SlotVersion,
    entry: Entry,
}

/// A slot as it stands in the file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    serial: u64,
    /// Who wrote it; files of before have none.
    #[serde(default)]
    writer: String,
    state: SystemState,
    epoch: u64,
    shut: Vec<Channel>,
    #[serde(default)]
    asked: Vec<Channel>,
    reason: Option<KillReason>,
    by: String,
    source: String,
    since: Timestamp,
    note: Option<String>,
    metadata: Option<String>,
}

/// The newest of both slots. Both must be whole: of a damaged one nobody knows whether it was the newest.
pub(super) fn newest(bytes: &[u8]) -> FoundSlot {
    match newest_of(bytes) {
        Ok(Slot { mark, entry }) => {
            FoundSlot { found: FoundLatch::Valid(entry.latched), mark: Some(mark), asked: entry.asked }
        }
        Err(why) => {
            FoundSlot { found: FoundLatch::Damaged(why.to_string()), mark: None, asked: Channels::NONE }
        }
    }
}

fn newest_of(bytes: &[u8]) -> Result<Slot, SlotError> {
    if bytes.len() != 2 * SLOT {
        return Err(SlotError::Length(bytes.len()));
    }
    let (first, second) = bytes.split_at(SLOT);
    let first = parse(first).ok_or(SlotError::Damaged("first"))?;
    let second = parse(second).ok_or(SlotError::Damaged("second"))?;
    Ok(if first.mark.serial > second.mark.serial { first } else { second })
}

/// Which slot to write next, and the last serial. A damaged slot is written first.
pub(super) fn place(bytes: &[u8]) -> (usize, u64) {
    let serial = |at: usize| {
        let slot = bytes.get(at * SLOT..(at + 1) * SLOT)?;
        parse(slot).map(|slot| slot.mark.serial)
    };
    match (serial(0), serial(1)) {
        (Some(first), Some(second)) if first > second => (1, first),
        (Some(_) | None, Some(second)) => (0, second),
        (Some(first), None) => (1, first),
        (None, None) => (0, 0),
    }
}

/// A slot's bytes. What does not fit is left out: the state always fits.
pub(super) fn write(mark: &SlotVersion, entry: &Entry) -> Vec<u8> {
    let mut text = Text::of(mark, entry);
    let mut body = text.body();
    if body.len() > SLOT - HEAD {
        text.metadata = None;
        body = text.body();
    }
    if body.len() > SLOT - HEAD {
        text.note = None;
        text.by.truncate(text.by.floor_char_boundary(NAME_MAX));
        text.source.truncate(text.source.floor_char_boundary(NAME_MAX));
        body = text.body();
    }
    body.resize(SLOT - HEAD - 1, b' ');
    body.push(b'\n');
    let mut slot = format!("{TITLE}{:016x}\n", xxh3_64(&body)).into_bytes();
    slot.append(&mut body);
    slot
}

fn parse(slot: &[u8]) -> Option<Slot> {
    let (head, body) = slot.split_at_checked(HEAD)?;
    let sum = head.strip_prefix(TITLE.as_bytes())?.strip_suffix(b"\n")?;
    if hex::decode::<8>(sum)? != xxh3_64(body).to_be_bytes() {
        return None;
    }
    serde_json::from_slice::<Text>(body).ok().map(Text::read)
}

impl Text {
    fn of(mark: &SlotVersion, entry: &Entry) -> Text {
        let Latched { gate, reason, note, by, source, since, metadata } = entry.latched.clone();
        let SlotVersion { writer, serial } = mark.clone();
        Text {
            serial,
            writer,
            state: gate.state,
            epoch: gate.epoch,
            shut: names(gate.shut),
            asked: names(entry.asked),
            reason,
            by: by.into(),
            source: source.into(),
            since: Timestamp::from_millisecond(since).unwrap_or(Timestamp::UNIX_EPOCH),
            note,
            metadata,
        }
    }

    fn body(&self) -> Vec<u8> {
        // Numbers, words and times: nothing of it can fail to be written.
        serde_json::to_vec_pretty(self).unwrap_or_default()
    }

    fn read(self) -> Slot {
        let Text { serial, writer, state, epoch, shut, asked, reason, by, source, since, note, metadata } =
            self;
        let set = |names: Vec<Channel>| names.into_iter().fold(Channels::NONE, Channels::with);
        let (shut, asked) = (set(shut), set(asked));
        let gate = GateView { epoch, state, shut };
        let (by, source, since) = (by.into(), source.into(), since.as_millisecond());
        let latched = Latched { gate, reason, note, by, source, since, metadata };
        Slot { mark: SlotVersion { writer, serial }, entry: Entry { latched, asked } }
    }
}

fn names(channels: Channels) -> Vec<Channel> {
    let all = [Channel::Llm, Channel::Tools, Channel::Messaging];
    all.into_iter().filter(|channel| channels.contains(*channel)).collect()
}

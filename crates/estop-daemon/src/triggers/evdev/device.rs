//! A real input device.

use std::fs::OpenOptions;
use std::io::ErrorKind;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use estop_config::{ButtonConfig, Key, WhichDevice};
use evdev::raw_stream::RawDevice;
use evdev::{EventType, KeyCode, SynchronizationCode};
use nix::errno::Errno;
use nix::fcntl::OFlag;

use super::{KeyEvent, Keys};

/// Where the kernel's input devices are.
const FOLDER: &str = "/dev/input";
/// The value of a key event that says "went down"; 0 is up, 2 is a repeat.
const WENT_DOWN: i32 = 1;

struct InputDevice {
    device: RawDevice,
    key: Key,
}

/// Opens the device, has its events come here alone if that is wanted, and checks that it has the key.
pub(super) fn open(config: &ButtonConfig) -> anyhow::Result<Box<dyn Keys>> {
    let mut device = match &config.device {
        WhichDevice::At(path) => open_path(path)?,
        WhichDevice::Named(name) => named(name)?,
    };
    if let Key::Code(code) = config.key {
        let has_key = device.supported_keys().is_some_and(|keys| keys.contains(KeyCode(code)));
        anyhow::ensure!(has_key, "has no key {}", config.key);
    }
    if config.grab {
        grab(&mut device)?;
    }
    Ok(Box::new(InputDevice { device, key: config.key }))
}

/// Opened so that nothing can wait; what is no input device is refused by its first question.
fn open_path(path: &Path) -> std::io::Result<RawDevice> {
    let file = OpenOptions::new().read(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(path)?;
    RawDevice::try_from(file)
}

/// The first device of this name, by number.
fn named(name: &str) -> anyhow::Result<RawDevice> {
    let folder = std::fs::read_dir(FOLDER).map_err(|error| anyhow::anyhow!("{FOLDER}: {error}"))?;
    let mut paths: Vec<PathBuf> = folder.flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| path.file_name().is_some_and(|of| of.as_encoded_bytes().starts_with(b"event")));
    paths.sort_by_key(|path| (path.as_os_str().len(), path.clone()));
    let mut unreadable = 0;
    for path in paths {
        match open_path(&path) {
            Ok(device) if device.name() == Some(name) => return Ok(device),
            Ok(_) => {}
            Err(_) => unreadable += 1,
        }
    }
    let hint = if unreadable > 0 {
        format!("; {unreadable} devices cannot be opened: is this user in the group `input`?")
    } else {
        String::new()
    };
    anyhow::bail!("there is none of this name{hint}")
}

/// Somebody else's grab means that nothing would come here. Any other failure only means that the key acts elsewhere too.
fn grab(device: &mut RawDevice) -> anyhow::Result<()> {
    match device.grab() {
        Err(error) if error.raw_os_error() == Some(Errno::EBUSY as i32) => {
            anyhow::bail!("another program has grabbed it, so its events do not come here")
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

impl Keys for InputDevice {
    fn fd(&self) -> BorrowedFd<'_> {
        self.device.as_fd()
    }

    fn is_down(&mut self) -> Option<bool> {
        let down = self.device.get_key_state().ok()?;
        Some(match self.key {
            Key::Any => down.iter().next().is_some(),
            Key::Code(code) => down.contains(KeyCode(code)),
        })
    }

    fn events(&mut self) -> anyhow::Result<Vec<KeyEvent>> {
        let key = self.key;
        let events = match self.device.fetch_events() {
            Ok(events) => events,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                return Ok(Vec::new());
            }
            Err(error) => anyhow::bail!("is gone: {error}"),
        };
        let mut is_empty = true;
        let mut ours = Vec::new();
        for event in events {
            is_empty = false;
            let (kind, code) = (event.event_type(), event.code());
            let is_ours = key == Key::Any || key == Key::Code(code);
            if kind == EventType::KEY && event.value() == WENT_DOWN && is_ours {
                ours.push(KeyEvent::Down);
            } else if kind == EventType::SYNCHRONIZATION && code == SynchronizationCode::SYN_DROPPED.0 {
                ours.push(KeyEvent::Forgotten);
            }
        }
        // Ready to be read, and nothing there: the end.
        anyhow::ensure!(!is_empty, "is gone");
        Ok(ours)
    }
}

//! The line to the daemon: says what runs, hears when it must end, and is made again when it breaks.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream as WakePipe;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use anyhow::Context;
use estop_config::SecretVariables;
use http::StatusCode;
use serde_json::Value;

use crate::client::{ClientError, Endpoint, Opened, Refusal, Transport, WatchMessage};

/// The first answer waits for the daemon's disk.
const FIRST_TIMEOUT: Duration = Duration::from_secs(15);
/// A daemon that is gone is looked for this often.
const RETRY_DELAY: Duration = Duration::from_millis(200);

/// What was heard.
#[derive(Debug)]
pub(super) enum Message {
    /// The run began, or goes on.
    Watching(Value),
    /// It must not run.
    Refused(Refusal),
    /// Nobody answers, for the first time.
    Unreachable(String),
    /// It must end, and why.
    End(String),
    /// The daemon is gone; it is looked for.
    Lost,
}

/// The line. Dropping it ends it.
pub(super) struct DaemonLink {
    messages: Receiver<Message>,
    /// Rings for each message.
    bell: WakePipe,
    _stop: tokio::sync::oneshot::Sender<()>,
}

/// What the daemon said of the run.
pub(super) struct Watching {
    pub(super) id: String,
    pub(super) run: String,
    pub(super) data_url: String,
    /// Variables that hold secrets, as the daemon's configuration names them.
    pub(super) secrets: SecretVariables,
}

/// Opens the line and begins the run.
pub(super) fn open(socket: &Path, about: Value) -> anyhow::Result<(DaemonLink, Watching)> {
    let (bell, rings) = WakePipe::pair().context("cannot make a pipe")?;
    bell.set_nonblocking(true)?;
    rings.set_nonblocking(true)?;
    let (sender, messages) = channel();
    let (stop, stopped) = tokio::sync::oneshot::channel();
    let transport = Transport::new(Endpoint::Socket(socket.to_owned()));
    let keeper = LinkTask { transport, about, messages: MessageSender { sender, rings } };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    std::thread::Builder::new().name("estop-line".into()).spawn(move || {
        runtime.block_on(async {
            tokio::select! {
                () = keeper.keep() => {}
                _ = stopped => {}
            }
        });
    })?;
    let line = DaemonLink { messages, bell, _stop: stop };
    let first = line.messages.recv_timeout(FIRST_TIMEOUT);
    let slow = |_| ClientError::Unreachable("estop did not answer in time: look at its log".to_owned());
    match first.map_err(slow)? {
        Message::Watching(said) => {
            let text = |key: &str| said[key].as_str().unwrap_or_default().to_owned();
            let names = |key: &str| {
                let names = said[key].as_array().into_iter().flatten().filter_map(Value::as_str);
                names.map(str::to_owned).collect()
            };
            let secrets = SecretVariables {
                provider_keys: names("provider_key_variables"),
                others: names("secret_variables"),
            };
            let watching = Watching { id: text("id"), run: text("run"), data_url: text("data_url"), secrets };
            Ok((line, watching))
        }
        Message::Refused(refusal) => Err(ClientError::Refused(refusal).into()),
        Message::Unreachable(why) => Err(ClientError::Unreachable(why).into()),
        Message::End(why) => super::super::refused(why),
        Message::Lost => Err(ClientError::Unreachable("estop ended: start it again".to_owned()).into()),
    }
}

impl DaemonLink {
    /// What polls it.
    pub(super) fn bell(&self) -> &WakePipe {
        &self.bell
    }

    /// The next message, if there is one.
    pub(super) fn next_message(&self) -> Option<Message> {
        let mut rung = [0; 64];
        // Nobody rings: then there may still be a message that rang before.
        let _ = (&self.bell).read(&mut rung);
        self.messages.try_recv().ok()
    }
}

struct MessageSender {
    sender: Sender<Message>,
    rings: WakePipe,
}

impl MessageSender {
    fn send(&self, message: Message) {
        // Nobody listens any more, or the bell is full and rings already.
        let _ = self.sender.send(message);
        let _ = (&self.rings).write(&[1]);
    }
}

struct LinkTask {
    transport: Transport,
    about: Value,
    messages: MessageSender,
}

/// How an attempt went.
enum Attempt {
    /// It was open, and broke.
    Broke,
    /// Nobody answers.
    Nobody(String),
    /// No.
    No(StatusCode, Refusal),
}

impl LinkTask {
    async fn keep(self) {
        let mut begin = true;
        let mut was_open = false;
        let mut is_lost = false;
        loop {
            match self.attempt(begin).await {
                Attempt::Broke => {
                    (begin, was_open, is_lost) = (false, true, true);
                    self.messages.send(Message::Lost);
                }
                Attempt::Nobody(why) if !was_open => return self.messages.send(Message::Unreachable(why)),
                Attempt::No(_, refusal) if !was_open => return self.messages.send(Message::Refused(refusal)),
                Attempt::Nobody(_) => {
                    if !is_lost {
                        is_lost = true;
                        self.messages.send(Message::Lost);
                    }
                }
                // The daemon that is back does not know the run: it begins there.
                Attempt::No(StatusCode::NOT_FOUND, _) => begin = true,
                Attempt::No(StatusCode::CONFLICT, _) if begin => begin = false,
                Attempt::No(status, refusal) if status.is_client_error() => {
                    self.messages.send(Message::End(refusal.to_string()));
                }
                // In trouble, and perhaps better in a moment.
                Attempt::No(..) => {}
            }
            tokio::time::sleep(RETRY_DELAY).await;
        }
    }

    async fn attempt(&self, begin: bool) -> Attempt {
        let mut about = self.about.clone();
        about["begin"] = begin.into();
        match self.transport.watch(&about, FIRST_TIMEOUT).await {
            // Passes on what is said until the line breaks.
            Ok(Opened::Watching(mut watch)) => {
                while let Some(message) = watch.next().await {
                    self.messages.send(match message {
                        WatchMessage::Watching(said) => Message::Watching(said),
                        WatchMessage::End(why) => Message::End(why),
                    });
                }
                Attempt::Broke
            }
            Ok(Opened::Answered(received)) => match Refusal::read(received.status, &received.body) {
                Some(refusal) => Attempt::No(received.status, refusal),
                None => Attempt::Nobody(format!("what answers at {} is not estop", self.transport.endpoint)),
            },
            Err(error) => Attempt::Nobody(error.to_string()),
        }
    }
}

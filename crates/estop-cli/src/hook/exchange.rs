//! One question to the running estop and its answer: HTTP/1.1 by hand over a blocking socket, because it must be quick
//! and there is nothing more to it. The caller minds the time.

use std::io::{Error, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use estop_config::Env;
use estop_config::data_dir::socket;
use estop_wire::hooks::{HookAnswer, HookClient};
use serde::Deserialize;

use super::payload::{self, Moment, Payload};
use super::unheard::Unheard;
use super::{Args, branch, variable};
use crate::client::{host_and_port, own_detail, path};

/// Answers have a few kilobytes; texts in them are cut at 8,000 characters.
const ANSWER_BYTES_MAX: usize = 1024 * 1024;

/// Reads the payload, asks, and reads the answer.
pub(super) fn ask(args: &Args, client: HookClient, is_read: &AtomicBool) -> Result<HookAnswer, Unheard> {
    let payload = payload::read(std::io::stdin().lock(), client, args.event.as_deref());
    is_read.store(true, Ordering::Relaxed);
    let payload = payload.map_err(Unheard::Unread)?;
    let unreachable = |why: String| Unheard::Unreachable { moment: payload.moment.clone(), why };
    let misused = |why: String| Unheard::Misused { moment: payload.moment.clone(), why };
    let way = way(args).map_err(misused)?;
    let request = request(args, &way, &payload).map_err(misused)?;
    let received = way.exchange(&request, &payload.bytes).map_err(unreachable)?;
    judge(&received, &payload.moment, &way)
}

/// Where estop is.
enum Way {
    Socket(PathBuf),
    /// Host and port.
    Tcp(String),
}

/// Where estop keeps everything, if that is on this machine.
pub(super) fn data_dir(args: &Args) -> Option<PathBuf> {
    match way(args).ok()? {
        Way::Socket(path) => path.parent().map(Path::to_owned),
        Way::Tcp(_) => None,
    }
}

/// What the command line names goes before the environment: whoever sets a hook's environment, such as a repository's
/// settings, must not answer in the place of the estop that was written into the command.
fn way(args: &Args) -> Result<Way, String> {
    match (&args.data_dir, &args.url) {
        (Some(folder), _) => return Ok(Way::Socket(socket(folder))),
        (None, Some(url)) => return tcp(url),
        (None, None) => {}
    }
    if let Some(path) = variable("ESTOP_SOCKET") {
        return Ok(Way::Socket(path.into()));
    }
    // In a run this is the address for models.
    let is_run = variable("ESTOP_TICKET").is_some();
    if let Some(url) = variable("ESTOP_URL").filter(|_| !is_run) {
        return tcp(&url);
    }
    let folder = estop_config::usual_data_dir(&Env::of_process());
    let missing = "nobody says where estop is: set HOME, or ESTOP_SOCKET to the path of its socket";
    folder.map(|folder| Way::Socket(socket(&folder))).ok_or_else(|| missing.to_owned())
}

/// Whether the environment's agent, run and ticket are of the estop that is asked: a supervisor names its socket beside them.
pub(crate) fn is_of(socket: Option<&Path>) -> bool {
    let Some(named) = variable("ESTOP_SOCKET").map(PathBuf::from) else { return true };
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    socket.is_some_and(|asked| real(asked) == real(&named))
}

/// Which of an option and a variable counts. A run's supervisor knows better than an installed command what it runs, and its
/// ticket proves it; without a ticket, what was written goes first.
pub(crate) fn of_both(
    option: Option<&String>,
    name: &str,
    installed: bool,
    env_counts: bool,
) -> Option<String> {
    let said = || variable(name).filter(|_| env_counts);
    let is_supervised = installed && env_counts && variable("ESTOP_TICKET").is_some();
    if is_supervised { said().or_else(|| option.cloned()) } else { option.cloned().or_else(said) }
}

fn tcp(url: &str) -> Result<Way, String> {
    host_and_port(url).map(Way::Tcp).ok_or_else(|| {
        format!("the URL {url:?} cannot be used: write it as http://127.0.0.1:4101, the admin port")
    })
}

fn request(args: &Args, way: &Way, payload: &Payload) -> Result<Vec<u8>, String> {
    let env_counts = is_of(match way {
        Way::Socket(path) => Some(path),
        Way::Tcp(_) => None,
    });
    let first =
        |option: &Option<String>, name: &str| of_both(option.as_ref(), name, args.installed, env_counts);
    let folder = payload.cwd.as_ref().map(PathBuf::from).or_else(|| std::env::current_dir().ok());
    let branch = folder.as_deref().and_then(branch::branch).filter(|name| !name.contains(char::is_control));
    let bearer = || variable("ESTOP_TOKEN").map(|token| format!("Bearer {token}"));
    let host = match way {
        Way::Socket(_) => "localhost",
        Way::Tcp(place) => place,
    };
    let headers = [
        ("x-estop-agent", first(&args.agent, "ESTOP_AGENT")),
        ("x-estop-run", first(&args.run, "ESTOP_RUN")),
        ("x-estop-ticket", variable("ESTOP_TICKET").filter(|_| env_counts)),
        ("x-estop-branch", branch),
        // The owner's socket asks for none.
        ("authorization", if matches!(way, Way::Tcp(_)) { bearer() } else { None }),
    ];
    let target = path(&["hooks", payload.moment.client.name(), &payload.event]);
    let mut head = format!(
        "POST {target}?as=command HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\n\
         content-length: {}\r\nconnection: close\r\n",
        payload.bytes.len()
    );
    for (name, value) in headers {
        let Some(value) = value else { continue };
        // A branch may have any letters.
        if name != "x-estop-branch" && !is_plain(&value) {
            return Err(format!("what is given for {name} has characters that cannot be sent"));
        }
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str("\r\n");
    Ok(head.into_bytes())
}

/// What can stand in a header and arrives as it was sent.
fn is_plain(text: &str) -> bool {
    text.bytes().all(|byte| (0x20..0x7f).contains(&byte))
}

impl Way {
    fn shown(&self) -> String {
        match self {
            Way::Socket(path) => path.display().to_string(),
            Way::Tcp(place) => format!("http://{place}"),
        }
    }

    fn exchange(&self, head: &[u8], body: &[u8]) -> Result<Vec<u8>, String> {
        match self {
            Way::Socket(path) => {
                let stream = UnixStream::connect(path).map_err(|error| no_socket(path, &error))?;
                self.converse(stream, head, body)
            }
            Way::Tcp(place) => {
                let stream = TcpStream::connect(place.as_str());
                let stream =
                    stream.map_err(|error| format!("cannot reach estop at {}: {error}", self.shown()))?;
                self.converse(stream, head, body)
            }
        }
    }

    fn converse(&self, mut stream: impl Read + Write, head: &[u8], body: &[u8]) -> Result<Vec<u8>, String> {
        // A refusal may come before all is written: it is read all the same.
        let written = stream.write_all(head).and_then(|()| stream.write_all(body));
        let mut received = Vec::new();
        let read = read_answer(&mut stream, &mut received);
        match written.and(read) {
            Err(error) if received.is_empty() => {
                Err(format!("the connection to {} broke: {error}", self.shown()))
            }
            Ok(()) | Err(_) => Ok(received),
        }
    }
}

/// Until all that was promised is there, or the other side ends it.
fn read_answer(from: &mut impl Read, into: &mut Vec<u8>) -> std::io::Result<()> {
    let mut piece = [0; 8192];
    while into.len() <= ANSWER_BYTES_MAX {
        let bytes = match from.read(&mut piece) {
            Ok(0) => break,
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        into.extend_from_slice(piece.get(..bytes).unwrap_or_default());
        if Answer::read(into).is_some() {
            break;
        }
    }
    Ok(())
}

fn no_socket(path: &Path, error: &Error) -> String {
    let path = path.display();
    if error.kind() == ErrorKind::NotFound {
        format!("it does not run, there is no socket {path}")
    } else if error.kind() == ErrorKind::ConnectionRefused {
        format!("it does not run, nobody listens behind {path} any more")
    } else if error.kind() == ErrorKind::PermissionDenied {
        format!("{path} is for its owner alone, and this is another user")
    } else {
        format!("{path}: {error}")
    }
}

/// An HTTP answer, whole.
struct Answer<'a> {
    status: u16,
    content_type: &'a str,
    body: &'a [u8],
}

impl<'a> Answer<'a> {
    /// `None` if it is none, or not all of it is there.
    fn read(bytes: &'a [u8]) -> Option<Answer<'a>> {
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n")?;
        let head = std::str::from_utf8(bytes.get(..end)?).ok()?;
        let (first, headers) = head.split_once("\r\n").unwrap_or((head, ""));
        let status = first.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok()?;
        let header = |wanted: &str| {
            let mut all = headers.split("\r\n").filter_map(|line| line.split_once(':'));
            all.find(|(name, _)| name.eq_ignore_ascii_case(wanted)).map(|(_, value)| value.trim())
        };
        let length: usize = header("content-length")?.parse().ok()?;
        let start = end + 4;
        let body = bytes.get(start..start.checked_add(length)?)?;
        Some(Answer { status, content_type: header("content-type").unwrap_or_default(), body })
    }
}

#[derive(Deserialize)]
struct Said {
    stdout: String,
    stderr: String,
    exit_code: u8,
}

fn judge(received: &[u8], moment: &Moment, way: &Way) -> Result<HookAnswer, Unheard> {
    let place = way.shown();
    let strange = |what: String| Unheard::Unreachable {
        moment: moment.clone(),
        why: format!("what answers at {place} {what}; after an update of estop, restart it"),
    };
    let Some(Answer { status, content_type, body }) = Answer::read(received) else {
        return Err(strange("does not speak like estop".to_owned()));
    };
    if status != 200 {
        return Err(match own_detail(status, content_type, body) {
            // It is estop, and it has no yes: then no tool runs, whatever holds when it is away.
            Some(why) => Unheard::Refused { moment: moment.clone(), why },
            None => strange(format!("has no answer to hooks (status {status})")),
        });
    }
    match serde_json::from_slice(body) {
        // No other code has a meaning that is the same everywhere.
        Ok(Said { stdout, stderr, exit_code: exit_code @ (0 | 2) }) => {
            Ok(HookAnswer { stdout, stderr, exit_code })
        }
        Ok(_) | Err(_) => Err(strange("has an answer that no client would understand".to_owned())),
    }
}

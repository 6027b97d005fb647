//! E-mail over SMTP: the same dialer as everything else, TLS before a password, one message for all who are to be told.
//!
//! The subject and every header are written by lettre from texts without line ends, so that nothing in them can become
//! another header or recipient (A11).

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

use lettre::message::{Mailbox, MultiPart};
use lettre::transport::smtp::authentication::{Credentials, Mechanism};
use lettre::transport::smtp::client::{
    AsyncSmtpConnection, AsyncTokioStream, Certificate, CertificateStore, TlsParameters,
};
use lettre::transport::smtp::commands::{Data, Mail, Rcpt};
use lettre::transport::smtp::extension::ClientId;
use secrecy::ExposeSecret;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::channel::{Channel, Email, MailTls};
use crate::message::{Fact, Message, Severity, Step};
use crate::net::{DialError, Dialer, Limited};
use crate::outcome::SendOutcome;
use crate::plain::one_line;
use crate::render::html;

/// Bytes a mail server may say in one conversation.
const SAID_MAX: usize = 64 * 1024;
const GOODBYE_TIMEOUT: Duration = Duration::from_secs(1);
type Smtp = Result<(), lettre::transport::smtp::Error>;

/// Why nothing was said to a mail server.
#[derive(Debug, thiserror::Error)]
enum ConnectError {
    #[error(transparent)]
    Dial(#[from] DialError),
    #[error(transparent)]
    Peer(#[from] io::Error),
    #[error("{}", said(.0))]
    Smtp(#[from] lettre::transport::smtp::Error),
}

/// Sends a message to everybody of the channel.
pub(crate) async fn send(
    dialer: &Dialer,
    channel: &Channel,
    email: &Email,
    message: &Message,
) -> SendOutcome {
    let written = match written(email, message) {
        Ok(written) => written,
        Err(error) => return SendOutcome::Refused(one_line(&error.to_string(), 200)),
    };
    let at = format!("{}:{}", email.host, email.port);
    let tried = match timeout(channel.timeout, deliver(dialer, channel, email, &written)).await {
        Err(_) => SendOutcome::failed(format!("no answer within {} s", channel.timeout.as_secs())),
        Ok(Err(problem)) => SendOutcome::failed(problem),
        Ok(Ok((tried, mut connection))) => {
            // The mail is taken or not; who is slow to say goodbye changes nothing about that.
            let _ = timeout(GOODBYE_TIMEOUT, connection.abort()).await;
            tried
        }
    };
    tried.map(|detail| format!("{at}: {detail}"))
}

async fn deliver(
    dialer: &Dialer,
    channel: &Channel,
    email: &Email,
    written: &[u8],
) -> Result<(SendOutcome, AsyncSmtpConnection), ConnectError> {
    let stream = dialer.tcp(&email.host, email.port, email.tls == MailTls::None).await?;
    let mut connection = open(dialer, channel, email, stream).await?;
    let tried = converse(&mut connection, email, written).await;
    Ok((tried, connection))
}

async fn open(
    dialer: &Dialer,
    channel: &Channel,
    email: &Email,
    stream: TcpStream,
) -> Result<AsyncSmtpConnection, ConnectError> {
    let peer = stream.peer_addr()?;
    let stream = Limited { stream, left: SAID_MAX };
    let hello = ClientId::Domain(email.from.email.domain().to_owned());
    let stream: Box<dyn AsyncTokioStream> = match email.tls {
        MailTls::Implicit => Box::new(MailStream { stream: dialer.tls(&email.host, stream).await?, peer }),
        MailTls::StartTls | MailTls::None => Box::new(MailStream { stream, peer }),
    };
    let mut connection = AsyncSmtpConnection::connect_with_transport(stream, &hello).await?;
    if email.tls == MailTls::StartTls {
        connection.starttls(tls(channel, email)?, &hello).await?;
    }
    if let Some((user, password)) = &email.login {
        let credentials = Credentials::new(user.clone(), password.expose_secret().to_owned());
        let mechanisms = [Mechanism::Plain, Mechanism::Login];
        connection.auth(&mechanisms, &credentials).await?;
    }
    Ok(connection)
}

fn tls(channel: &Channel, email: &Email) -> Result<TlsParameters, lettre::transport::smtp::Error> {
    let mut builder = TlsParameters::builder(email.host.clone());
    if !channel.ca.is_empty() {
        builder = builder.certificate_store(CertificateStore::None);
    }
    for certificate in &channel.ca {
        builder = builder.add_root_certificate(Certificate::from_der(certificate.to_vec())?);
    }
    builder.build()
}

/// Envelope and text. One address that is refused does not keep the others from being told.
async fn converse(connection: &mut AsyncSmtpConnection, email: &Email, written: &[u8]) -> SendOutcome {
    let from = Mail::new(Some(email.from.email.clone()), Vec::new());
    if let Err(error) = connection.command(from).await {
        return verdict(&error);
    }
    let (mut taken, mut refused) = (0, None);
    for Mailbox { email: address, .. } in &email.to {
        match connection.command(Rcpt::new(address.clone(), Vec::new())).await {
            Ok(_) => taken += 1,
            Err(error) if error.is_permanent() => refused = Some(said(&error)),
            Err(error) => return verdict(&error),
        }
    }
    if taken == 0 {
        return SendOutcome::failed(refused.unwrap_or_default());
    }
    let sent: Smtp = async {
        connection.command(Data).await?;
        connection.message(written).await?;
        Ok(())
    }
    .await;
    match (sent, refused) {
        (Err(error), _) => verdict(&error),
        (Ok(()), None) => SendOutcome::Delivered(format!("taken for {taken}")),
        (Ok(()), Some(refused)) => {
            SendOutcome::Delivered(format!("taken for {taken}; others were refused: {refused}"))
        }
    }
}

/// A 5xx is about this message, all else about the server.
fn verdict(error: &lettre::transport::smtp::Error) -> SendOutcome {
    if error.is_permanent() { SendOutcome::Refused(said(error)) } else { SendOutcome::failed(said(error)) }
}

fn said(error: &lettre::transport::smtp::Error) -> String {
    one_line(&error.to_string(), 200)
}

/// The mail as it is sent. The same message is the same mail, with the same id, however often it is sent.
pub(crate) fn written(email: &Email, message: &Message) -> Result<Vec<u8>, lettre::error::Error> {
    let mark = match message.severity {
        Severity::Critical => "[estop] STOP: ",
        Severity::Warning => "[estop] Warning: ",
        Severity::Info => "[estop] ",
    };
    let date = SystemTime::UNIX_EPOCH + Duration::from_millis(u64::try_from(message.at).unwrap_or(0));
    let mut builder = lettre::Message::builder()
        .from(email.from.clone())
        .subject(format!("{mark}{}", one_line(&message.title, 160)))
        .message_id(Some(format!("<{}@{}>", message.id, email.from.email.domain())))
        .date(date);
    for to in &email.to {
        builder = builder.to(to.clone());
    }
    let body = MultiPart::alternative_plain_html(message.text(), html_body(message));
    Ok(builder.multipart(body)?.formatted())
}

fn html_body(message: &Message) -> String {
    let mut rows = String::new();
    for Fact { label, text } in &message.facts {
        rows.push_str(&format!("<tr><th align=\"left\">{}</th><td>{}</td></tr>", html(label), html(text)));
    }
    let mut steps = String::new();
    for Step { say, command } in &message.steps {
        steps.push_str(&format!("<li>{}", html(say)));
        if !command.is_empty() {
            steps.push_str(&format!("<br><code>{}</code>", html(command)));
        }
        steps.push_str("</li>");
    }
    let link = message.link.as_deref().map(html);
    let link = link.map_or_else(String::new, |link| format!("<p><a href=\"{link}\">{link}</a></p>"));
    let todo =
        if steps.is_empty() { String::new() } else { format!("<p>What you can do:</p><ul>{steps}</ul>") };
    format!(
        "<!DOCTYPE html><html><body><h2>{}</h2><table cellpadding=\"4\">{rows}</table>{todo}{link}</body></html>",
        html(&message.title)
    )
}

/// A connection as lettre wants it.
#[derive(Debug)]
struct MailStream<S> {
    stream: S,
    peer: SocketAddr,
}

impl<S: AsyncRead + AsyncWrite + Send + Sync + Unpin + std::fmt::Debug> AsyncTokioStream for MailStream<S> {
    fn peer_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.peer)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for MailStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for MailStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

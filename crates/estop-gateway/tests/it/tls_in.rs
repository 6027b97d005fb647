//! Agents that connect by TLS, over HTTP/1.1 and HTTP/2, and HTTP/2 in the clear: the same answers, the same stops.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::sync::Arc;

use crate::common::{DIALECTS, Dialect, House, PATIENCE};
use bytes::Bytes;
use estop_core::system::KillReason;
use estop_core::system::button::Press;
use estop_fake_model::script::{Delay, Reply};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::{http1, http2};
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// How a client speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Speaks {
    OneByTls,
    TwoByTls,
    TwoInClear,
}

struct Tls {
    server: Arc<rustls::ServerConfig>,
    client: rustls::ClientConfig,
}

fn tls() -> Tls {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
    let certificate = made.cert.der().clone();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    let crypto = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut server = rustls::ServerConfig::builder_with_provider(Arc::clone(&crypto))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.clone()], key)
        .unwrap();
    server.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate).unwrap();
    let client = rustls::ClientConfig::builder_with_provider(crypto)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    Tls { server: Arc::new(server), client }
}

/// Sends one request; the answer's status and body, and whether the body came to its end.
async fn send(
    house: &House,
    speaks: Speaks,
    tls: &Tls,
    request: Request<Full<Bytes>>,
) -> (u16, String, bool) {
    let stream = TcpStream::connect(house.address()).await.unwrap();
    if speaks == Speaks::TwoInClear {
        return exchange(stream, true, request).await;
    }
    let mut config = tls.client.clone();
    let two = speaks == Speaks::TwoByTls;
    config.alpn_protocols = vec![if two { b"h2".to_vec() } else { b"http/1.1".to_vec() }];
    let name = ServerName::try_from("localhost").unwrap();
    let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol() == Some(b"h2"), two);
    exchange(stream, two, request).await
}

async fn exchange<S>(stream: S, two: bool, request: Request<Full<Bytes>>) -> (u16, String, bool)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let io = TokioIo::new(stream);
    let response = if two {
        let (mut sender, connection) = http2::handshake(TokioExecutor::new(), io).await.unwrap();
        tokio::spawn(connection);
        sender.send_request(request).await.unwrap()
    } else {
        let (mut sender, connection) = http1::handshake(io).await.unwrap();
        tokio::spawn(connection);
        sender.send_request(request).await.unwrap()
    };
    read(response).await
}

async fn read(mut response: Response<hyper::body::Incoming>) -> (u16, String, bool) {
    let status = response.status().as_u16();
    let mut body = Vec::new();
    while let Some(frame) = response.frame().await {
        match frame {
            Ok(frame) => body.extend_from_slice(frame.data_ref().map_or(&[], |data| data)),
            Err(_) => return (status, String::from_utf8_lossy(&body).into_owned(), false),
        }
    }
    (status, String::from_utf8_lossy(&body).into_owned(), true)
}

fn request(house: &House, speaks: Speaks, dialect: &Dialect, stream: bool) -> Request<Full<Bytes>> {
    let path = dialect.path("a", stream);
    let address = house.address();
    let body = Full::from(dialect.body("hello", stream));
    let builder = Request::post(match speaks {
        Speaks::OneByTls => path,
        Speaks::TwoByTls => format!("https://{address}{path}"),
        Speaks::TwoInClear => format!("http://{address}{path}"),
    });
    let builder = if speaks == Speaks::OneByTls { builder.header("host", "localhost") } else { builder };
    builder.body(body).unwrap()
}

fn each(check: &impl AsyncFn(&House, Speaks, &Tls, &Dialect)) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let tls = tls();
    for speaks in [Speaks::OneByTls, Speaks::TwoByTls, Speaks::TwoInClear] {
        for dialect in &DIALECTS {
            let house = House::build("{}", |settings| {
                settings.tls = (speaks != Speaks::TwoInClear).then(|| Arc::clone(&tls.server));
            });
            runtime.block_on(check(&house, speaks, &tls, dialect));
        }
    }
}

#[test]
fn id_6_the_same_bytes_come_by_tls_and_by_http_2() {
    each(&async |house, speaks, tls, dialect| {
        for stream in [false, true] {
            house.model.always(Reply { text: Some("The same words.".into()), ..Reply::default() });
            let (status, body, whole) =
                send(house, speaks, tls, request(house, speaks, dialect, stream)).await;
            assert_eq!((status, whole), (200, true), "{} {speaks:?}: {body}", dialect.name);
            assert!(body.contains("words"), "{} {speaks:?}: {body}", dialect.name);
        }
    });
}

#[test]
fn an_3_a_stream_by_tls_or_http_2_is_stopped_with_an_error_event() {
    each(&async |house, speaks, tls, dialect| {
        let delay = Delay { chunk_ms: 10, ..Delay::default() };
        house.model.always(Reply { endless: true, delay, ..Reply::default() });
        let engine = Arc::clone(house.engine());
        let press = tokio::task::spawn_blocking(move || {
            std::thread::sleep(std::time::Duration::from_millis(150));
            engine.kill(Press::new(KillReason::Manual, "test", "test"));
        });
        let (status, body, _) = send(house, speaks, tls, request(house, speaks, dialect, true)).await;
        press.await.unwrap();
        // On a loaded machine the button may come before the answer's head.
        assert!(status == 200 || (400..500).contains(&status), "{} {speaks:?}: {status}", dialect.name);
        assert!(body.contains("Stopped by estop"), "{} {speaks:?}: {body}", dialect.name);
        if house.model.requests() > 0 {
            assert!(house.model.wait_for_end(1, PATIENCE).is_some(), "{} {speaks:?}", dialect.name);
        }
    });
}

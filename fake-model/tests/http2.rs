//! HTTP/2, with prior knowledge and by ALPN, and its stream resets.

mod common;

use std::sync::Arc;

use bytes::Bytes;
use common::PATIENCE;
use estop_fake_model::{FakeModel, Options, Outcome};
use http::Request;
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reset_stream_is_noticed_while_its_connection_lives() {
    let model = FakeModel::start(Options::default()).expect("the model starts");
    let stream = TcpStream::connect(model.addr()).await.expect("the model listens");
    let mut client = connect(stream).await;

    let held = client.send_request(ask("fake-hold", false));
    assert!(
        tokio::time::timeout(PATIENCE / 100, held).await.is_err(),
        "no answer comes, and the wait is given up"
    );
    let seen = model.wait_for_end(1, PATIENCE).expect("it ended");
    assert_eq!((seen.outcome, seen.version.as_str()), (Outcome::Gone, "HTTP/2.0"));

    let mut endless = client.send_request(ask("fake-endless", true)).await.expect("headers");
    assert!(endless.body_mut().frame().await.is_some());
    drop(endless);
    assert_eq!(model.wait_for_end(2, PATIENCE).map(|seen| seen.outcome), Some(Outcome::Gone));

    let answer = client.send_request(ask("m", false)).await.expect("headers");
    assert_eq!(answer.status(), 200);
    assert!(answer.into_body().collect().await.is_ok());
    assert_eq!(model.wait_for_end(3, PATIENCE).map(|seen| seen.outcome), Some(Outcome::Completed));
    assert_eq!(model.connections().accepted, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tls_offers_http2_by_alpn() {
    let model = FakeModel::start(Options { tls: true, ..Options::default() }).expect("the model starts");
    let mut roots = rustls::RootCertStore::empty();
    let pem = model.certificate_pem().expect("a certificate");
    roots.add(CertificateDer::from_pem_slice(pem.as_bytes()).expect("PEM")).expect("a root");
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let mut config = config.expect("versions").with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let stream = TcpStream::connect(model.addr()).await.expect("the model listens");
    let name = ServerName::try_from("localhost").expect("a name");
    let stream = tokio_rustls::TlsConnector::from(Arc::new(config)).connect(name, stream).await.expect("TLS");
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(b"h2".as_slice()));
    let answer = connect(stream).await.send_request(ask("m", false)).await.expect("headers");
    assert_eq!(answer.status(), 200);
    assert!(model.url().starts_with("https://"));
}

async fn connect<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    stream: S,
) -> http2::SendRequest<Full<Bytes>> {
    let (client, connection) =
        http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.expect("HTTP/2");
    drop(tokio::spawn(connection));
    client
}

fn ask(model: &str, stream: bool) -> Request<Full<Bytes>> {
    let body = serde_json::json!({"model": model, "stream": stream, "messages": []}).to_string();
    let request = Request::post("http://localhost/v1/chat/completions");
    request.body(Full::from(body)).expect("a request")
}

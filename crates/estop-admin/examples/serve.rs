//! Serves the API over an estop without traffic, for tools that check it from outside:
//! `cargo run -p estop-admin --example serve`, then `schemathesis run http://127.0.0.1:4199/api/openapi.json`.

#[path = "../tests/api/support/mod.rs"]
#[allow(dead_code, reason = "tests use more of it")]
mod support;

use std::net::SocketAddr;
use std::sync::Arc;

use axum::extract::Request;
use axum::middleware::map_request;
use serde_json::json;

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::io::Result<()> {
    let plane = Arc::new(support::Plane::with_agents(3).await);
    plane.post("/api/runs", json!({"agent": "a0", "run": "one"})).await.expect(201);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:4199").await?;
    println!("{}", plane.token);
    // Every request comes a minute after the one before: whoever tries wrong tokens on purpose need not wait.
    let router = plane.router.clone().layer(map_request(move |request: Request| {
        plane.pass_ms(60_000);
        std::future::ready(request)
    }));
    axum::serve(listener, router.into_make_service_with_connect_info::<SocketAddr>()).await
}

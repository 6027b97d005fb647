//! Which channel a request is for, by its path.

use http::Response;

use crate::body::inbound::Inbound;
use crate::body::response_body::ResponseBody;
use crate::channels::llm;
use crate::channels::mcp;
use crate::channels::relay;
use crate::emergency_stop::connection::Busy;
use crate::exchange::exchange;
use crate::exchange::worker::Worker;

/// Serves one request.
pub(crate) async fn serve(worker: &Worker, inbound: Inbound, busy: Busy) -> Response<ResponseBody> {
    // Each has room of its own: requests to models would carry it.
    if relay::is_relays(inbound.head.uri.path()) {
        return Box::pin(exchange::serve::<relay::Message>(worker, inbound, busy)).await;
    }
    if mcp::is_mcps(inbound.head.uri.path()) {
        return Box::pin(exchange::serve::<mcp::McpRequest>(worker, inbound, busy)).await;
    }
    exchange::serve::<llm::LlmRequest>(worker, inbound, busy).await
}

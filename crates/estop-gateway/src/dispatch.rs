//! Which channel a request is for, by its path.

use http::Response;

use crate::connection::Busy;
use crate::inbound::Inbound;
use crate::mcp;
use crate::pipeline;
use crate::relay;
use crate::response_body::ResponseBody;
use crate::worker::Worker;

/// Serves one request.
pub(crate) async fn serve(worker: &Worker, inbound: Inbound, busy: Busy) -> Response<ResponseBody> {
    // Each has room of its own: requests to models would carry it.
    if relay::is_relays(inbound.head.uri.path()) {
        return Box::pin(relay::serve(worker, inbound, busy)).await;
    }
    if mcp::is_mcps(inbound.head.uri.path()) {
        return Box::pin(mcp::serve(worker, inbound, busy)).await;
    }
    pipeline::serve(worker, inbound, busy).await
}

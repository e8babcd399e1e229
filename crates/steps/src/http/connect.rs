//! The gate at the connection: asked once it stands, before the first byte.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tower::{BoxError, Layer, Service};

use super::send_state::SENDING;
use crate::failpoint::failpoint;
use crate::gate::SendGate;

/// Wraps the connector of a client.
#[derive(Clone)]
pub(super) struct GateLayer {
    gate: Arc<dyn SendGate>,
}

impl GateLayer {
    pub(super) fn new(gate: Arc<dyn SendGate>) -> Self {
        Self { gate }
    }
}

impl<S> Layer<S> for GateLayer {
    type Service = GatedConnect<S>;

    fn layer(&self, inner: S) -> GatedConnect<S> {
        GatedConnect {
            inner,
            gate: self.gate.clone(),
        }
    }
}

/// A connector that gives up a new connection when the lease ran out meanwhile.
#[derive(Clone)]
pub(super) struct GatedConnect<S> {
    inner: S,
    gate: Arc<dyn SendGate>,
}

impl<S, R> Service<R> for GatedConnect<S>
where
    S: Service<R, Error = BoxError>,
    S::Future: Send + 'static,
    S::Response: Send,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: R) -> Self::Future {
        let connecting = self.inner.call(request);
        let gate = self.gate.clone();
        let sending_state = SENDING.try_with(Arc::clone).ok();
        Box::pin(async move {
            let connection = connecting.await?;
            failpoint("send.connected", "").await;
            if !gate.is_open() {
                return Err("the lease ran out before anything was sent".into());
            }
            match sending_state.is_none_or(|sending_state| sending_state.connected()) {
                true => Ok(connection),
                false => Err("it took too long, and nothing was sent".into()),
            }
        })
    }
}

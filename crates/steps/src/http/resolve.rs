//! Names are resolved by [`Egress`], and connections go to the addresses that it checked.
//!
//! The HTTP client asks for a name's addresses only where it needs a new connection, and connects
//! to what it is given: there is no second lookup that could answer otherwise.

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::vec;

use hyper_util::client::legacy::connect::dns::Name;
use semel_model::Fault;
use tower::{BoxError, Service};

use super::send_state::SENDING;
use crate::egress::Egress;

/// Resolves names for the HTTP clients of one namespace.
#[derive(Clone)]
pub(super) struct Checked {
    egress: Arc<Egress>,
    namespace_id: i32,
}

/// An address must not be connected to, or is not known. Nothing was sent.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.message)]
pub(super) struct AddressRefused(pub(super) Fault);

impl Checked {
    pub(super) fn new(egress: Arc<Egress>, namespace_id: i32) -> Self {
        Self {
            egress,
            namespace_id,
        }
    }
}

impl Service<Name> for Checked {
    type Response = vec::IntoIter<SocketAddr>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let (egress, namespace_id) = (self.egress.clone(), self.namespace_id);
        let port = SENDING.try_with(|sending_state| sending_state.port);
        Box::pin(async move {
            let host = name.as_str();
            let proxy = egress.proxy();
            if proxy.and_then(|proxy| proxy.host_str()) == Some(host) {
                let found = tokio::net::lookup_host((host, 0)).await?;
                return Ok(found.collect::<Vec<_>>().into_iter());
            }
            let port = port.map_err(|_| "a connection that no request asked for")?;
            let addresses = egress.resolve(namespace_id, host, port).await;
            Ok(addresses.map_err(AddressRefused)?.into_iter())
        })
    }
}

//! Egress: which addresses Semel may speak to.
//!
//! A flow's author must not reach what only this machine or its network can reach. Names are
//! resolved once, every address is checked, and the connection is made to a checked address.

use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;
use semel_model::Fault;

/// Which addresses Semel may speak to.
#[derive(Clone, Debug, Default)]
pub struct Egress {
    /// Special ranges that the operator opened.
    allowed: Vec<IpNet>,
}

impl Egress {
    /// Public addresses, and those special ranges that the operator opened.
    #[must_use]
    pub fn new(allowed: Vec<IpNet>) -> Self {
        Self { allowed }
    }

    /// Whether an address may be spoken to.
    #[must_use]
    pub fn admits(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.allowed.iter().any(|net| net.contains(&address)) || !is_special(address)
    }

    /// Resolves a host once and checks every address that it has.
    ///
    /// # Errors
    ///
    /// Where it has none, or one of them must not be spoken to. Nothing was sent in either case.
    pub async fn resolve(&self, host: &str, port: u16) -> Result<Vec<SocketAddr>, Fault> {
        let found = tokio::net::lookup_host((host, port)).await;
        let addresses: Vec<SocketAddr> = match found {
            Ok(found) => found.collect(),
            Err(error) => {
                return Err(Fault::passing("no-connection", format!("{host}: {error}")));
            }
        };
        if addresses.is_empty() {
            return Err(Fault::passing(
                "no-connection",
                format!("{host} has no address"),
            ));
        }
        match addresses.iter().find(|address| !self.admits(address.ip())) {
            Some(_) => Err(refused(host)),
            None => Ok(addresses),
        }
    }
}

/// The destination is at an address that must not be spoken to. The address itself is not told:
/// whoever probes a network from inside a flow learns nothing.
#[must_use]
pub fn refused(host: &str) -> Fault {
    let message = format!(
        "{host} is at an address that flows may not reach; an operator can open it with `serve.allow_private`"
    );
    Fault::permanent("address-refused", message)
}

fn is_special(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => {
            v4.is_loopback() || v4.is_private() || v4.is_link_local() || v4.is_unspecified()
        }
        IpAddr::V6(v6) => v6.is_loopback() || v6.is_unspecified() || v6.is_unique_local(),
    }
}

//! Ports for servers that have to be told where to listen.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};

use anyhow::Result;

/// A loopback address that no process listens on now. Another might a moment later; the system
/// gives out ports of one range and does not repeat them soon.
pub fn free_address() -> Result<SocketAddr> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?)
}

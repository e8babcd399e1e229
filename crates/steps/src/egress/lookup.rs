//! Looking names up.

use std::io;
use std::net::IpAddr;

use futures_util::future::BoxFuture;

/// Whoever knows the addresses of names.
pub trait Lookup: Send + Sync + 'static {
    /// Every address of a name, asked anew each time.
    fn lookup(&self, name: &str) -> BoxFuture<'static, io::Result<Vec<IpAddr>>>;
}

/// The system's way: its hosts file, then its name servers.
#[derive(Clone, Copy, Debug)]
pub struct System;

impl Lookup for System {
    fn lookup(&self, name: &str) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        let name = name.to_owned();
        Box::pin(async move {
            let found = tokio::net::lookup_host((name, 0)).await?;
            Ok(found.map(|address| address.ip()).collect())
        })
    }
}

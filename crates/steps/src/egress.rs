//! Egress: which addresses Semel may connect to.
//!
//! A flow's author must not reach what only this machine or its network can reach. A name is looked
//! up once, every address that it has is checked, and the connection is made to a checked address:
//! a name server that would answer a second lookup with another address is not asked a second time.
//!
//! ```text
//! literal or name ─▶ allow-list of hosts ─▶ lookup ─▶ own address? ─▶ special range? ─▶ connect
//!                                                     refused         refused, unless opened
//! ```
//!
//! What the operator opens (`serve.allow_private`) are ranges. The engine's own database and its
//! own listener stay closed in an opened range, because an operator rarely thinks of them when
//! opening one; only an entry for that very address (`127.0.0.1/32`) opens them, which is said on
//! purpose.
//!
//! A Unix socket has no address. It is refused unless the operator names its folder
//! (`serve.allow_sockets`), and a database says who it is before a flow may use it: see `databases`.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};

use ipnet::IpNet;
use semel_model::{DatabaseIdentity, Fault, FaultKind};
use url::{Host, Url};

mod databases;
mod lookup;
mod machine;
mod proxy;
mod special;

pub(crate) use databases::own_database;
pub use lookup::{Lookup, System};
pub use proxy::HttpProxy;

/// How many addresses of its own an engine keeps closed.
const OWN_MAX: usize = 256;

/// Which addresses Semel may connect to. By default: public ones.
#[derive(Clone)]
pub struct Egress {
    allowed: Vec<IpNet>,
    /// Clones share them: what is closed later is closed for all.
    own: Arc<RwLock<Vec<SocketAddr>>>,
    /// The engine's own databases, shared by clones as `own` is. Empty: not known.
    databases: Arc<RwLock<Vec<DatabaseIdentity>>>,
    /// Folders whose Unix sockets may be used.
    sockets: Vec<PathBuf>,
    hosts: Option<Vec<String>>,
    proxy: Option<HttpProxy>,
    lookup: Arc<dyn Lookup>,
}

impl Default for Egress {
    fn default() -> Self {
        Self::new(Vec::new())
    }
}

impl fmt::Debug for Egress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Egress")
            .field("allowed", &self.allowed)
            .field("own", &self.own)
            .field("databases", &self.databases)
            .field("sockets", &self.sockets)
            .field("hosts", &self.hosts)
            .field("proxy", &self.proxy)
            .finish_non_exhaustive()
    }
}

impl Egress {
    /// Public addresses, and those special ranges that the operator opened.
    #[must_use]
    pub fn new(allowed: Vec<IpNet>) -> Self {
        Self {
            allowed,
            own: Arc::default(),
            databases: Arc::default(),
            sockets: Vec::new(),
            hosts: None,
            proxy: None,
            lookup: Arc::new(System::default()),
        }
    }

    /// Every address there is: for tests and rehearsals, whose destinations are on this machine.
    #[must_use]
    pub fn open() -> Self {
        let everything = [IpAddr::from([0; 4]), IpAddr::from([0; 16])];
        Self::new(everything.map(|zero| IpNet::new_assert(zero, 0)).to_vec())
    }

    /// Closes the engine's own addresses: its database and its listeners. One that is on this machine
    /// closes its port on every address of the machine.
    #[must_use]
    pub fn without(self, own: impl IntoIterator<Item = SocketAddr>) -> Self {
        self.close(own);
        self
    }

    /// Closes further addresses of the engine's own, here and in every clone: after a failover its
    /// database is elsewhere.
    pub fn close(&self, own: impl IntoIterator<Item = SocketAddr>) {
        let mut closed = self.own.write().unwrap_or_else(PoisonError::into_inner);
        for address in own {
            if !closed.contains(&address) {
                closed.push(address);
            }
        }
        // Of a name that leads somewhere else each time, the latest count.
        let surplus = closed.len().saturating_sub(OWN_MAX);
        closed.drain(..surplus);
    }

    /// Only these hosts, and what stands below those that begin with `*.`.
    #[must_use]
    pub fn only(mut self, hosts: impl IntoIterator<Item = String>) -> Self {
        let hosts = hosts.into_iter().map(|host| host.to_ascii_lowercase());
        self.hosts = Some(hosts.collect());
        self
    }

    /// Sends every HTTP request through this proxy. Names are the proxy's to look up then, so the
    /// proxy is what keeps them off a private network; literal addresses and the allow-list of
    /// hosts are still checked here. What is not HTTP goes direct, checked as ever.
    #[must_use]
    pub fn through(mut self, proxy: HttpProxy) -> Self {
        self.proxy = Some(proxy);
        self
    }

    /// Looks names up in another way than the system's.
    #[must_use]
    pub fn looking_up(mut self, lookup: Arc<dyn Lookup>) -> Self {
        self.lookup = lookup;
        self
    }

    /// The proxy for HTTP, where there is one.
    #[must_use]
    pub fn proxy(&self) -> Option<&Url> {
        self.proxy.as_ref().map(|HttpProxy(url)| url)
    }

    /// Whether an address may be connected to.
    #[must_use]
    pub fn admits(&self, address: SocketAddr) -> bool {
        self.is_own(address).is_ok_and(|is_own| !is_own) && self.admits_ip(address.ip())
    }

    /// Refuses an address for good, or for now where the system cannot be asked whose it is.
    fn check_address(&self, host: &str, address: SocketAddr) -> Result<(), Fault> {
        if !self.admits_ip(address.ip()) {
            return Err(refused(host));
        }
        match self.is_own(address) {
            Ok(false) => Ok(()),
            Ok(true) => Err(refused_own(host)),
            Err(error) => Err(unchecked(host, &error)),
        }
    }

    /// Resolves a host once and checks every address that it has. A host may be a name or an
    /// address in any spelling that URLs know (`127.1`, `0x7f000001`, `[::1]`). The lookup is one of
    /// the namespace's share.
    ///
    /// # Errors
    ///
    /// If it has none, or one of them must not be connected to. Nothing was sent in either case.
    pub async fn resolve(
        &self,
        namespace_id: i32,
        host: &str,
        port: u16,
    ) -> Result<Vec<SocketAddr>, Fault> {
        let known = self.check_host(host, port)?;
        let name = match known {
            Known::Address(address) => return Ok(vec![address]),
            Known::Name(name) => name,
        };
        let absent = |why: &str| Fault::passing("no-connection", format!("{name}: {why}"));
        let found = self.lookup.lookup(namespace_id, &name).await;
        let found = found.map_err(|error| absent(&error.to_string()))?;
        let addresses: Vec<SocketAddr> = found
            .into_iter()
            .map(|ip| SocketAddr::new(ip, port))
            .collect();
        if addresses.is_empty() {
            return Err(absent("no address"));
        }
        // One bad address among good ones is refused with them: which one would be connected to is
        // the network's choice.
        for address in &addresses {
            self.check_address(host, *address)?;
        }
        Ok(addresses)
    }

    /// Checks what can be checked without asking anyone: the spelling, the allow-list of hosts,
    /// and an address that stands there literally.
    ///
    /// # Errors
    ///
    /// If nothing may be sent there.
    pub fn check_host(&self, host: &str, port: u16) -> Result<Known, Fault> {
        let known = read_host(host, port)?;
        if let Some(hosts) = &self.hosts
            && !hosts.iter().any(|pattern| pattern_fits(pattern, &known))
        {
            return Err(unlisted(host));
        }
        if let Known::Address(address) = &known {
            self.check_address(host, *address)?;
        }
        Ok(known)
    }

    fn admits_ip(&self, ip: IpAddr) -> bool {
        let opened = self.allowed.iter().any(|net| net.contains(&ip))
            || semel_model::SeededBug::EgressUnchecked.is_seeded();
        // An IPv4 address in IPv6 clothes is where the packets end: it has to be fit as well.
        let inside = special::embedded(ip);
        (opened || !special::is_special(ip)) && inside.is_none_or(|inside| self.admits_ip(inside))
    }

    /// A program that listens on one address of this machine mostly listens on all of them, so the
    /// whole machine is closed with it.
    fn is_own(&self, address: SocketAddr) -> io::Result<bool> {
        let ip = address.ip().to_canonical();
        if self.opens_by_name(ip) {
            return Ok(false);
        }
        let closed = self.own.read().unwrap_or_else(PoisonError::into_inner);
        let same_port = closed.iter().filter(|own| own.port() == address.port());
        for own in same_port.map(|own| own.ip().to_canonical()) {
            if own == ip || (machine::has(own)? && machine::has(ip)?) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether the operator opened this very address.
    fn opens_by_name(&self, ip: IpAddr) -> bool {
        let by_name = |net: &IpNet| net.prefix_len() == net.max_prefix_len() && net.addr() == ip;
        self.allowed.iter().any(by_name)
    }
}

/// What a host's text says by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Known {
    /// An address, written out.
    Address(SocketAddr),
    /// A name that has to be looked up, in lower case and ASCII.
    Name(String),
}

/// The destination is at an address that Semel must not connect to. The address itself is not
/// shown: an author who probes a network from inside a flow learns nothing.
#[must_use]
pub fn refused(host: &str) -> Fault {
    let message = format!(
        "{host} is at an address that flows may not reach; an operator can open it with `serve.allow_private`. See \
         `semel explain address-refused`"
    );
    Fault::permanent("address-refused", message)
}

/// The destination is at a port of the engine itself or of its database, in a range that is open.
fn refused_own(host: &str) -> Fault {
    let message = format!(
        "{host} is at a port of Semel or of its database, which a range in `serve.allow_private` does not open. An \
         operator who means another program or database there names its very address, as ADDRESS/32 (ADDRESS/128 \
         for IPv6). See `semel explain address-refused`"
    );
    Fault::permanent("address-refused", message)
}

/// Nobody could say whether the address is this machine's own. Nothing was sent.
fn unchecked(host: &str, error: &io::Error) -> Fault {
    let message = format!("{host} could not be checked by this server: {error}");
    Fault::passing("no-connection", message).of(FaultKind::Ours)
}

fn unlisted(host: &str) -> Fault {
    let message = format!("{host} is not on the list of hosts that flows may reach");
    Fault::permanent("address-refused", message)
}

fn read_host(host: &str, port: u16) -> Result<Known, Fault> {
    let bare = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'));
    if let Ok(ip) = bare.unwrap_or(host).parse::<IpAddr>() {
        return Ok(Known::Address(SocketAddr::new(ip, port)));
    }
    match Host::parse(host) {
        Ok(Host::Ipv4(ip)) => Ok(Known::Address(SocketAddr::new(ip.into(), port))),
        Ok(Host::Ipv6(ip)) => Ok(Known::Address(SocketAddr::new(ip.into(), port))),
        Ok(Host::Domain(name)) if !name.is_empty() => Ok(Known::Name(name)),
        Ok(Host::Domain(_)) | Err(_) => {
            let message = format!("{host:?} is neither a host name nor an address");
            Err(Fault::permanent("bad-request", message))
        }
    }
}

fn pattern_fits(pattern: &str, known: &Known) -> bool {
    let name = match known {
        Known::Address(address) => address.ip().to_string(),
        Known::Name(name) => name.trim_end_matches('.').to_owned(),
    };
    match pattern.strip_prefix('*') {
        Some(below) => name.len() > below.len() && name.ends_with(below) && below.starts_with('.'),
        None => name == pattern,
    }
}

#[cfg(test)]
mod tests;

//! Which addresses are this machine's own.
//!
//! The system is asked of one address at a time, and nothing is sent. A list of interfaces would be
//! old when an address is added, and would miss ranges that are routed to the machine as a whole.
//!
//! A process without descriptors or memory for a socket gets no answer. That is no *no*.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use rustix::io::Errno;

/// Addresses that no machine has. Where they can be bound to, so can all
/// (`net.ipv4.ip_nonlocal_bind`).
const NOBODYS: (Ipv4Addr, Ipv6Addr) = (
    Ipv4Addr::new(240, 0, 0, 1),
    Ipv6Addr::new(0x100, 0, 0, 0, 0, 0, 0, 1),
);

/// The port of a socket that is connected and sends nothing.
const ANY_PORT: u16 = 9;

/// The shortages of a process or a system that keep it from making a socket.
const SHORTAGES: [Errno; 4] = [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM];

/// Whether packets to an address stay on this machine.
///
/// # Errors
///
/// If the system cannot be asked now.
pub(super) fn has(ip: IpAddr) -> io::Result<bool> {
    Ok(ip.is_unspecified()
        || ip.is_loopback()
        || (binds(ip)? && (!binds(nobodys(ip))? || sends_from(ip)?)))
}

/// Whether a socket may have the address: the system refuses those of others.
fn binds(ip: IpAddr) -> io::Result<bool> {
    answer(UdpSocket::bind(SocketAddr::new(ip, 0)).map(|_| true))
}

/// Whether the system would send from the address to itself.
fn sends_from(ip: IpAddr) -> io::Result<bool> {
    let any = match ip {
        IpAddr::V4(_) => IpAddr::from(Ipv4Addr::UNSPECIFIED),
        IpAddr::V6(_) => IpAddr::from(Ipv6Addr::UNSPECIFIED),
    };
    let source = UdpSocket::bind(SocketAddr::new(any, 0)).and_then(|socket| {
        socket.connect(SocketAddr::new(ip, ANY_PORT))?;
        socket.local_addr()
    });
    answer(source.map(|source| source.ip() == ip))
}

/// An error is a *no*, unless nobody could be asked.
fn answer(asked: io::Result<bool>) -> io::Result<bool> {
    match asked {
        Err(error) if is_shortage(&error) => Err(error),
        Err(_) => Ok(false),
        Ok(answer) => Ok(answer),
    }
}

fn is_shortage(error: &io::Error) -> bool {
    let code = error.raw_os_error();
    SHORTAGES.iter().any(|it| Some(it.raw_os_error()) == code)
}

fn nobodys(like: IpAddr) -> IpAddr {
    match like {
        IpAddr::V4(_) => NOBODYS.0.into(),
        IpAddr::V6(_) => NOBODYS.1.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_a_no_unless_the_process_has_nothing_to_ask_with() {
        let said = |code: Errno| answer(Err(io::Error::from_raw_os_error(code.raw_os_error())));

        assert!(!said(Errno::ADDRNOTAVAIL).unwrap(), "it is of others");
        assert!(!said(Errno::NETUNREACH).unwrap());
        for shortage in SHORTAGES {
            assert!(said(shortage).is_err(), "{shortage:?}");
        }
    }
}

//! Which addresses are admitted, at the edges of every range.

use std::io;

use futures_util::future::BoxFuture;

use super::*;

fn admits(egress: &Egress, address: &str) -> bool {
    egress.admits(SocketAddr::new(address.parse().unwrap(), 443))
}

fn opened(ranges: &[&str]) -> Egress {
    Egress::new(ranges.iter().map(|range| range.parse().unwrap()).collect())
}

struct Fixed(Vec<IpAddr>);

impl Lookup for Fixed {
    fn lookup(&self, _: i32, _: &str) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        let found = self.0.clone();
        Box::pin(async move { Ok(found) })
    }
}

#[test]
fn the_edges_of_every_special_range_are_refused_and_their_neighbours_are_not() {
    let egress = Egress::default();
    let edges = [
        ("0.0.0.0", "0.255.255.255", "1.0.0.0"),
        ("10.0.0.0", "10.255.255.255", "11.0.0.0"),
        ("100.64.0.0", "100.127.255.255", "100.128.0.0"),
        ("127.0.0.0", "127.255.255.255", "128.0.0.0"),
        ("169.254.0.0", "169.254.255.255", "169.255.0.0"),
        ("172.16.0.0", "172.31.255.255", "172.32.0.0"),
        ("192.0.0.0", "192.0.0.255", "192.0.1.0"),
        ("192.0.2.0", "192.0.2.255", "192.0.3.0"),
        ("192.88.99.0", "192.88.99.255", "192.88.100.0"),
        ("192.168.0.0", "192.168.255.255", "192.169.0.0"),
        ("198.18.0.0", "198.19.255.255", "198.20.0.0"),
        ("198.51.100.0", "198.51.100.255", "198.51.101.0"),
        ("203.0.113.0", "203.0.113.255", "203.0.114.0"),
        ("168.63.129.16", "168.63.129.16", "168.63.129.17"),
        ("224.0.0.0", "255.255.255.255", "223.255.255.255"),
        ("::", "1fff:ffff::", "2600::"),
        ("64:ff9b::808:808", "64:ff9b:1::", "2a00::1"),
        ("2001::", "2001:1ff:ffff::", "2001:200::"),
        ("2001:db8::", "2001:db8:ffff::", "2001:db9::"),
        ("2002::", "2002:ffff::", "2003::"),
        ("3fff::", "3fff:fff::", "3fff:1000::"),
        ("fc00::", "fe80::1", "2c0f::1"),
        ("ff02::1", "::ffff:8.8.8.8", "2620::1"),
    ];

    for (first, last, public) in edges {
        assert!(!admits(&egress, first), "{first} is special");
        assert!(!admits(&egress, last), "{last} is special");
        assert!(admits(&egress, public), "{public} is public");
    }
}

#[test]
fn an_opened_range_of_ipv6_does_not_open_the_ipv4_inside_it() {
    let egress = opened(&["64:ff9b::/96", "2002::/16", "2001::/32"]);

    assert!(admits(&egress, "64:ff9b::8.8.8.8"));
    assert!(!admits(&egress, "64:ff9b::127.0.0.1"));
    assert!(admits(&egress, "2002:808:808::1"));
    assert!(!admits(&egress, "2002:7f00:1::1"));
    assert!(!admits(&egress, "2001:0:0:0:0:0:80ff:fffe"), "Teredo");
}

#[test]
fn an_own_address_stays_closed_in_an_opened_range() {
    let own = [
        "127.0.0.1:5432".parse().unwrap(),
        "[::]:8080".parse().unwrap(),
    ];
    let range = opened(&["127.0.0.0/8"]).without(own);
    let named = opened(&["127.0.0.1/32"]).without(own);
    let ask = |egress: &Egress, address: &str| egress.admits(address.parse().unwrap());

    assert!(!ask(&range, "127.0.0.1:5432"));
    assert!(!ask(&range, "127.0.0.9:8080"), "it listens on all of them");
    assert!(ask(&range, "127.0.0.1:9000"));
    assert!(ask(&named, "127.0.0.1:5432"), "said on purpose");
}

#[tokio::test]
async fn an_address_is_read_in_every_spelling() {
    let egress = Egress::default();
    let spellings = [
        "127.0.0.1",
        "127.1",
        "0x7f.1",
        "0177.0.0.1",
        "2130706433",
        "0x7f000001",
        "127.0.0.1.",
        "[::1]",
        "::1",
        "::ffff:127.0.0.1",
        "１２７.0.0.1",
        "%31%32%37.0.0.1",
        "0",
        "[::]",
    ];

    for host in spellings {
        let fault = egress.resolve(7, host, 80).await.expect_err(host);
        assert_eq!(fault.code, "address-refused", "{host}");
    }
    for host in ["", "a b", "fe80::1%eth0", "a/b", "a:b@c", "[::1"] {
        let fault = egress.resolve(7, host, 80).await.expect_err(host);
        assert_eq!(fault.code, "bad-request", "{host}");
    }
}

#[tokio::test]
async fn one_bad_address_among_good_ones_is_refused() {
    let found = ["8.8.8.8", "10.0.0.1", "2600::1"].map(|ip| ip.parse().unwrap());
    let mixed = Egress::default().looking_up(Arc::new(Fixed(found.to_vec())));
    let good = Egress::default().looking_up(Arc::new(Fixed(vec![found[0], found[2]])));

    assert_eq!(
        mixed.resolve(7, "a.example", 1).await.unwrap_err().code,
        "address-refused"
    );
    assert_eq!(good.resolve(7, "a.example", 1).await.unwrap().len(), 2);
}

#[tokio::test]
async fn a_list_of_hosts_admits_those_and_no_other() {
    let hosts = ["api.example", "*.books.example"].map(str::to_owned);
    let public = Arc::new(Fixed(vec!["8.8.8.8".parse().unwrap()]));
    let egress = Egress::default().only(hosts).looking_up(public);

    for host in [
        "api.example",
        "API.example",
        "api.example.",
        "eu.books.example",
    ] {
        assert!(egress.resolve(7, host, 443).await.is_ok(), "{host}");
    }
    for host in [
        "example",
        "notapi.example",
        "books.example",
        "xbooks.example",
        "8.8.8.8",
    ] {
        assert!(egress.resolve(7, host, 443).await.is_err(), "{host}");
    }
}

#[test]
fn an_address_that_becomes_our_own_is_closed_in_every_clone() {
    let egress = Egress::open().without(["10.0.0.1:5432".parse().unwrap()]);
    let clone = egress.clone();
    let moved: SocketAddr = "10.0.0.2:5432".parse().unwrap();
    let before = clone.admits(moved);

    egress.close([moved]);

    assert!(before);
    assert!(!clone.admits(moved));
    assert!(!clone.admits("10.0.0.1:5432".parse().unwrap()));
}

#[test]
fn an_own_port_is_closed_on_every_address_of_this_machine() {
    let own: [SocketAddr; 3] =
        ["0.0.0.0:7172", "[::]:7173", "127.0.0.1:5432"].map(|own| own.parse().unwrap());
    let egress = Egress::open().without(own);
    let mut here: Vec<IpAddr> = [
        "127.0.0.1",
        "127.0.0.9",
        "0.0.0.0",
        "::1",
        "::ffff:127.0.0.1",
    ]
    .map(|ip| ip.parse().unwrap())
    .to_vec();
    // A machine without a network has no further address.
    here.extend(outward());

    for ip in here {
        for port in [7172, 7173, 5432] {
            assert!(!egress.admits(SocketAddr::new(ip, port)), "{ip} {port}");
        }
        assert!(egress.admits(SocketAddr::new(ip, 9000)), "{ip}");
    }
    assert!(egress.admits("203.0.113.7:7172".parse().unwrap()));
}

/// The address that this machine sends from.
fn outward() -> Option<IpAddr> {
    let socket = std::net::UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect("203.0.113.7:9").ok()?;
    Some(socket.local_addr().ok()?.ip())
}

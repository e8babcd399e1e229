//! Networks that a token may be used from.
//!
//! An address of IPv4 counts as such, whatever socket it reaches the server through: one that is written
//! as an address of IPv6 (`::ffff:10.0.0.1`) is the same address.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use ipnet::{IpNet, Ipv4Net};
use serde::{Deserialize, Serialize};

/// The length of the prefix that addresses of IPv4 have among those of IPv6.
const MAPPED_PREFIX: u8 = 96;

/// Why a text names no network that a token can have. Each says what to write.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum NetworkError {
    /// It is neither a network nor an address.
    #[error(
        "a network is an address and the length of its prefix: write 10.0.0.0/8 or 2001:db8::/32, \
         or one address"
    )]
    Malformed,
    /// The address has bits behind the prefix.
    #[error("the address is inside a network: write {network} for all of it, or {address} alone")]
    Inside {
        /// The network that it is in.
        network: IpNet,
        /// The address.
        address: IpAddr,
    },
    /// Every address is in it.
    #[error("/0 is every address: leave the networks out for a token that works from anywhere")]
    Everything,
    /// It has addresses of IPv4 as addresses of IPv6.
    #[error("an address of IPv4 counts as such: write {0}")]
    Mapped(IpNet),
}

/// A network: addresses that begin with the same bits. Reads as CIDR; one address is a network too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Network(IpNet);

impl Network {
    /// The unspecified address is nobody's, and in no network.
    fn contains(self, address: IpAddr) -> bool {
        !address.is_unspecified() && self.0.contains(&address.to_canonical())
    }
}

impl FromStr for Network {
    type Err = NetworkError;

    fn from_str(text: &str) -> Result<Self, NetworkError> {
        let network = read(text).ok_or(NetworkError::Malformed)?;
        if network.prefix_len() == 0 {
            return Err(NetworkError::Everything);
        }
        if let Some(network) = unmapped(network) {
            return Err(NetworkError::Mapped(network));
        }
        match network == network.trunc() {
            true => Ok(Self(network)),
            false => Err(NetworkError::Inside {
                network: network.trunc(),
                address: network.addr(),
            }),
        }
    }
}

/// Reads strictly: a leading zero means octal to some programs.
fn read(text: &str) -> Option<IpNet> {
    let Some((address, length)) = text.split_once('/') else {
        return Some(IpNet::from(text.parse::<IpAddr>().ok()?));
    };
    let is_plain = !length.starts_with(['0', '+']) || length == "0";
    let length = length.parse().ok().filter(|_| is_plain)?;
    IpNet::new(address.parse().ok()?, length).ok()
}

/// The network of IPv4 that is written as one of IPv6, where it is.
fn unmapped(network: IpNet) -> Option<IpNet> {
    let IpNet::V6(mapped) = network else {
        return None;
    };
    let length = mapped.prefix_len().checked_sub(MAPPED_PREFIX)?;
    let address = mapped.addr().to_ipv4_mapped()?;
    let network = Ipv4Net::new(address, length).ok()?;
    Some(IpNet::V4(network.trunc()))
}

impl TryFrom<String> for Network {
    type Error = NetworkError;

    fn try_from(text: String) -> Result<Self, NetworkError> {
        text.parse()
    }
}

impl From<Network> for String {
    fn from(network: Network) -> Self {
        network.to_string()
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The networks that a token may be used from, each once and in order. None listed is anywhere.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<Network>", into = "Vec<Network>")]
pub struct Networks(Vec<Network>);

impl Networks {
    /// Takes words as the store keeps them. A word that names no network is an error, and is not left out:
    /// fewer networks could mean more addresses.
    ///
    /// # Errors
    ///
    /// Where a word is no CIDR.
    pub fn of_words<'a>(words: impl IntoIterator<Item = &'a str>) -> Result<Self, NetworkError> {
        let read = |word: &str| word.parse().map(Network);
        let networks: Result<Self, _> = words.into_iter().map(read).collect();
        networks.map_err(|_| NetworkError::Malformed)
    }

    /// The words, as the store keeps them.
    #[must_use]
    pub fn words(&self) -> Vec<String> {
        self.0.iter().map(Network::to_string).collect()
    }

    /// Whether none is listed, so that a token works from anywhere.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many are listed.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether a token works from an address. An address that is not known is in no network.
    #[must_use]
    pub fn admit(&self, address: Option<IpAddr>) -> bool {
        let is_inside = |address| self.0.iter().any(|network| network.contains(address));
        self.is_empty() || address.is_some_and(is_inside)
    }

    /// Whether a token with the others works from nowhere else than one with these.
    #[must_use]
    pub fn include(&self, others: &Self) -> bool {
        let is_inside = |other: &Network| self.0.iter().any(|own| own.0.contains(&other.0));
        self.is_empty() || (!others.is_empty() && others.0.iter().all(is_inside))
    }
}

impl FromIterator<Network> for Networks {
    fn from_iter<I: IntoIterator<Item = Network>>(networks: I) -> Self {
        let mut networks: Vec<Network> = networks.into_iter().collect();
        networks.sort_unstable();
        networks.dedup();
        Self(networks)
    }
}

impl From<Vec<Network>> for Networks {
    fn from(networks: Vec<Network>) -> Self {
        networks.into_iter().collect()
    }
}

impl From<Networks> for Vec<Network> {
    fn from(networks: Networks) -> Self {
        networks.0
    }
}

impl fmt::Display for Networks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words().join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn networks(texts: &[&str]) -> Networks {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    fn said(text: &str) -> String {
        text.parse::<Network>().unwrap_err().to_string()
    }

    #[test]
    fn a_network_reads_as_cidr_or_as_one_address() {
        for (text, read) in [
            ("10.0.0.0/8", "10.0.0.0/8"),
            ("10.1.2.3", "10.1.2.3/32"),
            ("2001:DB8:0::/32", "2001:db8::/32"),
            ("::1", "::1/128"),
        ] {
            let network: Network = text.parse().unwrap();
            assert_eq!(network.to_string(), read);
            assert_eq!(read.parse(), Ok(network));
        }
        for text in [
            "",
            "10",
            "10.0.0.0/33",
            "10.0.0/8",
            "010.0.0.0/8",
            "::/129",
            " 10.0.0.0/8",
            "10.0.0.0/-1",
            "10.0.0.0/+8",
            "10.0.0.0/08",
            "10.0.0.0/",
            "/8",
            "10.0.0.0/8/8",
            "localhost",
            "10.0.0.0/8,",
            "fe80::1%eth0/64",
        ] {
            assert_eq!(
                text.parse::<Network>(),
                Err(NetworkError::Malformed),
                "{text:?}"
            );
        }
    }

    #[test]
    fn what_is_not_a_network_is_refused_with_what_to_write() {
        let inside = said("10.1.2.3/8");
        assert!(
            inside.contains("write 10.0.0.0/8 for all of it, or 10.1.2.3 alone"),
            "{inside}"
        );
        assert!(said("2001:db8::1/32").contains("write 2001:db8::/32"));
        assert!(said("::ffff:10.1.2.3").contains("write 10.1.2.3/32"));
        assert!(said("::ffff:10.0.0.0/104").contains("write 10.0.0.0/8"));
        for everything in ["0.0.0.0/0", "::/0", "10.0.0.0/0", "::ffff:0:0/0"] {
            assert!(
                said(everything).contains("leave the networks out"),
                "{everything}"
            );
        }
    }

    #[test]
    fn an_address_is_admitted_inside_one_of_the_networks() {
        let office = networks(&["10.0.0.0/8", "2001:db8::/32", "192.0.2.7"]);
        let admit = |text: &str| office.admit(Some(text.parse().unwrap()));

        for inside in [
            "10.0.0.0",
            "10.255.255.255",
            "::ffff:10.1.2.3",
            "2001:db8::1",
            "192.0.2.7",
        ] {
            assert!(admit(inside), "{inside}");
        }
        for outside in [
            "9.255.255.255",
            "11.0.0.0",
            "::ffff:11.0.0.0",
            "2001:db9::",
            "192.0.2.8",
            "::10.1.2.3",
        ] {
            assert!(!admit(outside), "{outside}");
        }
        assert!(!office.admit(None), "an address that is not known");
        assert!(Networks::default().admit(None));
        assert!(Networks::default().admit(Some("192.0.2.1".parse().unwrap())));
    }

    #[test]
    fn what_is_given_lies_inside_what_its_maker_has() {
        let (own, anywhere) = (
            networks(&["10.0.0.0/8", "2001:db8::/32"]),
            Networks::default(),
        );

        for within in [
            &["10.0.0.0/8"][..],
            &["10.1.0.0/16", "2001:db8:1::/48"],
            &["10.1.2.3"],
        ] {
            assert!(own.include(&networks(within)), "{within:?}");
            assert!(anywhere.include(&networks(within)), "{within:?}");
        }
        for beyond in [
            &["8.0.0.0/6"][..],
            &["10.1.0.0/16", "192.0.2.0/24"],
            &["2001::/16"],
        ] {
            assert!(!own.include(&networks(beyond)), "{beyond:?}");
        }
        assert!(!own.include(&anywhere));
        assert!(anywhere.include(&anywhere));
    }

    #[test]
    fn the_unspecified_address_is_in_no_network() {
        let half: Networks = ["0.0.0.0/1", "::/1"]
            .iter()
            .map(|text| text.parse().unwrap())
            .collect();

        assert!(half.admit(Some("1.2.3.4".parse().unwrap())));
        for nobody in ["0.0.0.0", "::"] {
            assert!(!half.admit(Some(nobody.parse().unwrap())), "{nobody}");
        }
    }

    #[test]
    fn a_list_has_each_network_once_and_a_stored_word_is_never_left_out() {
        let list = networks(&["10.1.0.0/16", "10.0.0.0/8", "10.1.0.0/16"]);

        assert_eq!(list.words(), ["10.0.0.0/8", "10.1.0.0/16"]);
        assert_eq!(Networks::of_words(["10.1.0.0/16", "10.0.0.0/8"]), Ok(list));
        assert_eq!(
            Networks::of_words(["nowhere"]),
            Err(NetworkError::Malformed)
        );
    }
}

//! What settings of `semel serve` say, where it is more than a word or a number.

use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;

use ipnet::IpNet;
use semel_engine::TOKEN_DAYS_MAX;
use semel_model::{Network, Networks, Span};
use semel_store::audit::removal::AUDIT_KEEP_MIN;

/// Ranges of addresses, divided by commas.
pub(super) struct Ranges(pub(super) Vec<IpNet>);

impl FromStr for Ranges {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let words = text.split(',').map(str::trim);
        let ranges = words.filter(|word| !word.is_empty()).map(|word| {
            let range = word.parse::<IpNet>();
            let range = range.or_else(|_| word.parse::<IpAddr>().map(IpNet::from));
            range.map_err(|_| format!("`{word}` is not an address range such as 10.1.0.0/16"))
        });
        ranges.collect::<Result<_, String>>().map(Self)
    }
}

/// Networks of proxies, divided by commas.
pub(super) struct Proxies(pub(super) Networks);

impl FromStr for Proxies {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let words = text.split(',').map(str::trim);
        let networks = words.filter(|word| !word.is_empty()).map(|word| {
            let network = word.parse::<Network>();
            network.map_err(|error| format!("`{word}` is no network of proxies: {error}"))
        });
        networks.collect::<Result<_, String>>().map(Self)
    }
}

/// Names of hosts, divided by commas.
pub(super) struct Hosts(pub(super) Vec<String>);

impl FromStr for Hosts {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let words = text.split(',').map(str::trim);
        let hosts = words.filter(|word| !word.is_empty()).map(|word| {
            let name = word.strip_prefix("*.").unwrap_or(word);
            match name.is_empty() || name.contains(['*', '/', ' ']) {
                true => Err(format!("`{word}` is no host such as api.books.example")),
                false => Ok(word.to_owned()),
            }
        });
        match hosts.collect::<Result<Vec<String>, String>>()? {
            none if none.is_empty() => Err("it names no host".to_owned()),
            hosts => Ok(Self(hosts)),
        }
    }
}

/// Folders, divided by commas.
pub(super) struct Folders(pub(super) Vec<PathBuf>);

impl FromStr for Folders {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let words = text.split(',').map(str::trim);
        let folders = words.filter(|word| !word.is_empty()).map(|word| {
            let folder = PathBuf::from(word);
            // The root is no folder of sockets: whoever names it means everything.
            if folder.is_absolute() && folder.parent().is_some() {
                Ok(folder)
            } else {
                Err(format!(
                    "`{word}` is no folder such as /run/shop-postgresql"
                ))
            }
        });
        folders.collect::<Result<_, String>>().map(Self)
    }
}

/// How long acts of the audit record are kept.
#[derive(Debug)]
pub(super) struct AuditKeep(pub(super) Span);

impl FromStr for AuditKeep {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let keep: Span = text.parse().map_err(|error| format!("{error}"))?;
        match keep >= AUDIT_KEEP_MIN {
            true => Ok(Self(keep)),
            false => Err(format!(
                "acts of the audit record are kept for {AUDIT_KEEP_MIN} at least; say longer, or leave it out to keep them for ever"
            )),
        }
    }
}

/// The shortest time that tokens of a person work after a sign-in: sign-ins move their end by the hour.
const PERSON_TOKENS_MIN: Span = Span::from_const_secs(86_400);

/// How long tokens that a person made work after the last sign-in of that person.
#[derive(Debug)]
pub(super) struct PersonTokens(pub(super) Span);

impl FromStr for PersonTokens {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let lifetime: Span = text.parse().map_err(|error| format!("{error}"))?;
        let longest = Span::from_secs(TOKEN_DAYS_MAX * 86_400);
        match (PERSON_TOKENS_MIN..=longest).contains(&lifetime) {
            true => Ok(Self(lifetime)),
            false => Err(format!("it is from {PERSON_TOKENS_MIN} to {longest}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read_with_and_without_their_length() {
        let read = |text: &str| text.parse::<Ranges>().map(|Ranges(ranges)| ranges);

        let ranges = read("127.0.0.0/8, ::1 ,10.1.2.3").unwrap();

        let texts: Vec<String> = ranges.iter().map(IpNet::to_string).collect();
        assert_eq!(texts, ["127.0.0.0/8", "::1/128", "10.1.2.3/32"]);
        assert_eq!(read("").unwrap(), vec![]);
        assert!(read("everything").unwrap_err().contains("everything"));
    }

    #[test]
    fn hosts_are_read_with_and_without_a_star_in_front() {
        let read = |text: &str| text.parse::<Hosts>().map(|Hosts(hosts)| hosts);

        let hosts = read("api.example, *.books.example").unwrap();

        assert_eq!(hosts, ["api.example", "*.books.example"]);
        for wrong in ["", ",", "*", "a.*.example", "https://api.example"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn folders_of_sockets_are_read_with_their_whole_path() {
        let read = |text: &str| text.parse::<Folders>().map(|Folders(folders)| folders);

        let folders = read("/run/shop, /run/books/").unwrap();

        assert_eq!(folders, [PathBuf::from("/run/shop"), "/run/books".into()]);
        for wrong in ["run/shop", "/", "@shop", "*"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn tokens_of_people_work_for_a_day_to_a_year_after_a_sign_in() {
        let read = |text: &str| text.parse::<PersonTokens>().map(|PersonTokens(span)| span);

        assert_eq!(read("7d").unwrap(), Span::from_secs(7 * 86_400));
        for wrong in ["0s", "23h", "366d", "soon"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn acts_are_kept_for_a_month_at_least() {
        assert_eq!(
            "400d".parse::<AuditKeep>().unwrap().0,
            Span::from_secs(400 * 86_400)
        );
        assert!("29d".parse::<AuditKeep>().unwrap_err().contains("30d"));
        assert!("soon".parse::<AuditKeep>().is_err());
    }
}

//! Checks that a token goes only to the server that it was given for.
//!
//! A file of a directory may have come with a clone, a pull request or a shared folder. A token from
//! elsewhere is never sent to the address in it: whoever wrote the file would get the token. Over plain
//! HTTP a token goes to this machine alone. The value of a secret goes to no server that only such a file
//! names, whosever token stands beside it.

use url::{Host, Url};

use crate::answer::Problem;
use crate::code;
use crate::config::{Setting, Source};
use crate::outcome::Outcome;

/// Refuses to send a token to a server that only a file of the directory names, unless the same
/// place has the token, and over plain HTTP to another machine, unless that is asked for.
pub(super) fn check(url: &Setting, token: &Setting, insecure: bool) -> Result<(), Problem> {
    match (url.source, token.source) {
        (Source::Flag | Source::Env(_) | Source::Default, _) | (Source::File, Source::File) => {}
        (Source::Local(_), Source::Local(_)) if is_here(&url.value) => {}
        (Source::Local(_), Source::Local(_)) => return Err(not_of_dev(url)),
        (Source::Local(_) | Source::File, _) => return Err(of_another_place(url, token)),
    }
    if !insecure && is_readable_on_the_way(&url.value) {
        return Err(in_the_clear(url));
    }
    Ok(())
}

/// Refuses to send the value of a secret to another machine that only a file of the directory names.
pub(super) fn check_secret(url: &Setting) -> Result<(), Problem> {
    match url.source {
        Source::Flag | Source::Env(_) | Source::Default => Ok(()),
        Source::Local(_) | Source::File if is_here(&url.value) => Ok(()),
        Source::Local(_) | Source::File => Err(secret_withheld(url)),
    }
}

fn is_here(url: &str) -> bool {
    Url::parse(url).is_ok_and(|url| is_loopback(&url))
}

/// Whether others may read what is sent to an address.
pub(crate) fn is_readable_on_the_way(url: &str) -> bool {
    // An address that cannot be read gets nothing: the client refuses it.
    Url::parse(url).is_ok_and(|url| url.scheme() == "http" && !is_loopback(&url))
}

/// Whether an address is one of the machine that this runs on.
pub(crate) fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

fn in_the_clear(url: &Setting) -> Problem {
    let message = format!(
        "the token is not sent to {} (from {}): over plain HTTP others can read it on the way",
        url.value, url.source
    );
    Problem::new(Outcome::Denied, code::TOKEN_WITHHELD, message).hint(
        "name the server by its https:// address; --insecure sends the token all the same, for a \
         network that nobody else can read",
    )
}

fn of_another_place(url: &Setting, token: &Setting) -> Problem {
    let (from, named_by) = (token.source, url.source);
    let message = format!(
        "the token (from {from}) is not sent to {}, which {named_by} of this directory names",
        url.value
    );
    Problem::new(Outcome::Denied, code::TOKEN_WITHHELD, message).hint(format!(
        "anybody may have written that file: if the token is for that server, name the server with \
         --url or SEMEL_URL; otherwise leave the token out, and {named_by} needs its own beside it"
    ))
}

/// `semel dev` serves this machine alone, so it did not write that.
fn not_of_dev(url: &Setting) -> Problem {
    let message = format!(
        "no token is sent to {} (from {}): `semel dev` serves this machine only",
        url.value, url.source
    );
    Problem::new(Outcome::Denied, code::TOKEN_WITHHELD, message).hint(
        "somebody else wrote that file: remove it, or name the server with --url or SEMEL_URL and pass its token",
    )
}

fn secret_withheld(url: &Setting) -> Problem {
    let message = format!(
        "the secret is not sent to {}, which only {} of this directory names",
        url.value, url.source
    );
    Problem::new(Outcome::Denied, code::SECRET_WITHHELD, message).hint(
        "anybody may have written that file, and the token in it: if you want to give the secret to that server, name \
         it with --url or SEMEL_URL",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCES: [Source; 5] = [
        Source::Flag,
        Source::Env("SEMEL_TOKEN"),
        Source::Local("token"),
        Source::File,
        Source::Default,
    ];

    fn setting(value: &str, source: Source) -> Setting {
        Setting {
            value: value.to_owned(),
            source,
        }
    }

    #[test]
    fn a_file_of_the_directory_gets_only_the_token_beside_it() {
        for named_by in [Source::Local("url"), Source::File] {
            let url = setting("https://stranger.example", named_by);
            for from in SOURCES {
                let beside = matches!((named_by, from), (Source::File, Source::File));

                let checked = check(&url, &setting("hush", from), false);

                assert_eq!(checked.is_ok(), beside, "{named_by}, {from}");
                if let Err(problem) = checked {
                    assert!(problem.message().contains("https://stranger.example"));
                    assert!(!problem.message().contains("hush"));
                }
            }
        }
    }

    #[test]
    fn the_folder_of_dev_leads_to_this_machine_only() {
        let token = setting("hush", Source::Local("token"));
        let checked = |url: &str| check(&setting(url, Source::Local("url")), &token, true);

        assert!(checked("http://127.0.0.1:7171").is_ok());
        for url in [
            "https://stranger.example",
            "http://10.0.0.9:7171",
            "127.0.0.1",
        ] {
            assert!(checked(url).is_err(), "{url}");
        }
    }

    #[test]
    fn a_secret_goes_to_no_server_that_only_a_file_of_the_directory_names() {
        let goes = |url: &str, source| check_secret(&setting(url, source)).is_ok();

        for source in [Source::File, Source::Local("url")] {
            assert!(!goes("https://stranger.example", source), "{source}");
            assert!(goes("http://localhost:7171", source), "{source}");
        }
        for source in [Source::Flag, Source::Env("SEMEL_URL"), Source::Default] {
            assert!(goes("https://semel.example", source), "{source}");
        }
    }

    #[test]
    fn an_address_of_the_users_own_gets_every_token() {
        for named_by in [Source::Flag, Source::Env("SEMEL_URL"), Source::Default] {
            let url = setting("https://semel.example", named_by);

            for from in SOURCES {
                assert!(check(&url, &setting("hush", from), false).is_ok(), "{from}");
            }
        }
    }

    #[test]
    fn plain_http_carries_a_token_only_within_this_machine() {
        let token = setting("hush", Source::Env("SEMEL_TOKEN"));
        let goes =
            |url: &str, insecure| check(&setting(url, Source::Flag), &token, insecure).is_ok();

        for url in [
            "http://127.0.0.1:7171",
            "http://localhost:7171",
            "http://[::1]:7171",
            "https://10.0.0.9",
            "https://semel.example",
        ] {
            assert!(goes(url, false), "{url}");
        }
        for url in [
            "http://10.0.0.9:7171",
            "http://semel.example",
            "HTTP://semel.example",
            "http://127.0.0.1@semel.example",
            "http://localhost.semel.example",
            "http://0.0.0.0:7171",
        ] {
            assert!(!goes(url, false), "{url}");
            assert!(goes(url, true), "{url}");
        }
    }
}

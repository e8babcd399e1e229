//! Serving in the clear: `semel serve` speaks plain HTTP, so beyond this machine a TLS proxy has to stand
//! in front of it.

use url::Url;

use crate::remote::is_loopback;

/// Why others may read tokens and payloads on their way, where they may: the server is to be reached
/// from beyond this machine, and its public address is not https.
pub(crate) fn in_the_clear(listen: &str, public_url: Option<&str>) -> Option<String> {
    let public = public_url.and_then(|url| Url::parse(url).ok());
    if public.as_ref().is_some_and(|url| url.scheme() == "https") {
        return None;
    }
    let own = Url::parse(&format!("http://{listen}")).ok();
    let beyond = |url: &Url| !is_loopback(url);
    if public.as_ref().is_some_and(beyond) {
        let address = public_url.unwrap_or_default();
        return Some(format!(
            "serve.public_url is {address}: tokens and payloads cross the network in the clear"
        ));
    }
    own.is_some_and(|url| beyond(&url)).then(|| {
        format!(
            "serve.listen is {listen} and serve.public_url is not https: tokens and payloads cross \
             the network in the clear"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_others_reach_without_tls_is_in_the_clear() {
        for listen in ["127.0.0.1:7171", "localhost:7171", "[::1]:7171"] {
            assert_eq!(in_the_clear(listen, None), None, "{listen}");
            assert_eq!(in_the_clear(listen, Some("http://localhost:7171")), None);
        }
        assert_eq!(
            in_the_clear("0.0.0.0:7171", Some("https://semel.example")),
            None
        );
        assert_eq!(
            in_the_clear("0.0.0.0:7171", Some("HTTPS://semel.example")),
            None
        );
        for listen in ["0.0.0.0:7171", "[::]:7171", "10.0.0.9:7171"] {
            let told = in_the_clear(listen, Some("http://localhost:7171"));
            assert!(told.is_some_and(|told| told.contains(listen)), "{listen}");
        }
        let proxied = in_the_clear("127.0.0.1:7171", Some("http://semel.example"));
        assert!(proxied.is_some_and(|told| told.contains("http://semel.example")));
    }
}

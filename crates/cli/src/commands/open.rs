//! `semel open`.

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use semel_api::Client;
use semel_api::types::SignInCode;
use serde_json::json;
use url::Url;

use crate::answer::{Answer, Problem};
use crate::config::Key;
use crate::context::Context;
use crate::output::Reader;
use crate::remote::{self, is_loopback};

/// The program that opens an address in the browser of a person's choice.
const OPENER: &str = "xdg-open";

/// Open the console in a browser, signed in with the rights of this token.
///
/// Prints the address, too. It works once and for one minute; the browser stays signed in for 12 hours
/// without use, and for 7 days at most.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  semel open
  semel open order-42       everything about one key
  semel open run_… --print  only print the address")]
pub(crate) struct Arguments {
    /// What to show: a run, an effect, a key, or a search such as state:failed.
    subject: Option<String>,
    /// Print the address, and open nothing.
    #[arg(long)]
    print: bool,
}

pub(crate) async fn run(ctx: &Context, arguments: &Arguments) -> Result<Answer, Problem> {
    let client = remote::client(ctx)?;
    let code = client.make_sign_in_code().await?;
    let expires_at = code.expires_at;
    let url = match &arguments.subject {
        Some(subject) => {
            let namespace = client.whoami().await?.namespace;
            let search: String = url::form_urlencoded::byte_serialize(subject.as_bytes()).collect();
            let page = format!("/console/{namespace}/runs?q={search}");
            address(&client, &code, Some(&page))
        }
        None => address(&client, &code, None),
    };
    let answer = Answer::done(json!({"url": url, "expires_at": expires_at}), &url);
    let is_person = matches!(ctx.reader, Reader::Person);
    match !arguments.print && is_person && open(&url) {
        true => Ok(answer
            .note("opened in the browser: sign in there; the address works once, for one minute")),
        false => Ok(answer.note("open it in a browser within one minute; it works once")),
    }
}

/// Where the code is used: at the server as this command reaches it, if a browser may sign in there;
/// otherwise at the installation's own address.
pub(crate) fn address(client: &Client, code: &SignInCode, page: Option<&str>) -> String {
    let own = Url::parse(&code.url).ok();
    let reached = Url::parse(client.base()).ok();
    let is_https = |url: &Url| url.scheme() == "https";
    let public = own.as_ref().is_some_and(is_https);
    let reached = reached.filter(|url| is_https(url) || (is_loopback(url) && !public));
    let Some(mut url) = reached.or(own) else {
        return code.url.clone();
    };
    url.set_path("/console/sign-in");
    url.set_query(None);
    if let Some(page) = page {
        url.query_pairs_mut().append_pair("to", page);
    }
    url.set_fragment(Some(&code.code));
    url.into()
}

/// Whether a browser could be asked to open an address.
///
/// Every user of a machine can read the arguments of its programs, and the code in the address stands for
/// the token. So the browser gets a file of this user's own folder, which leads to the address.
fn open(url: &str) -> bool {
    let has_screen = ["DISPLAY", "WAYLAND_DISPLAY"]
        .iter()
        .any(|name| std::env::var_os(name).is_some());
    let folder = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let folder = folder.filter(|folder| has_screen && folder.is_absolute());
    folder.is_some_and(|folder| hand_over(OPENER, &folder, url).is_ok())
}

/// Writes the page that leads to an address, readable by this user alone, and has it opened.
fn hand_over(opener: &str, folder: &Path, url: &str) -> io::Result<Child> {
    let file = folder.join("semel-open.html");
    // What an earlier command left is of no use: its code has expired.
    match std::fs::remove_file(&file) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    options.open(&file)?.write_all(leading_to(url).as_bytes())?;
    let mut opener = Command::new(opener);
    opener.arg(&file).stdin(Stdio::null());
    // A browser outlives this command, and needs no token.
    opener.env_remove(Key::Token.env());
    opener.stdout(Stdio::null()).stderr(Stdio::null());
    opener.spawn()
}

/// A page that leads to an address.
fn leading_to(url: &str) -> String {
    let url = url.replace('&', "&amp;").replace('"', "&quot;");
    let url = url.replace('<', "&lt;");
    format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>Semel</title>\
         <meta name=\"referrer\" content=\"no-referrer\">\
         <meta http-equiv=\"refresh\" content=\"0;url={url}\"></head>\
         <body><p><a href=\"{url}\">Open the console</a></p></body></html>\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_is_one_that_a_browser_may_sign_in_at() {
        let code = |own: &str| SignInCode {
            code: "c0de".to_owned(),
            path: "/console/sign-in#c0de".to_owned(),
            url: format!("{own}/console/sign-in#c0de"),
            expires_at: jiff::Timestamp::UNIX_EPOCH,
        };
        let public = code("https://semel.example");
        let local = code("http://127.0.0.1:7171");
        let of = |base: &str, code| address(&Client::new(base, "t").unwrap(), code, None);

        assert_eq!(of("http://127.0.0.1:7171", &local), local.url);
        assert_eq!(of("http://127.0.0.1:7171", &public), public.url);
        assert_eq!(of("http://10.0.0.9:7171", &public), public.url);
        let client = Client::new("http://[::1]:7171", "t").unwrap();
        let run = address(&client, &local, Some("/console/main/runs?q=a b"));
        assert_eq!(
            run,
            "http://[::1]:7171/console/sign-in?to=%2Fconsole%2Fmain%2Fruns%3Fq%3Da+b#c0de"
        );
    }

    #[test]
    fn no_argument_of_the_opener_holds_the_code() {
        use std::os::unix::fs::PermissionsExt;

        let home = tempfile::tempdir().unwrap();
        let url = "http://127.0.0.1:7171/console/sign-in?to=%2Fa&b=\"c#hush";
        let opener = home.path().join("opener");
        std::fs::write(
            &opener,
            "#!/bin/sh\nprintf '%s\\n' \"$0\" \"$@\" > \"$0.seen\"\n",
        )
        .unwrap();
        std::fs::set_permissions(&opener, PermissionsExt::from_mode(0o700)).unwrap();

        for _ in 0..2 {
            let mut child = hand_over(opener.to_str().unwrap(), home.path(), url).unwrap();
            assert!(child.wait().unwrap().success());
        }

        let seen = std::fs::read_to_string(home.path().join("opener.seen")).unwrap();
        let file = seen.lines().nth(1).unwrap();
        assert!(!seen.contains("hush"), "{seen}");
        let page = std::fs::read_to_string(file).unwrap();
        assert!(
            page.contains("url=http://127.0.0.1:7171/console/sign-in?to=%2Fa&amp;b=&quot;c#hush\""),
            "{page}"
        );
        let mode = std::fs::metadata(file).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}

//! STARTTLS: an answer counts if it came encrypted, and no other does.

use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use semel_model::Outcome;
use semel_model::connection::Tls;
use semel_testkit::smtp::recipient;
use semel_testkit::{Program, patience};
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::http::papers::Papers;
use crate::notify::world::{done, failed, key, mail_to, message, notifier, smtp};

/// Where the certificates are, for a test in a process of its own.
const PAPERS: &str = "SEMEL_TEST_PAPERS";

/// Answers to everything that a client says once it is encrypted, for one that reads them before.
const FORGED: &str =
    "250-post\r\n250 8BITMIME\r\n250 well\r\n250 well\r\n354 go on\r\n250 taken\r\n221 bye\r\n";

/// What a process trusts besides is read from its environment, so that the test is in another.
async fn run_where_the_server_is_trusted(test: &str) -> Result<()> {
    let papers = Papers::issue().await;
    let program = Program::at(std::env::current_exe()?)
        .args([test, "--exact", "--ignored"])
        .env("SSL_CERT_FILE", papers.path("ca.pem"))
        .env(PAPERS, papers.path(""));
    let ended = program.run(patience()).await?;
    assert!(ended.status.success(), "{}{}", ended.stdout, ended.stderr);
    assert!(ended.stdout.contains("1 passed"), "{}", ended.stdout);
    Ok(())
}

#[tokio::test]
async fn what_came_before_the_encryption_does_not_answer_what_is_sent_under_it() -> Result<()> {
    run_where_the_server_is_trusted("notify::starttls::forged_answers").await
}

#[tokio::test]
async fn a_mail_is_taken_and_refused_under_starttls() -> Result<()> {
    run_where_the_server_is_trusted("notify::starttls::own_answers").await
}

#[tokio::test]
#[ignore = "runs in a process of its own, which trusts the server"]
async fn forged_answers() -> Result<()> {
    let (outcome, heard) = send(recipient::REFUSED, FORGED).await?;

    let fault = failed(outcome);
    assert_eq!(
        (fault.code.as_str(), fault.retryable),
        ("no-connection", true),
        "{fault:?}"
    );
    assert!(heard.is_err(), "no handshake: {heard:?}");
    Ok(())
}

#[tokio::test]
#[ignore = "runs in a process of its own, which trusts the server"]
async fn own_answers() -> Result<()> {
    let (taken, heard) = send("ada@books.example", "").await?;
    let (refused, _) = send(recipient::REFUSED, "").await?;

    assert_eq!(done(taken)["reply"], "taken");
    let heard = heard?;
    assert!(heard.iter().any(|line| line == "Thank you."), "{heard:?}");
    assert_eq!(failed(refused).code, "smtp-550");
    Ok(())
}

/// Sends a mail over a server of its own, which sends this behind its answer to STARTTLS. Gives the
/// outcome, and the lines that the server heard under TLS.
async fn send(recipient: &str, behind: &'static str) -> Result<(Outcome, Result<Vec<String>>)> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let mut target = smtp(listener.local_addr()?);
    (target.host, target.tls) = ("localhost".to_owned(), Tls::Starttls);
    let serving = tokio::spawn(serve(listener, behind));
    let (notifier, _gate) = notifier()?;
    let mail = message(&[recipient]);
    let outcome = notifier.send(&mail, &mail_to(target), key("a")).await;
    Ok((outcome, serving.await?))
}

/// Serves one connection: in the clear until STARTTLS, then under TLS.
async fn serve(listener: TcpListener, behind: &'static str) -> Result<Vec<String>> {
    let (wire, _) = listener.accept().await?;
    let mut wire = BufReader::new(wire);
    wire.write_all(b"220 post\r\n").await?;
    hear(&mut wire, "EHLO ").await?;
    wire.write_all(b"250-post\r\n250 STARTTLS\r\n").await?;
    hear(&mut wire, "STARTTLS").await?;
    let ready = format!("220 ready\r\n{behind}");
    wire.write_all(ready.as_bytes()).await?;
    let encrypted = acceptor()?.accept(wire).await?;
    take_mail(&mut BufReader::new(encrypted)).await
}

/// Answers each line, until the client leaves or is refused.
async fn take_mail<W>(wire: &mut BufReader<W>) -> Result<Vec<String>>
where
    W: AsyncRead + AsyncWrite + Unpin,
{
    let (mut heard, mut is_data) = (Vec::new(), false);
    loop {
        let line = hear(wire, "").await?;
        let answer = match line.as_str() {
            "." => "250 taken",
            "QUIT" => "221 bye",
            _ if is_data => "",
            "DATA" => "354 go on",
            line if line.contains(recipient::REFUSED) => "550 nobody here",
            _ => "250 well",
        };
        is_data = (is_data && line != ".") || line == "DATA";
        if !answer.is_empty() {
            wire.write_all(format!("{answer}\r\n").as_bytes()).await?;
            wire.flush().await?;
        }
        heard.push(line);
        if answer.starts_with("221") || answer.starts_with("550") {
            return Ok(heard);
        }
    }
}

/// The next line, which has to begin so.
async fn hear<W: AsyncRead + Unpin>(wire: &mut BufReader<W>, beginning: &str) -> Result<String> {
    let mut line = String::new();
    if wire.read_line(&mut line).await? == 0 || !line.starts_with(beginning) {
        bail!("heard {line:?} in place of {beginning:?}");
    }
    Ok(line.trim_end().to_owned())
}

fn acceptor() -> Result<TlsAcceptor> {
    let papers = std::env::var(PAPERS).context("run by another test")?;
    let certificate =
        CertificateDer::from_pem_slice(&std::fs::read(format!("{papers}server.pem"))?)?;
    let private = PrivateKeyDer::from_pem_slice(&std::fs::read(format!("{papers}server.key"))?)?;
    let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![certificate], private)?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

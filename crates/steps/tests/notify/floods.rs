//! Mail servers whose lines have no end.

use std::net::SocketAddr;

use anyhow::Result;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::notify::world::{failed, in_doubt, key, mail_to, message, notifier, smtp};

/// How much such a server sends at most.
const FLOOD_BYTES: usize = 64 << 20;

/// A server that answers as it should until it hears this line, and then sends a line without an
/// end. Without one, it does so instead of a greeting. Gives how many bytes it got rid of.
async fn flooding(at: Option<&'static str>) -> Result<(SocketAddr, JoinHandle<Result<usize>>)> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let address = listener.local_addr()?;
    let serving = tokio::spawn(async move {
        let (wire, _) = listener.accept().await?;
        let mut wire = BufReader::new(wire);
        if let Some(at) = at {
            wire.write_all(b"220 post\r\n").await?;
            until_heard(&mut wire, at).await?;
        }
        let piece = vec![b'2'; 1 << 16];
        let mut sent = 0;
        while sent < FLOOD_BYTES && wire.write_all(&piece).await.is_ok() {
            sent += piece.len();
        }
        Ok(sent)
    });
    Ok((address, serving))
}

/// Answers each line until one of them begins so.
async fn until_heard(wire: &mut BufReader<tokio::net::TcpStream>, at: &str) -> Result<()> {
    let mut is_data = false;
    loop {
        let mut line = String::new();
        anyhow::ensure!(wire.read_line(&mut line).await? > 0, "the client is gone");
        if line.trim_end() == at {
            return Ok(());
        }
        if is_data {
            continue;
        }
        is_data = line.starts_with("DATA");
        let answer: &[u8] = if is_data {
            b"354 go on\r\n"
        } else {
            b"250 well\r\n"
        };
        wire.write_all(answer).await?;
    }
}

#[tokio::test]
async fn a_line_without_an_end_is_cut_and_nothing_was_sent() -> Result<()> {
    let (notifier, _gate) = notifier()?;
    for at in [None, Some("DATA")] {
        let (address, serving) = flooding(at).await?;
        let (to, mail) = (mail_to(smtp(address)), message(&["ada@books.example"]));

        let fault = failed(notifier.send(&mail, &to, key("a")).await);

        assert_eq!(
            (fault.code.as_str(), fault.retryable),
            ("no-connection", true),
            "{at:?}: {fault:?}"
        );
        assert!(serving.await?? < FLOOD_BYTES, "{at:?}: all of it was read");
    }
    Ok(())
}

#[tokio::test]
async fn a_line_without_an_end_after_the_data_is_a_doubt() -> Result<()> {
    let (notifier, _gate) = notifier()?;
    let (address, serving) = flooding(Some(".")).await?;

    let mail = message(&["ada@books.example"]);
    let to = mail_to(smtp(address));
    let doubt = in_doubt(notifier.send(&mail, &to, key("a")).await);

    assert_eq!(doubt.code, "no-answer", "{doubt:?}");
    assert!(serving.await?? < FLOOD_BYTES, "all of it was read");
    Ok(())
}

#[tokio::test]
async fn a_server_that_greets_without_an_end_is_no_server() -> Result<()> {
    let (notifier, _gate) = notifier()?;
    let (address, serving) = flooding(None).await?;

    let fault = notifier.test(&mail_to(smtp(address))).await.unwrap_err();

    assert_eq!(fault.code, "no-connection", "{fault:?}");
    assert!(serving.await?? < FLOOD_BYTES, "all of it was read");
    Ok(())
}

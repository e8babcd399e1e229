//! A destination that gives back all that it was sent, and then goes wrong in the way that the path
//! names.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::Result;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// The ways in which it answers, as the last part of a path.
pub(super) const WAYS: [&str; 8] = [
    "fine", "header", "refuse", "broken", "limited", "hang", "cut", "garbage",
];

/// The longest request that is read.
const REQUEST_BYTES_MAX: usize = 256 * 1024;

/// A destination that gives back all that it was sent.
pub(super) struct Echo {
    /// Where it listens.
    pub(super) address: SocketAddr,
    heard: Arc<Mutex<String>>,
}

impl Echo {
    /// Starts it. `token` is what its token server hands out.
    pub(super) async fn start(token: &str) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let heard: Arc<Mutex<String>> = Arc::default();
        let (ears, token) = (Arc::clone(&heard), token.to_owned());
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let (ears, token) = (Arc::clone(&ears), token.clone());
                tokio::spawn(async move { serve(socket, &ears, &token).await });
            }
        });
        Ok(Self { address, heard })
    }

    /// All that it was sent.
    pub(super) fn heard(&self) -> String {
        self.heard
            .lock()
            .map(|heard| heard.clone())
            .unwrap_or_default()
    }
}

async fn serve(mut socket: TcpStream, ears: &Mutex<String>, token: &str) -> Option<()> {
    let request = read(&mut socket).await?;
    if let Ok(mut heard) = ears.lock() {
        heard.push_str(&request);
        heard.push('\n');
    }
    let path = request.split(' ').nth(1)?;
    let way = path.split('?').next()?.rsplit('/').next()?;
    let echo = json!({ "you_sent": request, &request: "as a name" }).to_string();
    let secret = header(&request, &["authorization", "x-key", "x-api-key"]);
    let answer = match way {
        "token" => {
            let granted = json!({"access_token": token, "token_type": "bearer", "expires_in": 600});
            reply(200, "", &granted.to_string())
        }
        "header" => reply(200, &format!("x-echo: {secret}\r\n"), "{}"),
        "refuse" => reply(401, &format!("www-authenticate: {secret}\r\n"), &echo),
        "broken" => reply(500, "", &echo),
        "limited" => reply(429, "retry-after: 3600\r\n", &echo),
        "hang" => {
            // For as long as the caller likes.
            while let Ok(1..) = socket.read(&mut [0; 64]).await {}
            return None;
        }
        "cut" => reply(200, "", &echo)
            .split_at(60 + request.len() / 2)
            .0
            .to_owned(),
        "garbage" => format!("{request}\r\n\r\n"),
        _ => reply(200, "", &echo),
    };
    socket.write_all(answer.as_bytes()).await.ok()?;
    socket.shutdown().await.ok()
}

async fn read(socket: &mut TcpStream) -> Option<String> {
    let mut bytes = Vec::new();
    let mut chunk = [0; 4096];
    loop {
        // A client that does not speak HTTP is answered after a moment.
        let read = tokio::time::timeout(Duration::from_millis(300), socket.read(&mut chunk)).await;
        match read {
            Ok(Ok(count)) if count > 0 => bytes.extend_from_slice(&chunk[..count]),
            Ok(_) | Err(_) => break,
        }
        if bytes.len() > REQUEST_BYTES_MAX || is_whole(&bytes) {
            break;
        }
    }
    Some(String::from_utf8_lossy(&bytes).into_owned()).filter(|text| !text.is_empty())
}

fn is_whole(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    let Some((head, body)) = text.split_once("\r\n\r\n") else {
        return false;
    };
    let length = header(&format!("{head}\r\n"), &["content-length"]);
    body.len() >= length.parse().unwrap_or(0)
}

fn header(request: &str, names: &[&str]) -> String {
    let lines = request.lines().filter_map(|line| line.split_once(": "));
    let mut found = lines.filter(|(name, _)| names.contains(&name.to_lowercase().as_str()));
    found
        .next()
        .map(|(_, value)| value.to_owned())
        .unwrap_or_default()
}

fn reply(status: u16, headers: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\n{headers}content-length: \
         {length}\r\nconnection: close\r\n\r\n{body}"
    )
}

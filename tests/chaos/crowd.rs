//! A crowd of senders: many requests over a number of connections, all answers kept.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use hyper::StatusCode;
use semel_testkit::client::Answer;
use semel_testkit::{Client, pace};

use crate::servers::Served;

/// How often a request is sent again to a server that asks for patience, and the time between.
const TRIES_MAX: u32 = 100;
const PAUSE: Duration = Duration::from_secs(1);

/// A request and whose it is.
pub(crate) struct Post {
    pub(crate) subject: usize,
    pub(crate) path: String,
    pub(crate) body: String,
}

/// Sends all posts over so many connections, in order, and gives the answers by subject. A server that asks for
/// patience is sent the same again, as senders do.
pub(crate) async fn send(
    server: &Served,
    connections: usize,
    posts: Vec<Post>,
) -> Result<Vec<(usize, Answer)>> {
    let client = Arc::new(Client::new(server.address, connections));
    let posts = Arc::new(posts);
    let next = Arc::new(AtomicUsize::new(0));
    let senders: Vec<_> = (0..connections)
        .map(|_| {
            let (client, posts, next) = (client.clone(), posts.clone(), next.clone());
            tokio::spawn(async move {
                let mut answers = Vec::new();
                while let Some(post) = posts.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let answer = post_until_taken(&client, &post.path, &post.body).await;
                    let answer = answer.with_context(|| format!("{} {}", post.path, post.body))?;
                    answers.push((post.subject, answer));
                }
                Ok::<_, anyhow::Error>(answers)
            })
        })
        .collect();
    let mut answers = Vec::new();
    for sender in senders {
        answers.extend(sender.await??);
    }
    Ok(answers)
}

/// Sends a request again for as long as the server asks for patience.
pub(crate) async fn post_until_taken(client: &Client, path: &str, body: &str) -> Result<Answer> {
    for _ in 0..TRIES_MAX {
        let answer = client.post(path, body.to_owned()).await?;
        if answer.status != StatusCode::SERVICE_UNAVAILABLE {
            return Ok(answer);
        }
        pace(PAUSE).await;
    }
    bail!("the server asks for patience again and again")
}

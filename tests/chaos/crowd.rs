//! A crowd of senders: many requests over a number of connections, all answers kept.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result};
use semel_testkit::Client;
use semel_testkit::client::Answer;

use crate::servers::Served;

/// A request and whose it is.
pub(crate) struct Post {
    pub(crate) subject: usize,
    pub(crate) path: String,
    pub(crate) body: String,
}

/// Sends all posts over so many connections, in order, and gives the answers by subject.
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
                    let answer = client.post(&post.path, post.body.clone()).await;
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

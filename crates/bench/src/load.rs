//! The closed loop: so many senders, each waiting for one answer before it asks again.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use tokio::task::JoinSet;

use crate::load_connection::LoadConnection;

/// What a slice of time brought.
#[derive(Debug, Default)]
pub(crate) struct Slice {
    /// How many were answered.
    pub(crate) count: u64,
    /// How long it took.
    pub(crate) elapsed: Duration,
    /// How long each took, in microseconds, sorted.
    latencies_us: Vec<u32>,
}

impl Slice {
    /// How many per second.
    pub(crate) fn rate(&self) -> f64 {
        self.count as f64 / self.elapsed.as_secs_f64()
    }

    /// The latency, in milliseconds, that a share of the answers stays within.
    pub(crate) fn latency_ms(&self, share: f64) -> f64 {
        let last = self.latencies_us.len().saturating_sub(1);
        let index = (last as f64 * share).round() as usize;
        self.latencies_us
            .get(index)
            .map_or(f64::NAN, |us| f64::from(*us) / 1e3)
    }
}

/// Something that one sender does again and again.
pub(crate) trait Sender: Send + 'static {
    /// Does it once.
    fn send(&mut self) -> impl Future<Output = Result<()>> + Send;
}

/// Lets every sender go round for a while.
pub(crate) async fn run<S: Sender>(senders: Vec<S>, lasts: Duration) -> Result<Slice> {
    let begun = Instant::now();
    let deadline = begun + lasts;
    let mut tasks = JoinSet::new();
    for sender in senders {
        tasks.spawn(go_round(sender, deadline));
    }
    let mut slice = Slice::default();
    while let Some(done) = tasks.join_next().await {
        slice.latencies_us.extend(done??);
    }
    slice.elapsed = begun.elapsed();
    slice.count = slice.latencies_us.len() as u64;
    slice.latencies_us.sort_unstable();
    Ok(slice)
}

async fn go_round(mut sender: impl Sender, deadline: Instant) -> Result<Vec<u32>> {
    let mut latencies_us = Vec::with_capacity(4096);
    let mut begun = Instant::now();
    while begun < deadline {
        sender.send().await?;
        let now = Instant::now();
        let micros = now.duration_since(begun).as_micros();
        latencies_us.push(u32::try_from(micros).unwrap_or(u32::MAX));
        begun = now;
    }
    Ok(latencies_us)
}

/// Where and what a sender posts, and which answers are right.
#[derive(Debug)]
pub(crate) struct Target {
    /// The server's process.
    pub(crate) process: u32,
    /// The server.
    pub(crate) address: SocketAddr,
    /// The path and query.
    pub(crate) path: String,
    /// Whole header lines.
    pub(crate) headers: String,
    /// The status of a right answer.
    pub(crate) status: u16,
    /// What a right answer contains.
    pub(crate) contains: &'static str,
    /// Whether the body is an API start, with the payload under `input` and the key beside it.
    pub(crate) wrapped: bool,
}

/// Which keys are sent.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Keys {
    /// Each once.
    Unique,
    /// The same so many, over and over.
    Repeated(u64),
}

/// Posts payloads over one connection.
pub(crate) struct Poster {
    wire: LoadConnection,
    target: Arc<Target>,
    keys: Keys,
    prefix: String,
    next: u64,
    step: u64,
}

impl Poster {
    /// So many posters that share the work of one slice. `tag` tells the keys of slices apart.
    pub(crate) async fn crowd(
        target: &Arc<Target>,
        count: usize,
        keys: Keys,
        tag: &str,
    ) -> Result<Vec<Self>> {
        let mut crowd = Vec::with_capacity(count);
        for index in 0..count {
            let prefix = match keys {
                Keys::Unique => format!("{tag}-{index}"),
                Keys::Repeated(_) => tag.to_owned(),
            };
            crowd.push(Self {
                wire: LoadConnection::connect(target.address).await?,
                target: target.clone(),
                keys,
                prefix,
                next: index as u64,
                step: count as u64,
            });
        }
        Ok(crowd)
    }
}

impl Sender for Poster {
    async fn send(&mut self) -> Result<()> {
        let number = match self.keys {
            Keys::Unique => self.next,
            Keys::Repeated(distinct) => self.next % distinct,
        };
        self.next += self.step;
        let Target {
            path,
            headers,
            status,
            contains,
            wrapped,
            ..
        } = &*self.target;
        let body = payload(&self.prefix, number, *wrapped);
        let answer = self.wire.post(path, headers, &body).await?;
        ensure!(
            answer.status == *status
                && crate::load_connection::find(answer.body, contains.as_bytes()).is_some(),
            "{path} answered {}: {}",
            answer.status,
            String::from_utf8_lossy(answer.body)
        );
        Ok(())
    }
}

/// A small order, as a shop would send it.
pub(crate) fn payload(prefix: &str, number: u64, wrapped: bool) -> String {
    let order = format!(
        r#"{{"id":"{prefix}-{number}","type":"order.paid","total":4200,"currency":"EUR","customer":{{"id":"c_{}","email":"a@b.example"}}}}"#,
        number % 1000
    );
    match wrapped {
        // The flow's own `key` names the run.
        true => format!(r#"{{"input":{order}}}"#),
        false => order,
    }
}

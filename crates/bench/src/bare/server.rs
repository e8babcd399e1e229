//! The plain HTTP server: reads a payload, hashes its key, and answers after a shared commit.
//!
//! It runs in a process of its own, as the product does. It speaks just enough HTTP/1.1 for the
//! generator, so that what is left is the least that such a server can cost.

use std::collections::{HashMap, HashSet};
use std::io::{self, Write as _};
use std::net::Ipv4Addr;

use anyhow::{Context, Result, bail, ensure};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};
use tokio_postgres::{Client, Statement};
use uuid::Uuid;

use super::{Delivery, Rows, same_rows};
use crate::load_connection::find;

/// What stands in the line that tells the port.
pub(crate) const LISTENING: &str = "listening on ";

/// The most accepts of one commit.
const BATCH_MAX: usize = 512;

/// The most bytes of a request.
const REQUEST_BYTES_MAX: usize = 1 << 20;

const ACCEPT: &str = "
    WITH claimed AS (
        INSERT INTO claims (id, run_id, fingerprint, expires_at)
        SELECT t.id, t.run_id, t.fingerprint, now() + interval '30 days'
          FROM unnest($1::uuid[], $2::uuid[], $3::uuid[]) AS t (id, run_id, fingerprint)
            ON CONFLICT (id) DO NOTHING
     RETURNING id, run_id)
    INSERT INTO runs (id, key, input, accepted_at)
    SELECT t.run_id, t.key, t.input::json, now()
      FROM unnest($2::uuid[], $4::text[], $5::text[]) AS t (run_id, key, input)
     WHERE t.run_id IN (SELECT run_id FROM claimed)
 RETURNING id";

const MEET: &str = "
    SELECT c.id, c.run_id, c.fingerprint, r.state, r.result::text
      FROM unnest($1::uuid[]) AS t (id)
      JOIN claims c ON c.id = t.id
      JOIN runs r ON r.id = c.run_id";

/// What a delivery met.
#[derive(Clone, Copy, Debug)]
struct BareAcceptResult {
    run: Uuid,
    replayed: bool,
}

type Waiting = (Delivery, oneshot::Sender<BareAcceptResult>);

/// Serves on a free loopback port, which it prints on standard output, until standard input closes.
pub(crate) async fn serve(url: &str, rows: Rows) -> Result<()> {
    let client = super::connect(url, rows).await?;
    let (accept, meet) = match rows {
        Rows::Least => (ACCEPT, MEET),
        Rows::Same => (same_rows::ACCEPT, same_rows::MEET),
    };
    let (accept, meet) = (client.prepare(accept).await?, client.prepare(meet).await?);
    let (sender, receiver) = mpsc::channel(8192);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    writeln!(io::stdout(), "{LISTENING}{}", listener.local_addr()?)?;
    tokio::select! {
        done = write(client, accept, meet, rows, receiver) => done,
        done = listen(listener, sender) => done,
        () = end_of_input() => Ok(()),
    }
}

/// The parent holds the other end, and its death closes it.
async fn end_of_input() {
    let mut input = tokio::io::stdin();
    let mut bytes = [0; 64];
    while matches!(input.read(&mut bytes).await, Ok(1..)) {}
}

async fn listen(listener: TcpListener, sender: mpsc::Sender<Waiting>) -> Result<()> {
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let sender = sender.clone();
        tokio::spawn(async move {
            // The generator closes its connections between slices.
            converse(stream, sender).await.ok();
        });
    }
}

async fn converse(mut stream: TcpStream, sender: mpsc::Sender<Waiting>) -> Result<()> {
    let mut incoming = Vec::with_capacity(4096);
    let mut outgoing = Vec::with_capacity(512);
    loop {
        let (start, end) = loop {
            if let Some(place) = find_body(&incoming)? {
                break place;
            }
            ensure!(incoming.len() < REQUEST_BYTES_MAX, "a request without end");
            if stream.read_buf(&mut incoming).await? == 0 {
                return Ok(());
            }
        };
        let delivery = Delivery::read(&incoming[start..end])?;
        let key = delivery.key.clone();
        let (answer, answered) = oneshot::channel();
        sender.send((delivery, answer)).await.ok();
        let met = answered.await.context("the writer has stopped")?;
        incoming.drain(..end);
        respond(&mut outgoing, &key, met)?;
        stream.write_all(&outgoing).await?;
    }
}

fn find_body(bytes: &[u8]) -> Result<Option<(usize, usize)>> {
    let Some(head_end) = find(bytes, b"\r\n\r\n") else {
        return Ok(None);
    };
    let head = std::str::from_utf8(&bytes[..head_end])?;
    let length = head
        .split("\r\n")
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
        .context("a length")?
        .1
        .trim()
        .parse::<usize>()?;
    let (start, end) = (head_end + 4, head_end + 4 + length);
    Ok((bytes.len() >= end).then_some((start, end)))
}

fn respond(outgoing: &mut Vec<u8>, key: &str, met: BareAcceptResult) -> Result<()> {
    let replayed = match met.replayed {
        true => "idempotency-replayed: true\r\n",
        false => "",
    };
    let body = format!(r#"{{"run":"run_{}","key":"{key}"}}"#, met.run.simple());
    outgoing.clear();
    write!(
        outgoing,
        "HTTP/1.1 202 Accepted\r\ncontent-type: application/json\r\n{replayed}\
         content-length: {}\r\n\r\n{body}",
        body.len()
    )?;
    Ok(())
}

async fn write(
    client: Client,
    accept: Statement,
    meet: Statement,
    rows: Rows,
    mut receiver: mpsc::Receiver<Waiting>,
) -> Result<()> {
    let mut gathered = Vec::with_capacity(BATCH_MAX);
    while receiver.recv_many(&mut gathered, BATCH_MAX).await > 0 {
        let (items, answers): (Vec<Delivery>, Vec<_>) = gathered.drain(..).unzip();
        let met = commit(&client, &accept, &meet, rows, &items).await?;
        let mut answered = HashSet::with_capacity(items.len());
        for (item, answer) in items.iter().zip(answers) {
            let Some(found) = met.get(&item.claim) else {
                bail!("a claim was neither made nor met")
            };
            // Of repeats that came together, only one made the run.
            let replayed = found.replayed || !answered.insert(item.claim);
            answer.send(BareAcceptResult { replayed, ..*found }).ok();
        }
    }
    Ok(())
}

/// Claims what is free; only where something was not, a second look tells whose it is.
async fn commit(
    client: &Client,
    accept: &Statement,
    meet: &Statement,
    rows: Rows,
    items: &[Delivery],
) -> Result<HashMap<Uuid, BareAcceptResult>> {
    let mut seen = HashSet::with_capacity(items.len());
    let firsts: Vec<&Delivery> = items
        .iter()
        .filter(|item| seen.insert(item.claim))
        .collect();
    let claims: Vec<Uuid> = firsts.iter().map(|item| item.claim).collect();
    let runs: Vec<Uuid> = firsts.iter().map(|item| item.run).collect();
    let fingerprints: Vec<Uuid> = firsts.iter().map(|item| item.fingerprint).collect();
    let keys: Vec<&str> = firsts.iter().map(|item| item.key.as_str()).collect();
    let input = |item: &&Delivery| match rows {
        Rows::Least => item.input.clone(),
        Rows::Same => same_rows::accepted(&item.input),
    };
    let inputs: Vec<String> = firsts.iter().map(input).collect();
    let made = client
        .query(accept, &[&claims, &runs, &fingerprints, &keys, &inputs])
        .await?;
    let made: HashSet<Uuid> = made.iter().map(|row| row.get(0)).collect();
    let mut met = HashMap::with_capacity(firsts.len());
    for item in &firsts {
        if made.contains(&item.run) {
            let (run, replayed) = (item.run, false);
            met.insert(item.claim, BareAcceptResult { run, replayed });
        }
    }
    if met.len() < firsts.len() {
        let known: Vec<Uuid> = claims
            .into_iter()
            .filter(|id| !met.contains_key(id))
            .collect();
        for row in client.query(meet, &[&known]).await? {
            let (run, replayed) = (row.get(1), true);
            met.insert(row.get(0), BareAcceptResult { run, replayed });
        }
    }
    Ok(met)
}

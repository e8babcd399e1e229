//! S-10, S-11, S-12: hostile addresses reach nothing on this machine or its network.

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use semel_model::connection::HttpAuth;
use semel_model::{Outcome, Span};
use semel_steps::egress::Lookup;
use semel_steps::{Egress, Pooling, Reach};

use super::stage::{Stage, caller, destination, get, route, target};

const CORPUS: &str = include_str!("corpus.txt");

/// Where the redirecting server is: the one address that is opened.
const PUBLIC: &str = "127.0.0.2";

/// One line of the corpus.
#[derive(Clone, Debug)]
struct Entry {
    reaches: bool,
    way: String,
    url: String,
    answers: Vec<Vec<IpAddr>>,
}

fn read_corpus(port: u16) -> Vec<Entry> {
    let lines = CORPUS.lines().filter(|line| !line.starts_with('#'));
    let read = |line: &str| {
        let mut fields = line.split('\t');
        let reaches = fields.next().unwrap() == "+";
        let way = fields.next().unwrap().to_owned();
        let url = fields.next().unwrap().replace("PORT", &port.to_string());
        let answers = fields.next().unwrap_or_default().split(';');
        let answers =
            answers.map(|some| some.split(',').filter_map(|ip| ip.parse().ok()).collect());
        Entry {
            reaches,
            way,
            url,
            answers: answers.collect(),
        }
    };
    lines.map(read).collect()
}

/// A name server that gives each name one answer after the other, the last one again and again.
struct Names {
    answers: HashMap<String, Vec<Vec<IpAddr>>>,
    asked: Mutex<HashMap<String, usize>>,
}

impl Lookup for Names {
    fn lookup(&self, _: i32, name: &str) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        let mut asked = self.asked.lock().unwrap();
        let count = asked.entry(name.to_owned()).or_default();
        let answer = self
            .answers
            .get(name)
            .map(|all| all[(*count).min(all.len() - 1)].clone());
        *count += 1;
        Box::pin(async move { answer.ok_or_else(|| io::Error::other("no such name")) })
    }
}

fn names(entries: &[Entry]) -> Arc<Names> {
    let named = entries.iter().filter(|entry| !entry.answers[0].is_empty());
    let host = |entry: &Entry| url_host(&entry.url);
    let mut answers: HashMap<_, _> = named.map(|e| (host(e), e.answers.clone())).collect();
    answers.insert(
        "start.example".to_owned(),
        vec![vec![PUBLIC.parse().unwrap()]],
    );
    let loopback = vec![vec!["127.0.0.1".parse().unwrap()]];
    answers.insert("localhost.example".to_owned(), loopback);
    Arc::new(Names {
        answers,
        asked: Mutex::default(),
    })
}

fn url_host(url: &str) -> String {
    url::Url::parse(url).unwrap().host_str().unwrap().to_owned()
}

/// Sends everything in the corpus; a name that is rebound is asked for as often as it has answers.
async fn send_all(entries: &[Entry], egress: Egress, start: &Stage) -> Vec<(Entry, Outcome)> {
    let caller = caller(&Reach::new(egress.looking_up(names(entries))));
    let base = format!("http://start.example:{}/", start.port);
    let sent = entries.iter().cloned().map(|entry| {
        let (caller, base) = (caller.clone(), base.clone());
        async move {
            let mut goal = target(&base, HttpAuth::None);
            goal.redirects = 3;
            let to = destination(goal, &[]);
            let (url, to) = match entry.way.as_str() {
                "redirect" => {
                    let mut url = url::Url::parse(&base).unwrap();
                    url.set_path("/redirect");
                    url.query_pairs_mut().append_pair("to", &entry.url);
                    (url.to_string(), Some(&to))
                }
                _ => (entry.url.clone(), None),
            };
            let mut request = get(&url);
            let mut outcome = None;
            for left in (0..entry.answers.len()).rev() {
                // Nothing answers at the public address that a rebound name has first.
                if left > 0 {
                    request.timeout = Span::from_millis(700);
                } else {
                    request.timeout = Span::from_secs(100);
                }
                let sending = caller.send_request(&request, route(to), None, Pooling::Fresh);
                outcome = Some(sending.await);
            }
            (entry.clone(), outcome.unwrap())
        }
    });
    futures_util::stream::iter(sent)
        .buffer_unordered(16)
        .collect()
        .await
}

#[tokio::test]
async fn two_hundred_hostile_addresses_reach_nothing() {
    let canary = Stage::with(&["--host", "::"]).await.unwrap();
    let start = Stage::with(&["--host", PUBLIC]).await.unwrap();
    let entries = read_corpus(canary.port);
    assert!(entries.len() >= 200, "{} entries", entries.len());

    let egress = Egress::new(vec![format!("{PUBLIC}/32").parse().unwrap()]);
    let outcomes = send_all(&entries, egress, &start).await;

    assert_eq!(
        canary.counts().await["connections"],
        0,
        "no connection was made"
    );
    let redirects = entries
        .iter()
        .filter(|entry| entry.way == "redirect")
        .count();
    assert_eq!(start.counts_at(PUBLIC).await["requests"], redirects);
    for (entry, outcome) in outcomes {
        match (entry.way.as_str(), outcome) {
            // The public answer of a name that is rebound is a public address: nothing is there in
            // a test, and nothing was refused. Its last answer is.
            (_, Outcome::Failed(fault)) => {
                let codes = ["address-refused", "bad-request", "redirect-refused"];
                assert!(codes.contains(&fault.code.as_str()), "{entry:?}: {fault:?}");
                assert!(!fault.retryable, "{entry:?}");
            }
            (_, other @ (Outcome::Done(_) | Outcome::InDoubt(_))) => panic!("{entry:?}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn the_same_addresses_reach_the_canary_where_nothing_is_checked() {
    let canary = Stage::with(&["--host", "::"]).await.unwrap();
    let start = Stage::with(&["--host", PUBLIC]).await.unwrap();
    let mut entries = read_corpus(canary.port);
    entries.retain(|entry| entry.reaches);

    let outcomes = send_all(&entries, Egress::open(), &start).await;

    let missed = |(entry, outcome): &(Entry, Outcome)| {
        (!matches!(outcome, Outcome::Done(_))).then(|| format!("{entry:?}: {outcome:?}"))
    };
    let missed: Vec<String> = outcomes.iter().filter_map(missed).collect();
    assert!(missed.is_empty(), "{missed:#?}");
    assert!(entries.len() >= 80, "{} entries reach it", entries.len());
    let hits = canary.counts().await["connections"].as_u64().unwrap();
    assert!(hits >= entries.len() as u64, "{hits} hits");
}

/// A name server whose second answer is not its first.
struct Rebinding {
    asked: AtomicUsize,
    public: IpAddr,
}

impl Lookup for Rebinding {
    fn lookup(&self, _: i32, _: &str) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        let answer = match self.asked.fetch_add(1, Ordering::SeqCst) {
            0 => self.public,
            _ => "127.0.0.1".parse().unwrap(),
        };
        Box::pin(async move { Ok(vec![answer]) })
    }
}

#[tokio::test]
async fn the_address_that_was_checked_is_the_one_that_is_connected_to() {
    let public = Stage::with(&["--host", PUBLIC]).await.unwrap();
    let names = Arc::new(Rebinding {
        asked: AtomicUsize::new(0),
        public: PUBLIC.parse().unwrap(),
    });
    let egress = Egress::new(vec![format!("{PUBLIC}/32").parse().unwrap()]);
    let caller = caller(&Reach::new(egress.looking_up(names.clone())));
    let request = get(&format!("http://rebind.example:{}/echo", public.port));

    let first = caller
        .send_request(&request, route(None), None, Pooling::Fresh)
        .await;
    assert_eq!(
        names.asked.load(Ordering::SeqCst),
        1,
        "one lookup a connection"
    );
    let second = caller
        .send_request(&request, route(None), None, Pooling::Fresh)
        .await;

    assert!(matches!(first, Outcome::Done(_)), "{first:?}");
    assert!(matches!(&second, Outcome::Failed(fault) if fault.code == "address-refused"));
    assert_eq!(public.counts_at(PUBLIC).await["requests"], 1);
}

#[tokio::test]
async fn the_engines_own_database_is_closed_in_an_opened_range() {
    let own = Stage::start().await.unwrap();
    let other = Stage::start().await.unwrap();
    let address = format!("127.0.0.1:{}", own.port).parse().unwrap();
    let egress = Egress::new(vec!["127.0.0.0/8".parse().unwrap()]).without([address]);
    let caller = caller(&Reach::new(egress));

    let ask = async |url: String| {
        let request = get(&url);
        caller
            .send_request(&request, route(None), None, Pooling::Fresh)
            .await
    };
    let by_name = ask(format!("http://localhost:{}/", own.port)).await;
    let by_address = ask(own.url("/")).await;

    assert!(matches!(ask(other.url("/")).await, Outcome::Done(_)));
    for refused in [by_name, by_address] {
        assert!(matches!(&refused, Outcome::Failed(fault) if fault.code == "address-refused"));
    }
    assert_eq!(own.counts().await["connections"], 0);
}

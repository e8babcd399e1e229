//! What pages follow: marks of topics, looked at one a second, in turn, for all who follow one.
//!
//! ```text
//! database ◀── one look a second, at the topic whose turn it is ──▶ every stream that follows it
//! ```
//!
//! A mark says nothing but whether something changed; the page then asks for itself again, with the rights
//! of who looks. Both have a budget that the number of people and of topics does not change: a server looks
//! once a second, and its streams together ask for about one page a second, because each is told how long a
//! page rests.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use semel_model::{RunId, TokenId};
use semel_store::{Cell, ReadError, marks};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::places::{Place, Places};

/// How often one of the topics is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The longest between two looks while they fail.
const LOOK_REST_MAX: Duration = Duration::from_secs(30);

/// How long a page rests for each stream that is open: together they ask for one page in that time.
const REST_EACH: Duration = Duration::from_secs(1);

/// How many topics are looked at for all who follow.
const TOPICS_MAX: usize = 500;

/// How many of them one namespace has, so that others are followed as well.
const TOPICS_EACH: usize = 200;

/// How many streams there are at once.
const STREAMS_MAX: usize = 200;

/// How many of them one token or person has, over all sign-ins: a browser has one, and opens the next
/// before the last has ended.
const STREAMS_EACH: usize = 8;

/// What a page shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Topic {
    /// What waits for people, and the newest runs.
    Overview,
    /// The newest runs.
    Runs,
    /// What is in doubt.
    Doubts,
    /// One run.
    Run(RunId),
}

impl fmt::Display for Topic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Overview => f.write_str("overview"),
            Self::Runs => f.write_str("runs"),
            Self::Doubts => f.write_str("doubts"),
            Self::Run(run) => write!(f, "run:{run}"),
        }
    }
}

/// A text that names no topic.
#[derive(Debug)]
pub(crate) struct NoTopic;

impl FromStr for Topic {
    type Err = NoTopic;

    fn from_str(text: &str) -> Result<Self, NoTopic> {
        match text {
            "overview" => Ok(Self::Overview),
            "runs" => Ok(Self::Runs),
            "doubts" => Ok(Self::Doubts),
            other => {
                let run = other.strip_prefix("run:").ok_or(NoTopic)?;
                run.parse().map(Self::Run).map_err(|_| NoTopic)
            }
        }
    }
}

/// A topic of a namespace.
type OwnTopic = (i32, Topic);

/// The latest mark of a topic; nothing until it was looked at.
pub(crate) type Mark = Option<Arc<str>>;

/// The topics that are followed, and the places of those who follow.
pub(crate) struct Live {
    topics: Mutex<Topics>,
    streams: Places<TokenId>,
    looks: AtomicU64,
    cell: Cell,
    shutdown: CancellationToken,
}

/// The topics that are followed, and the order in which they are looked at.
#[derive(Default)]
struct Topics {
    followed: HashMap<OwnTopic, watch::Sender<Mark>>,
    turns: VecDeque<OwnTopic>,
    is_looking: bool,
}

impl Topics {
    /// The topic whose turn it is, which then has the last turn; nothing where nobody follows any.
    fn next(&mut self) -> Option<OwnTopic> {
        while let Some(topic) = self.turns.pop_front() {
            let sender = self.followed.get(&topic);
            if sender.is_some_and(|it| it.receiver_count() > 0) {
                self.turns.push_back(topic);
                return Some(topic);
            }
            self.followed.remove(&topic);
        }
        None
    }
}

impl Live {
    /// Follows nothing yet, and reads in this cell.
    pub(crate) fn new(cell: Cell, shutdown: CancellationToken) -> Arc<Self> {
        Arc::new(Self {
            topics: Mutex::default(),
            streams: Places::new(STREAMS_MAX, STREAMS_EACH),
            looks: AtomicU64::new(0),
            cell,
            shutdown,
        })
    }

    /// A place for a stream of a token or a person, where there is one.
    pub(crate) fn enter(&self, who: TokenId) -> Option<Place<TokenId>> {
        self.streams.take(who)
    }

    /// How many streams there are.
    pub(crate) fn count_streams(&self) -> usize {
        self.streams.count()
    }

    /// How often topics were looked at.
    pub(crate) fn count_looks(&self) -> u64 {
        self.looks.load(Ordering::Relaxed)
    }

    /// How long a page rests at least after it was asked for: the more follow, the longer.
    pub(crate) fn rest(&self) -> Duration {
        let streams = u32::try_from(self.count_streams()).unwrap_or(u32::MAX);
        REST_EACH.saturating_mul(streams.max(1))
    }

    /// Follows a topic; nothing where too many others are followed.
    pub(crate) fn follow(
        self: &Arc<Self>,
        namespace_id: i32,
        topic: Topic,
    ) -> Option<watch::Receiver<Mark>> {
        let mut topics = self.lock();
        let followed = &topics.followed;
        let own = followed.keys().filter(|(of, _)| *of == namespace_id);
        let has_room = own.count() < TOPICS_EACH && followed.len() < TOPICS_MAX;
        let receiver = match topics.followed.entry((namespace_id, topic)) {
            Entry::Occupied(followed) => return Some(followed.get().subscribe()),
            Entry::Vacant(place) if has_room => {
                let (sender, receiver) = watch::channel(None);
                place.insert(sender);
                receiver
            }
            Entry::Vacant(_) => return None,
        };
        // Nothing is known of it yet, so that it comes before those of which something is.
        topics.turns.push_front((namespace_id, topic));
        if !topics.is_looking {
            topics.is_looking = true;
            let live = self.clone();
            tokio::spawn(async move { live.keep_looking().await });
        }
        Some(receiver)
    }

    /// The mark of a topic now. A page reads it before what it shows, so that no change is missed.
    pub(crate) async fn mark(&self, namespace_id: i32, topic: Topic) -> Result<String, ReadError> {
        let known = {
            let topics = self.lock();
            let followed = topics.followed.get(&(namespace_id, topic));
            followed.and_then(|sender| sender.borrow().clone())
        };
        match known {
            Some(mark) => Ok(mark.to_string()),
            None => look(&self.cell, (namespace_id, topic)).await,
        }
    }

    /// Looks at one topic after the other until nobody follows any.
    async fn keep_looking(&self) {
        let mut rest = LOOK_EVERY;
        while let Some(topic) = self.next_turn() {
            self.looks.fetch_add(1, Ordering::Relaxed);
            match look(&self.cell, topic).await {
                Ok(mark) => {
                    rest = LOOK_EVERY;
                    self.tell(topic, mark);
                }
                // Pages stay as they are. A database that has trouble is asked more and more seldom.
                Err(error) => {
                    rest = (rest * 2).min(LOOK_REST_MAX);
                    tracing::warn!(%error, ?rest, "cannot look whether a page of the console changed");
                }
            }
            tokio::select! {
                () = self.shutdown.cancelled() => return,
                () = tokio::time::sleep(rest) => {}
            }
        }
    }

    /// The topic to look at now. Where there is none, the next one that is followed begins anew.
    fn next_turn(&self) -> Option<OwnTopic> {
        let mut topics = self.lock();
        let topic = topics.next();
        topics.is_looking = topic.is_some();
        topic
    }

    fn tell(&self, followed: OwnTopic, mark: String) {
        let topics = self.lock();
        if let Some(sender) = topics.followed.get(&followed) {
            sender.send_if_modified(|known| {
                let changed = known.as_deref() != Some(mark.as_str());
                *known = Some(mark.into());
                changed
            });
        }
    }

    fn lock(&self) -> MutexGuard<'_, Topics> {
        self.topics.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn look(cell: &Cell, (namespace_id, topic): OwnTopic) -> Result<String, ReadError> {
    match topic {
        Topic::Overview => marks::of_overview(cell.every(), namespace_id).await,
        Topic::Runs => marks::of_runs(cell.every(), namespace_id).await,
        Topic::Doubts => marks::of_doubts(cell.every(), namespace_id).await,
        Topic::Run(run) => marks::of_run(cell.of(run), namespace_id, run).await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topics_are_looked_at_in_turn_while_somebody_follows_them() {
        let mut topics = Topics::default();
        let (kept, receiver) = watch::channel(None);
        let other = watch::channel(None);
        let left = watch::channel(None).0;
        for (topic, sender) in [
            (Topic::Runs, kept),
            (Topic::Overview, left),
            (Topic::Doubts, other.0),
        ] {
            topics.followed.insert((1, topic), sender);
            topics.turns.push_back((1, topic));
        }

        let turns: Vec<_> = (0..4).filter_map(|_| topics.next()).collect();
        drop((receiver, other.1));

        let expected = [Topic::Runs, Topic::Doubts, Topic::Runs, Topic::Doubts];
        assert_eq!(turns, expected.map(|topic| (1, topic)));
        assert_eq!(topics.next(), None);
        assert!(topics.followed.is_empty() && topics.turns.is_empty());
    }

    #[test]
    fn a_topic_reads_back_as_it_is_written() {
        let run = format!("run:run_{}", "0".repeat(32));
        for text in ["overview", "runs", "doubts", &run] {
            let topic: Topic = text.parse().unwrap();
            assert_eq!(topic.to_string(), *text);
        }
        for text in ["", "run:", "run:x", "Runs", "effects"] {
            assert!(text.parse::<Topic>().is_err(), "{text}");
        }
    }
}

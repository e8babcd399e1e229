//! What pages follow: marks of topics, looked at once a second for all who follow one.
//!
//! ```text
//! database ◀── one look a second for each topic that somebody follows ──▶ every stream that follows it
//! ```
//!
//! The cost depends on how many topics there are, and not on how many people look. A mark says nothing
//! but whether something changed; the page then asks for itself again, with the rights of who looks.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use semel_model::{RunId, TokenId};
use semel_store::{Cell, ReadError, marks};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::places::{Place, Places};

/// How often a topic is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The longest between two looks while they fail.
const LOOK_REST_MAX: Duration = Duration::from_secs(30);

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
    topics: Mutex<HashMap<OwnTopic, watch::Sender<Mark>>>,
    streams: Places<TokenId>,
    cell: Cell,
    shutdown: CancellationToken,
}

impl Live {
    /// Follows nothing yet, and reads in this cell.
    pub(crate) fn new(cell: Cell, shutdown: CancellationToken) -> Arc<Self> {
        Arc::new(Self {
            topics: Mutex::default(),
            streams: Places::new(STREAMS_MAX, STREAMS_EACH),
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

    /// Follows a topic; nothing where too many others are followed.
    pub(crate) fn follow(
        self: &Arc<Self>,
        namespace_id: i32,
        topic: Topic,
    ) -> Option<watch::Receiver<Mark>> {
        let mut topics = self.topics.lock().unwrap_or_else(PoisonError::into_inner);
        let own = topics.keys().filter(|(of, _)| *of == namespace_id).count();
        let has_room = topics.len() < TOPICS_MAX && own < TOPICS_EACH;
        match topics.entry((namespace_id, topic)) {
            Entry::Occupied(followed) => Some(followed.get().subscribe()),
            Entry::Vacant(place) if has_room => {
                let (sender, receiver) = watch::channel(None);
                place.insert(sender);
                let live = self.clone();
                tokio::spawn(async move { live.keep_looking((namespace_id, topic)).await });
                Some(receiver)
            }
            Entry::Vacant(_) => None,
        }
    }

    /// The mark of a topic now. A page reads it before what it shows, so that no change is missed.
    pub(crate) async fn mark(&self, namespace_id: i32, topic: Topic) -> Result<String, ReadError> {
        let known = {
            let topics = self.topics.lock().unwrap_or_else(PoisonError::into_inner);
            let followed = topics.get(&(namespace_id, topic));
            followed.and_then(|sender| sender.borrow().clone())
        };
        match known {
            Some(mark) => Ok(mark.to_string()),
            None => look(&self.cell, (namespace_id, topic)).await,
        }
    }

    /// Looks at a topic until nobody follows it.
    async fn keep_looking(&self, followed: OwnTopic) {
        let mut rest = LOOK_EVERY;
        loop {
            match look(&self.cell, followed).await {
                Ok(mark) => {
                    rest = LOOK_EVERY;
                    self.tell(followed, mark);
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
            let mut topics = self.topics.lock().unwrap_or_else(PoisonError::into_inner);
            let is_followed = topics
                .get(&followed)
                .is_some_and(|it| it.receiver_count() > 0);
            if !is_followed {
                topics.remove(&followed);
                return;
            }
        }
    }

    fn tell(&self, followed: OwnTopic, mark: String) {
        let topics = self.topics.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sender) = topics.get(&followed) {
            sender.send_if_modified(|known| {
                let changed = known.as_deref() != Some(mark.as_str());
                *known = Some(mark.into());
                changed
            });
        }
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

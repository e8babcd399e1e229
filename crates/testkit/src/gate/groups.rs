//! Groups: the messages of a client that the server answers together, up to their `Sync` or a `Query`, and the tables
//! that they are about.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::frames::Frame;

/// The most characters of a statement that are shown.
const LABEL_CHARS_MAX: usize = 90;

/// PostgreSQL's list of locks. Who waits by looking into it again and again waits for no lock, so each look is a step of
/// its own.
pub(crate) const LOCKS: &str = "pg_locks";

/// Ends a transaction, whatever becomes of it.
const ENDS: [&str; 4] = ["commit", "end", "rollback", "abort"];

/// The limits of sessions, in seconds, by which a statement ends that is held up.
const LIMIT: &str = "_timeout = '";

/// The tables that statements are about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Touched {
    named: BTreeSet<String>,
    changed: BTreeSet<String>,
}

impl Touched {
    /// The tables that a statement names, and those that it changes or locks rows of. A word that only looks like the
    /// name of a table is taken for it: so a statement may be held in vain, and none passes that should be held.
    fn read(text: &str, tables: &BTreeSet<String>) -> Self {
        let text = text.to_ascii_lowercase();
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let words = text.split(|c: char| !is_part(c));
        let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
        let strengths = ["update", "no", "share", "key"];
        let locks = words
            .windows(2)
            .any(|pair| pair[0] == "lock" || (pair[0] == "for" && strengths.contains(&pair[1])));
        let mut touched = Self::default();
        for (at, word) in words.iter().enumerate() {
            if !tables.contains(*word) {
                continue;
            }
            let before = |back: usize| at.checked_sub(back).map_or("", |at| words[at]);
            let changes = ["into", "update"].contains(&before(1))
                || (before(1), before(2)) == ("from", "delete");
            if changes || locks {
                touched.changed.insert((*word).to_owned());
            }
            touched.named.insert((*word).to_owned());
        }
        touched
    }

    /// Adds what others are about.
    pub(crate) fn add(&mut self, other: &Self) {
        self.named.extend(other.named.iter().cloned());
        self.changed.extend(other.changed.iter().cloned());
    }

    /// Whether no table is named.
    pub(crate) fn is_empty(&self) -> bool {
        self.named.is_empty()
    }

    /// Whether the order of the two can matter: one changes what the other reads or changes.
    pub(crate) fn meets(&self, other: &Self) -> bool {
        let looks =
            |one: &Self, other: &Self| one.named.contains(LOCKS) && !other.changed.is_empty();
        !self.changed.is_disjoint(&other.named)
            || !self.named.is_disjoint(&other.changed)
            || looks(self, other)
            || looks(other, self)
    }
}

/// Messages that the server answers together.
#[derive(Clone, Debug, Default)]
pub(super) struct Group {
    bytes: Vec<u8>,
    texts: Vec<Arc<str>>,
    /// The tables of its statements; of the end of a transaction, those of all its statements.
    pub(super) touched: Touched,
    /// Whether a `ReadyForQuery` ends its answer.
    pub(super) is_answered: bool,
}

impl Group {
    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The statements, for people: their first words.
    pub(super) fn label(&self) -> String {
        let words = self.texts.iter().map(|text| {
            let words: Vec<&str> = text.split_whitespace().collect();
            let words = words.join(" ");
            words.chars().take(LABEL_CHARS_MAX).collect::<String>()
        });
        words.collect::<Vec<String>>().join("; ")
    }
}

/// Reads the groups of one connection.
#[derive(Debug)]
pub(super) struct Groups {
    tables: Arc<BTreeSet<String>>,
    prepared: HashMap<Vec<u8>, Arc<str>>,
    bound: HashMap<Vec<u8>, Arc<str>>,
    /// The tables of the transaction that is open, where one was begun by name.
    transaction: Option<Touched>,
    gathering: Group,
}

impl Groups {
    /// Of a connection to a database with these tables.
    pub(super) fn new(tables: Arc<BTreeSet<String>>) -> Self {
        Self {
            tables,
            prepared: HashMap::new(),
            bound: HashMap::new(),
            transaction: None,
            gathering: Group::default(),
        }
    }

    /// Adds a message; gives the group that it completes.
    pub(super) fn push(&mut self, frame: &Frame) -> Option<Group> {
        let mut texts = frame.texts();
        let mut text = || texts.next().unwrap_or_default().to_vec();
        match frame.kind() {
            b'P' => {
                let (name, statement) = (text(), text());
                self.prepared.insert(name, shared(&statement));
            }
            b'B' => {
                let (portal, name) = (text(), text());
                if let Some(statement) = self.prepared.get(&name) {
                    self.bound.insert(portal, statement.clone());
                }
            }
            b'E' => {
                if let Some(statement) = self.bound.get(&text()).cloned() {
                    self.carry_out(statement);
                }
            }
            b'Q' => {
                let statement = text();
                self.carry_out(shared(&statement));
                let patient = patient(&String::from_utf8_lossy(&statement));
                let patient = [patient.as_bytes(), b"\0"].concat();
                return Some(self.complete(&Frame::new(b'Q', &patient), true));
            }
            b'S' => return Some(self.complete(frame, true)),
            // They belong to the group that gathers.
            b'D' | b'C' => {}
            // A password, a copy, a farewell: they go on at once, with what gathers.
            _ => return Some(self.complete(frame, false)),
        }
        self.gathering.bytes.extend(frame.as_bytes());
        None
    }

    fn complete(&mut self, last: &Frame, is_answered: bool) -> Group {
        let mut group = std::mem::take(&mut self.gathering);
        group.bytes.extend(last.as_bytes());
        group.is_answered = is_answered;
        group
    }

    fn carry_out(&mut self, statement: Arc<str>) {
        let first = statement.split(|c: char| !c.is_ascii_alphabetic()).next();
        let first = first.unwrap_or_default().to_ascii_lowercase();
        let touched = Touched::read(&statement, &self.tables);
        if ["begin", "start"].contains(&first.as_str()) {
            self.transaction = Some(Touched::default());
        } else if ENDS.contains(&first.as_str()) {
            let transaction = self.transaction.take().unwrap_or_default();
            self.gathering.touched.add(&transaction);
        } else if let Some(transaction) = &mut self.transaction {
            transaction.add(&touched);
        }
        self.gathering.touched.add(&touched);
        self.gathering.texts.push(statement);
    }
}

fn shared(text: &[u8]) -> Arc<str> {
    String::from_utf8_lossy(text).into()
}

/// The limits of a session a hundredfold, so that no session ends because it is held at the gate.
fn patient(text: &str) -> String {
    let mut rest = text;
    let mut patient = String::with_capacity(text.len());
    while let Some(at) = rest.find(LIMIT) {
        let digits = at + LIMIT.len();
        let length = rest[digits..]
            .bytes()
            .take_while(u8::is_ascii_digit)
            .count();
        let (limit, behind) = rest.split_at(digits + length);
        patient.push_str(limit);
        if length > 0 && behind.starts_with("s'") {
            patient.push_str("00");
        }
        rest = behind;
    }
    patient + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tables() -> BTreeSet<String> {
        ["queue", "waits", "runs", LOCKS].map(str::to_owned).into()
    }

    fn groups() -> Groups {
        Groups::new(Arc::new(tables()))
    }

    fn names(names: &BTreeSet<String>) -> Vec<&str> {
        names.iter().map(String::as_str).collect()
    }

    fn query(groups: &mut Groups, text: &str) -> Group {
        let frame = Frame::new(b'Q', format!("{text}\0").as_bytes());
        groups.push(&frame).expect("a query is a group")
    }

    #[test]
    fn a_prepared_statement_is_known_when_it_is_carried_out() {
        let mut groups = groups();
        let text = "UPDATE queue q SET due_at = moment() FROM waits w WHERE w.run_id = q.run_id";
        let parse = Frame::new(b'P', format!("s1\0{text}\0\0\0").as_bytes());

        assert!(groups.push(&parse).is_none());
        assert!(groups.push(&Frame::new(b'D', b"Ss1\0")).is_none());
        let prepared = groups.push(&Frame::new(b'S', b"")).unwrap();
        assert!(
            groups
                .push(&Frame::new(b'B', b"\0s1\0\0\0\0\0\0\0"))
                .is_none()
        );
        assert!(groups.push(&Frame::new(b'E', b"\0\0\0\0\0")).is_none());
        let executed = groups.push(&Frame::new(b'S', b"")).unwrap();

        assert!(prepared.touched.is_empty(), "a preparation does nothing");
        assert_eq!(names(&executed.touched.named), ["queue", "waits"]);
        assert_eq!(names(&executed.touched.changed), ["queue"]);
        assert!(prepared.is_answered && executed.is_answered);
        assert!(executed.label().starts_with("UPDATE queue q SET"));
        assert!(executed.as_bytes().ends_with(b"S\0\0\0\x04"));
    }

    #[test]
    fn the_end_of_a_transaction_is_about_all_that_it_did() {
        let mut groups = groups();

        let begin = query(&mut groups, "BEGIN");
        query(&mut groups, "DELETE FROM waits");
        query(&mut groups, "SELECT FROM runs");
        let commit = query(&mut groups, "COMMIT");
        let empty = query(&mut groups, "");

        assert!(begin.touched.is_empty() && empty.touched.is_empty());
        assert_eq!(names(&commit.touched.named), ["runs", "waits"]);
        assert_eq!(names(&commit.touched.changed), ["waits"]);
    }

    #[test]
    fn two_statements_meet_where_one_changes_what_the_other_reads() {
        let touched = |text| Touched::read(text, &tables());
        let (reads, locks) = (
            touched("SELECT id FROM waits"),
            touched("SELECT run_id FROM queue WHERE run_id = ANY ($1) FOR UPDATE"),
        );
        let upsert =
            touched("INSERT INTO waits (id) SELECT 1 ON CONFLICT (id) DO UPDATE SET id = 2");

        assert!(upsert.meets(&reads) && reads.meets(&upsert));
        assert!(!reads.meets(&reads) && !reads.meets(&locks));
        assert!(locks.meets(&touched("SELECT FROM queue")));
        let looks = touched("SELECT l.virtualtransaction FROM pg_locks l");
        assert!(looks.meets(&locks) && locks.meets(&looks) && !looks.meets(&reads));
    }

    #[test]
    fn the_limits_of_a_session_are_a_hundredfold() {
        let settings = "SET jit = off; SET statement_timeout = '15s'; SET lock_timeout = '5s';";
        let longer = "SET jit = off; SET statement_timeout = '1500s'; SET lock_timeout = '500s';";

        let group = query(&mut groups(), settings);

        assert_eq!(
            group.as_bytes(),
            Frame::new(b'Q', format!("{longer}\0").as_bytes()).as_bytes()
        );
        assert_eq!(patient("x_timeout = '"), "x_timeout = '");
    }
}

//! Turns: one rehearsal runs on a server at a time, and this says which is next.
//!
//! ```text
//! ask ─▶ place (by namespace) ─▶ wait ─▶ turn ─▶ its cases are charged ─▶ the next turn
//! ```
//!
//! A namespace has a few places, so that the author of one takes none from another; some are left to
//! namespaces that serve, which have a live release and may need a fix of it at once. Turns are shared by
//! cases played, because one rehearsal may cost a hundred times another: first among three groups
//! (namespaces that serve, the others, rehearsals that nobody asked for), then among the namespaces of the
//! group. The one that has had least is next. A newcomer has no credit for the time before it came: it begins where
//! the latest turn began (start-time fair queuing). A rehearsal that runs is not interrupted.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

/// How many rehearsals there are on a server, the running one among them.
const PLACES: usize = 60;

/// How many of them are of namespaces that do not serve.
const PLACES_OF_OTHERS: usize = 30;

/// How many of them one namespace has.
pub(crate) const PLACES_EACH: usize = 5;

/// Cases that a rehearsal costs besides its own: it makes a schema with all tables.
const BASE_COST: u64 = 20;

/// For whom a rehearsal is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Group {
    /// Asked for in a namespace that has a live release.
    Serving,
    /// Asked for in another namespace.
    Other,
    /// Of a live release that is not proven; nobody asked for it.
    Background,
}

impl Group {
    const ALL: [Self; 3] = [Self::Serving, Self::Other, Self::Background];
}

/// The namespace and group that places and turns are counted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Party {
    pub(crate) namespace_id: i32,
    pub(crate) group: Group,
}

/// The places and turns of one server. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct Turns(Arc<Mutex<Line>>);

#[derive(Default)]
struct Line {
    /// How many places each namespace has taken.
    places: HashMap<i32, usize>,
    places_of_others: usize,
    running: Option<Party>,
    /// In the order in which they came.
    waiting: Vec<Waiting>,
    /// By group, in the order of [`Group::ALL`].
    accounts: [Account; 3],
    /// The account of the group that had the latest turn, as it was then.
    virtual_time: u64,
}

struct Waiting {
    party: Party,
    wake: oneshot::Sender<Turn>,
}

/// How many cases were played for a group.
#[derive(Default)]
struct Account {
    all: u64,
    by_namespace: HashMap<i32, u64>,
    /// The account of the namespace that had the latest turn of the group, as it was then.
    virtual_time: u64,
}

/// A place. Dropping it leaves.
pub(crate) struct Seat {
    turns: Turns,
    party: Party,
}

/// The turn to run. Dropping it charges its party and gives the next one its turn.
pub(crate) struct Turn {
    turns: Turns,
    party: Party,
    cost: u64,
}

impl Turns {
    /// Takes a place; none where the namespace has all of its own, or the server has none left.
    pub(crate) fn enter(&self, party: Party) -> Option<Seat> {
        self.lock().enter(party).then(|| Seat {
            turns: self.clone(),
            party,
        })
    }

    /// Whether a namespace has no rehearsal here.
    pub(crate) fn has_none_of(&self, namespace_id: i32) -> bool {
        !self.lock().places.contains_key(&namespace_id)
    }

    /// The turn, once it comes.
    pub(crate) async fn take(&self, party: Party) -> Option<Turn> {
        let (wake, woken) = oneshot::channel();
        self.lock().arrive(Waiting { party, wake });
        self.pass();
        woken.await.ok()
    }

    /// Gives the next one its turn, unless one runs.
    fn pass(&self) {
        let next = self.lock().take_next();
        if let Some(Waiting { party, wake }) = next {
            let turn = Turn {
                turns: self.clone(),
                party,
                cost: BASE_COST,
            };
            // One that no longer waits drops its turn, which passes it on.
            drop(wake.send(turn));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Line> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Line {
    fn enter(&mut self, party: Party) -> bool {
        let all: usize = self.places.values().sum();
        let own = self.places.get(&party.namespace_id).copied();
        let is_other = party.group == Group::Other;
        if all >= PLACES
            || own.unwrap_or_default() >= PLACES_EACH
            || (is_other && self.places_of_others >= PLACES_OF_OTHERS)
        {
            return false;
        }
        *self.places.entry(party.namespace_id).or_default() += 1;
        self.places_of_others += usize::from(is_other);
        true
    }

    fn leave(&mut self, party: Party) {
        self.places_of_others -= usize::from(party.group == Group::Other);
        if let Some(own) = self.places.get_mut(&party.namespace_id) {
            *own -= 1;
            if *own == 0 {
                self.places.remove(&party.namespace_id);
            }
        }
    }

    fn arrive(&mut self, waiting: Waiting) {
        let party = waiting.party;
        let here = || self.waiting.iter().map(|one| one.party).chain(self.running);
        let has_group = here().any(|one| one.group == party.group);
        let has_namespace = here().any(|one| one == party);
        let now = self.virtual_time;
        let account = &mut self.accounts[party.group as usize];
        if !has_group {
            account.all = account.all.max(now);
        }
        if !has_namespace {
            let own = account.by_namespace.entry(party.namespace_id).or_default();
            *own = account.virtual_time.max(*own);
        }
        self.waiting.push(waiting);
    }

    /// Takes out the next one, which runs from now on; none while one runs.
    fn take_next(&mut self) -> Option<Waiting> {
        if self.running.is_some() {
            return None;
        }
        let waits = |group: &Group| self.waiting.iter().any(|one| one.party.group == *group);
        let group = Group::ALL
            .into_iter()
            .filter(waits)
            .min_by_key(|group| self.accounts[*group as usize].all)?;
        let account = &self.accounts[group as usize];
        let spent = |namespace_id: i32| account.by_namespace.get(&namespace_id).copied();
        let (place, spent) = self
            .waiting
            .iter()
            .enumerate()
            .filter(|(_, one)| one.party.group == group)
            .map(|(place, one)| (place, spent(one.party.namespace_id).unwrap_or_default()))
            .min_by_key(|(_, spent)| *spent)?;
        self.virtual_time = account.all;
        self.accounts[group as usize].virtual_time = spent;
        let next = self.waiting.remove(place);
        self.running = Some(next.party);
        Some(next)
    }

    fn end(&mut self, party: Party, cost: u64) {
        self.running = None;
        let waiting = &self.waiting;
        let account = &mut self.accounts[party.group as usize];
        account.all += cost;
        *account.by_namespace.entry(party.namespace_id).or_default() += cost;
        // Of one that is not here and would begin anew as if it had never been, nothing is kept.
        let now = account.virtual_time;
        account.by_namespace.retain(|namespace_id, spent| {
            let own = Party {
                namespace_id: *namespace_id,
                group: party.group,
            };
            *spent > now || waiting.iter().any(|one| one.party == own)
        });
    }
}

impl Turn {
    /// Charges the cases that were played.
    pub(crate) fn charge(&mut self, cases: usize) {
        self.cost += u64::try_from(cases).unwrap_or(u64::MAX >> 1);
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.turns.lock().end(self.party, self.cost);
        self.turns.pass();
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.turns.lock().leave(self.party);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(namespace_id: i32, group: Group) -> Party {
        Party {
            namespace_id,
            group,
        }
    }

    /// The order in which rehearsals have their turns that came while another one ran. Each is a party and
    /// its cases.
    async fn order_of(first: Party, others: &[(Party, usize)]) -> Vec<i32> {
        let turns = Turns::default();
        let running = turns.take(first).await;
        let order: Arc<Mutex<Vec<i32>>> = Arc::default();
        let mut tasks = Vec::new();
        for (party, cases) in others.iter().copied() {
            let (turns, order) = (turns.clone(), order.clone());
            tasks.push(tokio::spawn(async move {
                let mut turn = turns.take(party).await.unwrap();
                order.lock().unwrap().push(party.namespace_id);
                turn.charge(cases);
            }));
            tokio::task::yield_now().await;
        }
        drop(running);
        for task in tasks {
            task.await.unwrap();
        }
        let order = order.lock().unwrap();
        order.clone()
    }

    #[tokio::test]
    async fn who_asks_again_and_again_keeps_nobody_else_from_the_next_turn() {
        let (noisy, quiet) = (of(1, Group::Other), of(2, Group::Other));

        let order = order_of(
            noisy,
            &[(noisy, 900), (noisy, 900), (noisy, 900), (quiet, 1)],
        )
        .await;

        assert_eq!(order, [2, 1, 1, 1]);
    }

    #[tokio::test]
    async fn turns_are_shared_by_cases_and_not_by_their_number() {
        let (large, small) = ((of(1, Group::Other), 100), (of(2, Group::Other), 10));
        let asked = [large, large, large, small, small, small, small, small];

        let order = order_of(of(3, Group::Other), &asked).await;

        assert_eq!(
            order,
            [1, 2, 2, 2, 2, 1, 2, 1],
            "120 cases and 30 cases each"
        );
    }

    #[tokio::test]
    async fn namespaces_that_serve_have_a_share_however_many_others_wait() {
        let others = (10..20).map(|namespace_id| (of(namespace_id, Group::Other), 80));
        let serving = [(of(1, Group::Serving), 80), (of(2, Group::Serving), 80)];
        let background = [(of(10, Group::Background), 80)];
        let asked: Vec<_> = others.chain(background).chain(serving).collect();

        let order = order_of(of(9, Group::Other), &asked).await;

        assert_eq!(order[..4], [1, 10, 10, 2], "one of each group, then again");
    }

    #[tokio::test]
    async fn who_has_not_waited_has_no_credit_for_it() {
        let turns = Turns::default();
        for _ in 0..3 {
            let mut turn = turns.take(of(1, Group::Other)).await.unwrap();
            turn.charge(1_000);
        }

        let held = turns.take(of(1, Group::Other)).await;
        let (wake, _woken) = oneshot::channel();
        let party = of(2, Group::Other);
        turns.lock().arrive(Waiting { party, wake });
        let newcomer = turns.lock().accounts[Group::Other as usize]
            .by_namespace
            .get(&2)
            .copied();

        assert_eq!(
            newcomer,
            Some(3_060),
            "it begins where the latest turn began"
        );
        drop(held);
    }

    #[tokio::test]
    async fn one_that_no_longer_waits_passes_its_turn_on() {
        let turns = Turns::default();
        let running = turns.take(of(1, Group::Other)).await;
        let gone = tokio::spawn({
            let turns = turns.clone();
            async move { turns.take(of(2, Group::Other)).await.is_some() }
        });
        tokio::task::yield_now().await;
        gone.abort();
        assert!(gone.await.is_err());

        drop(running);

        assert!(turns.take(of(3, Group::Other)).await.is_some());
    }

    #[test]
    fn a_namespace_has_its_places_and_those_that_serve_have_some_left() {
        let turns = Turns::default();
        let other = |namespace_id| turns.enter(of(namespace_id, Group::Other));

        let own: Vec<_> = (0..PLACES_EACH).map(|_| other(1)).collect();
        let beyond = other(1);
        let all: Vec<_> = (2..100).map(other).collect();
        let serving = turns.enter(of(200, Group::Serving));

        assert!(own.iter().all(Option::is_some) && beyond.is_none());
        let taken = all.iter().flatten().count();
        assert_eq!(taken, PLACES_OF_OTHERS - PLACES_EACH);
        assert!(serving.is_some() && !turns.has_none_of(200));
        drop((own, all, serving));
        assert!(turns.has_none_of(1) && turns.lock().places_of_others == 0);
    }
}

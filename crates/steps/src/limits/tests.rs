//! Room, rate and breaker of a destination.

use std::collections::BTreeMap;
use std::pin::pin;
use std::task::Poll;

use futures_util::future::join_all;
use futures_util::poll;
use semel_model::connection::{HttpAuth, HttpTarget, Target};
use semel_model::{Connection, Doubt, Receipt};
use serde_json::Value;

use super::*;

impl DestinationLimits {
    /// Finds room, and waits for it.
    async fn enter(&self, to: &Destination) -> Result<Permit, Fault> {
        self.find(to, Asker::Again)?.enter().await
    }

    async fn enter_host(&self, namespace_id: i32, host: String) -> Result<Permit, Fault> {
        let room = self.find_host(namespace_id, host, Asker::Again)?;
        room.enter().await
    }
}

fn destination(name: &str, version: i64, limits: connection::ConnectionLimits) -> Destination {
    let target = Target::Http(HttpTarget {
        base_url: "https://books.example".to_owned(),
        auth: HttpAuth::None,
        headers: Vec::new(),
        trust: None,
        redirects: 0,
    });
    let mut connection = Connection::to(target);
    connection.limits = limits;
    Destination::new(name.to_owned(), 1, version, connection, BTreeMap::new())
}

fn limits(
    concurrency: u32,
    per_second: Option<u32>,
    open_after: u32,
) -> connection::ConnectionLimits {
    connection::ConnectionLimits {
        concurrency,
        per_second,
        open_after,
        open_for: Span::from_secs(600),
    }
}

fn well() -> Outcome {
    Outcome::Done(Receipt::new(Value::Null, None))
}

fn ill() -> Outcome {
    Outcome::InDoubt(Doubt::new("no-answer", ""))
}

fn code(entered: Result<Permit, Fault>) -> String {
    entered
        .map(|_| String::new())
        .unwrap_or_else(|fault| fault.code)
}

/// Whether a call finds no room, and waits for some.
async fn has_to_wait(entering: impl Future<Output = Result<Permit, Fault>>) -> bool {
    poll!(pin!(entering)).is_pending()
}

#[tokio::test]
async fn the_room_of_a_connection_is_divided_by_the_servers() {
    let all = DestinationLimits::default();
    let books = destination("books", 1, limits(4, None, 20));
    let mut held = Vec::new();
    for _ in 0..4 {
        held.push(all.enter(&books).await.unwrap());
    }

    all.divide_by(2);
    held.pop();
    assert!(has_to_wait(all.enter(&books)).await, "given up");
    held.pop();
    assert!(has_to_wait(all.enter(&books)).await, "given up");
    held.pop();
    held.push(all.enter(&books).await.unwrap());
    all.divide_by(9);
    held.clear();
    held.push(all.enter(&books).await.unwrap());
    assert!(has_to_wait(all.enter(&books)).await, "one each");
    all.divide_by(1);
    for _ in 0..3 {
        held.push(all.enter(&books).await.unwrap());
    }
    assert!(has_to_wait(all.enter(&books)).await);
}

#[tokio::test]
async fn the_rate_of_a_connection_is_divided_by_the_servers() {
    let all = DestinationLimits::default();
    let books = destination("books", 1, limits(64, Some(20), 20));
    all.divide_by(2);

    let begun = Instant::now();
    for _ in 0..6 {
        drop(all.enter(&books).await.unwrap());
    }

    let took = begun.elapsed();
    assert!(took >= Duration::from_millis(450), "it took {took:?}");
}

#[tokio::test]
async fn a_full_destination_is_busy_after_a_moment_and_others_are_not() {
    let all = DestinationLimits::default();
    let books = destination("books", 1, limits(2, None, 20));
    let mail = destination("mail", 1, limits(2, None, 20));
    let _held = (
        all.enter(&books).await.unwrap(),
        all.enter(&books).await.unwrap(),
    );

    let others = async {
        let entered = all.enter(&mail).await.is_ok();
        let name = Name::Connection("books".to_owned());
        let lane = all.lane(1, name, 1, &books.connection.limits);
        (entered, lane.waiting.load(Ordering::Acquire))
    };
    let (fault, others) = tokio::join!(all.enter(&books), others);
    let fault = fault.err().unwrap();

    assert_eq!(
        (fault.code.as_str(), fault.retryable),
        ("destination-busy", true)
    );
    assert!(fault.retry_after.is_some());
    assert_eq!(others, (true, 1), "they do not wait with it");
}

#[tokio::test]
async fn the_same_name_in_another_namespace_is_another_destination() {
    let all = DestinationLimits::default();
    let ours = destination("books", 1, limits(1, None, 20));
    let mut theirs = destination("books", 1, limits(1, None, 20));
    theirs.namespace_id = 2;

    let _held = all.enter(&ours).await.unwrap();

    assert!(has_to_wait(all.enter(&ours)).await);
    assert_eq!(code(all.enter(&theirs).await), "");
}

#[tokio::test]
async fn a_rate_is_kept_and_what_exceeds_it_sleeps() {
    let all = Arc::new(DestinationLimits::default());
    let to = Arc::new(destination("books", 1, limits(1000, Some(50), 20)));
    let begun = Instant::now();

    let asked = (0..300).map(|_| {
        let (all, to) = (all.clone(), to.clone());
        tokio::spawn(async move { all.enter(&to).await.map(|_| ()).map_err(|fault| fault.code) })
    });
    let asked = join_all(asked).await;

    let passed = asked
        .iter()
        .filter(|asked| matches!(asked, Ok(Ok(()))))
        .count();
    let waited = begun.elapsed().as_secs_f64();
    assert!(
        passed as f64 <= 5.0 + 50.0 * waited + 1.0,
        "{passed} in {waited} s"
    );
    assert!(passed > 5, "{passed}: of those that waited none got in");
}

#[tokio::test]
async fn failures_in_a_row_pause_a_destination_and_one_trial_ends_the_pause() {
    let all = DestinationLimits::default();
    let to = destination("books", 1, limits(8, None, 3));
    for outcome in [ill(), ill(), well(), ill(), ill(), ill()] {
        all.enter(&to).await.unwrap().outcome(&outcome);
    }

    let fault = all.enter(&to).await.err().unwrap();
    assert_eq!(fault.code, "destination-paused");
    assert!(fault.retryable && fault.retry_after <= Some(Span::from_secs(600)));

    let to = paused_before(&all, "mail");
    let trial = all.enter(&to).await.unwrap();
    assert_eq!(
        code(all.enter(&to).await),
        "destination-paused",
        "one trial at a time"
    );
    trial.outcome(&ill());
    assert_eq!(code(all.enter(&to).await), "destination-paused");

    let to = paused_before(&all, "files");
    drop(all.enter(&to).await.unwrap());
    all.enter(&to).await.unwrap().outcome(&well());
    assert_eq!(code(all.enter(&to).await), "");
}

/// A destination that failed so often, and whose pause has just ended.
fn paused_before(all: &DestinationLimits, name: &str) -> Destination {
    let to = destination(name, 1, limits(8, None, 3));
    let settings = &to.connection.limits;
    let lane = all.lane(1, Name::Connection(name.to_owned()), 1, settings);
    let then = Instant::now() - settings.open_for.to_duration();
    for _ in 0..3 {
        lane.breaker().report(Pass::Usual, Health::Ill, then);
    }
    to
}

#[tokio::test]
async fn own_failures_and_refusals_do_not_open_the_breaker() {
    let all = DestinationLimits::default();
    let to = destination("books", 1, limits(8, None, 1));

    let ours = Outcome::Failed(Fault::passing("lease-lost", "").of(FaultKind::Ours));
    all.enter(&to).await.unwrap().outcome(&ours);
    let refused = Outcome::Failed(Fault::permanent("http-404", ""));
    all.enter(&to).await.unwrap().outcome(&refused);

    assert_eq!(code(all.enter(&to).await), "");
}

#[tokio::test]
async fn a_changed_connection_takes_its_new_settings() {
    let all = DestinationLimits::default();
    let old = destination("books", 1, limits(1, None, 1));
    all.enter(&old).await.unwrap().outcome(&ill());
    assert_eq!(code(all.enter(&old).await), "destination-paused");

    let new = destination("books", 2, limits(2, None, 1));
    let _held = (
        all.enter(&new).await.unwrap(),
        all.enter(&new).await.unwrap(),
    );

    assert!(has_to_wait(all.enter(&new)).await);
    assert!(
        has_to_wait(all.enter(&old)).await,
        "the old goes by the new"
    );
}

#[tokio::test]
async fn a_host_without_a_connection_gets_a_share_and_others_keep_theirs() {
    let all = DestinationLimits::for_capacity(32);
    let tarpit = || all.enter_host(1, "tarpit.example:443".to_owned());
    let mut held = Vec::new();
    for _ in 0..8 {
        held.push(tarpit().await.unwrap());
    }

    assert!(has_to_wait(tarpit()).await);
    let other = all.enter_host(1, "books.example:443".to_owned()).await;
    assert_eq!(code(other), "");
    let theirs = all.enter_host(2, "tarpit.example:443".to_owned()).await;
    assert_eq!(code(theirs), "", "another namespace has its own share");
    let named = destination("tarpit.example:443", 1, limits(1, None, 20));
    assert_eq!(code(all.enter(&named).await), "", "a connection is another");
}

#[tokio::test]
async fn only_so_many_wait_for_room() {
    let all = DestinationLimits::default();
    let to = destination("books", 1, limits(1, None, 20));
    let _held = all.enter(&to).await.unwrap();

    let (mut refused, mut waiting) = (Vec::new(), Vec::new());
    for _ in 0..500 {
        let mut asked = Box::pin(all.enter(&to));
        match poll!(&mut asked) {
            Poll::Ready(entered) => refused.push(code(entered)),
            Poll::Pending => waiting.push(asked),
        }
    }
    let line = waiting.len();
    refused.extend(join_all(waiting).await.into_iter().map(code));

    assert_eq!(line, WAITING_MIN, "the others come back later");
    assert!(refused.iter().all(|code| code == "destination-busy"));
    assert_eq!(refused.len(), 500);
}

#[tokio::test]
async fn room_that_is_not_used_is_given_back() {
    let all = DestinationLimits::default();
    let one_place = destination("books", 1, limits(1, None, 20));
    let one_turn = destination("mail", 1, limits(64, Some(1), 20));

    for to in [&one_place, &one_turn] {
        for _ in 0..40 {
            let room = all.find(to, Asker::First);
            assert!(room.is_ok(), "{}", to.name);
        }
        assert_eq!(code(all.enter(to).await), "", "nothing was used up");
    }
}

#[tokio::test]
async fn neither_a_place_nor_a_turn_is_waited_for_beyond_the_limit() {
    let all = DestinationLimits::default();
    let one_place = destination("books", 1, limits(1, None, 20));
    let one_turn = destination("mail", 1, limits(64, Some(1), 20));
    let _held = all.enter(&one_place).await.unwrap();
    drop(all.enter(&one_turn).await.unwrap());

    for to in [&one_place, &one_turn] {
        let room = all.find(to, Asker::First).unwrap();
        let entered = room.enter_within(Duration::ZERO).await;
        assert_eq!(code(entered), "destination-busy", "{}", to.name);
    }
}

#[tokio::test]
async fn room_is_refused_at_once_and_each_caller_is_told_a_time_of_its_own() {
    let all = DestinationLimits::default();
    let to = destination("books", 1, limits(6_400, Some(1), 20));
    all.divide_by(60);

    let found: Vec<_> = (0..20).map(|_| all.find(&to, Asker::First)).collect();

    let told: Vec<u64> = found
        .iter()
        .filter_map(|found| found.as_ref().err()?.retry_after)
        .map(Span::as_millis)
        .collect();
    assert_eq!(told.len(), 19, "one has a turn");
    for pair in told.windows(2) {
        let apart = pair[1] - pair[0];
        assert!((50_000..=60_000).contains(&apart), "{told:?}");
    }
}

#[tokio::test]
async fn a_trial_that_is_not_made_leaves_the_next_one_to_be_the_trial() {
    let all = DestinationLimits::default();
    let to = paused_before(&all, "books");

    let trial = all.find(&to, Asker::First);
    assert!(trial.is_ok());
    let other = all.find(&to, Asker::First).err().unwrap();
    assert_eq!(other.code, "destination-paused");
    drop(trial);

    assert_eq!(code(all.enter(&to).await), "");
}

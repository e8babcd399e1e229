//! Tests of when a duty is late, who takes it, and what operators are told.

use semel_model::SessionId;
use semel_store::duties::DutyDone;

use super::*;
use crate::runtime::Roster;

const LATE_AFTER: Duration = Duration::from_secs(30);

fn at(secs: u64) -> Timestamp {
    Timestamp::UNIX_EPOCH + Duration::from_secs(1_000_000 + secs)
}

fn done(secs: u64, by: &str) -> Option<DutyDone> {
    let by = by.to_owned();
    Some(DutyDone { at: at(secs), by })
}

/// A duty that a holder, and another server, last finished at these times.
fn mark(finished: Option<DutyDone>, covered: Option<DutyDone>) -> Vec<DutyMark> {
    vec![DutyMark {
        duty: "keys".to_owned(),
        finished,
        covered,
        failed: None,
    }]
}

/// A process that has watched since the second 0, with one duty and one service of its own.
fn watching() -> Duties {
    let duties = Duties::default();
    duties.register("keys", Some(1), LATE_AFTER);
    duties.register("own", None, LATE_AFTER);
    duties.follow(at(0), Vec::new());
    duties
}

fn view(duties: &Duties, now: Timestamp) -> ServiceView {
    let me = SessionId::generate();
    let roster = Roster::new(me, vec![me]);
    let record = duties.find("keys").unwrap();
    ServiceView::of_duty(&record, &lock(&duties.marks), now, &roster)
}

#[test]
fn a_duty_is_taken_by_the_next_server_when_it_is_late_and_by_more_when_that_one_is_silent_too() {
    let duties = watching();
    let more = |now: u64| duties.list_more_holders(at(now)).get("keys").copied();

    duties.follow(at(100), mark(done(100, "a"), None));
    let in_time = (more(100), more(130));
    let late = (more(131), more(160));
    let very_late = more(161);
    duties.follow(at(165), mark(done(100, "a"), done(165, "b")));
    let covered = (more(165), more(195));
    duties.follow(at(200), mark(done(199, "a"), done(198, "b")));
    let again_in_time = more(200);

    assert_eq!(in_time, (None, None));
    assert_eq!(late, (Some(1), Some(1)));
    assert_eq!(very_late, Some(MORE_HOLDERS_MAX));
    assert_eq!(
        covered,
        (Some(1), Some(1)),
        "until a holder finishes a pass"
    );
    assert_eq!(again_in_time, None);
}

#[test]
fn silence_counts_from_when_the_table_is_watched_without_a_gap() {
    let duties = watching();
    duties.follow(at(1), mark(None, None));
    let never_done = duties.list_more_holders(at(40)).len();

    duties.lose_sight();
    let unseen = duties.list_more_holders(at(90)).len();
    duties.follow(at(100), mark(None, None));
    let seen_again = duties.list_more_holders(at(110)).len();
    let silent = duties.list_more_holders(at(131)).len();

    assert_eq!(never_done, 1, "a duty that nobody ever finished is late");
    assert_eq!((unseen, seen_again), (0, 0), "nobody could write");
    assert_eq!(silent, 1);
}

#[test]
fn a_late_duty_says_what_stays_undone_and_what_to_do() {
    let duties = watching();

    duties.follow(at(100), mark(done(90, "host 1"), None));
    let in_time = view(&duties, at(100));
    let hangs = view(&duties, at(200));
    let mut failing = mark(done(90, "host 1"), None);
    failing[0].failed = done(95, "host 2").map(|done| (done, "no room".to_owned()));
    duties.follow(at(200), failing);
    let fails = view(&duties, at(200));
    duties.follow(at(200), mark(done(90, "host 1"), done(199, "host 3")));
    let covered = view(&duties, at(200));

    assert_eq!(in_time.timeliness, Timeliness::OnTime);
    assert_eq!((in_time.silent.as_secs(), in_time.what_to_do()), (10, None));
    assert_eq!(
        (hangs.timeliness, hangs.silent.as_secs()),
        (Timeliness::Late, 110)
    );
    let told = hangs.what_to_do().unwrap();
    assert!(told.contains("log of host 1 for keys"), "{told}");
    let told = fails.what_to_do().unwrap();
    assert!(told.contains("fail on host 2: no room"), "{told}");
    assert_eq!(covered.timeliness, Timeliness::Covered);
    let told = covered.what_to_do().unwrap();
    assert!(told.starts_with("host 3 does it meanwhile"), "{told}");
}

#[test]
fn a_service_of_every_server_is_judged_by_its_own_process_and_says_nothing_to_others() {
    let duties = Duties::default();
    let prompt = duties.register("prompt", None, Duration::MAX);
    let late = duties.register("late", None, Duration::ZERO);

    prompt.begin();
    prompt.finish(PassBy::Holder);
    late.fail(PassBy::Holder, "no room");

    let own = |record: &ServiceRecord| ServiceView::of_own(record, at(0), "host 1");
    assert_eq!(own(&prompt).timeliness, Timeliness::OnTime);
    assert_eq!(own(&prompt).finished_by.as_deref(), Some("host 1"));
    let late = own(&late);
    assert!(
        late.timeliness == Timeliness::Late && late.is_failing,
        "{late:?}"
    );
    assert!(duties.take_notes().is_empty());
}

#[test]
fn every_service_says_what_stays_undone() {
    for service in ["retention_keys", "poller", "outbox_dispatch", "duty_marks"] {
        let told = super::view::undone(service);
        assert_ne!(told, super::view::undone("unknown"), "{service}");
    }
}

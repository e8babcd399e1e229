//! Each sentence about a key, and when it is said.

use jiff::Timestamp;
use semel_model::RunId;
use uuid::Uuid;

use super::*;

fn run(number: u128) -> RunId {
    RunId::from_uuid(Uuid::from_u128(number))
}

fn step(counts: StoryCounts) -> StepStory {
    StepStory {
        step: "charge".to_owned(),
        kind: "http".to_owned(),
        in_children: false,
        counts,
        external_ids: vec!["ch_77".to_owned()],
        runs: vec![run(1)],
        met_by: Vec::new(),
        first_at: Timestamp::UNIX_EPOCH,
        last_at: Timestamp::UNIX_EPOCH,
    }
}

fn story(steps: Vec<StepStory>) -> KeyStory {
    KeyStory {
        steps,
        names: Vec::new(),
        is_whole: true,
    }
}

fn said(counts: StoryCounts) -> String {
    sentences(&story(vec![step(counts)])).join(" ")
}

fn said_of_items(counts: StoryCounts) -> String {
    let step = StepStory {
        in_children: true,
        external_ids: Vec::new(),
        ..step(counts)
    };
    sentences(&story(vec![step])).join(" ")
}

fn none() -> StoryCounts {
    StoryCounts::default()
}

#[test]
fn nothing_was_done_is_said_only_where_nothing_is_known_and_nothing_is_missing() {
    let unread = KeyStory {
        is_whole: false,
        ..story(Vec::new())
    };
    let least = KeyStory {
        is_whole: false,
        ..story(vec![step(StoryCounts {
            done: 1,
            places: 1,
            ..none()
        })])
    };

    assert_eq!(sentences(&story(Vec::new())), ["Nothing was done."]);
    assert!(sentences(&unread)[0].starts_with("What was done cannot be told"));
    let least = sentences(&least);
    assert!(least[0].ends_with("at least this is known."), "{least:?}");
    assert_eq!(least[1], "charge was done once (ch_77).");
}

#[test]
fn what_was_performed_is_told_with_what_became_of_it() {
    let once = StoryCounts {
        done: 1,
        places: 1,
        ..none()
    };
    let undone = StoryCounts {
        undone: 1,
        places: 1,
        ..none()
    };
    let again = StoryCounts { done: 2, ..once };
    let partly = StoryCounts {
        done: 1,
        undone: 1,
        places: 1,
        ..none()
    };
    let unknown = StoryCounts {
        undo_in_doubt: 1,
        places: 1,
        ..none()
    };

    assert_eq!(said(once), "charge was done once (ch_77).");
    assert_eq!(
        said(undone),
        "charge was done once (ch_77) and undone: it does not stand."
    );
    assert_eq!(
        said(again),
        "charge was done 2 times (ch_77): an operator had it performed again, or the key came back as a \
         new intent."
    );
    assert!(said(partly).ends_with("new intent. 1 of 2 was undone."));
    assert_eq!(
        said(unknown),
        "charge was done once (ch_77). Whether charge was undone is unknown."
    );
}

#[test]
fn items_and_branches_are_counted_and_a_second_time_is_said() {
    let each = StoryCounts {
        done: 50,
        places: 50,
        not_done: 2,
        in_doubt: 1,
        ..none()
    };
    let twice = StoryCounts {
        done: 4,
        places: 3,
        ..none()
    };
    let gone = StoryCounts {
        undone: 2,
        places: 2,
        ..none()
    };

    assert_eq!(
        said_of_items(each),
        "charge was done 50 times, once in each of 50 items or branches. Whether charge happened is \
         unknown. charge was not done in 2 other items or branches."
    );
    assert!(
        said_of_items(twice)
            .starts_with("charge was done 4 times in 3 items or branches: an operator")
    );
    assert!(said_of_items(gone).ends_with("All of them were undone: none stands."));
}

#[test]
fn what_others_had_made_is_no_second_time() {
    let met = StoryCounts { met: 1, ..none() };
    let by_one = StepStory {
        met_by: vec!["run_b".to_owned()],
        ..step(met)
    };
    let found = StoryCounts { found: 1, ..none() };

    assert_eq!(
        sentences(&story(vec![by_one])),
        ["charge had been done by run_b already (ch_77); nothing was sent again."]
    );
    assert!(said(met).contains("by another holder of its business key already"));
    assert_eq!(
        said(found),
        "charge had been at its destination already (ch_77); nothing was sent."
    );
}

#[test]
fn a_named_effect_is_told_unless_the_steps_tell_it() {
    let name = |state, run, reuse_count| NameStory {
        scope: "shared".to_owned(),
        state,
        run,
        holder_name: None,
        external_id: None,
        reuse_count,
    };
    let done = StoryCounts {
        done: 1,
        places: 1,
        ..none()
    };
    let with = |names| {
        let known = KeyStory {
            names,
            ..story(vec![step(done)])
        };
        sentences(&known)[1..].join(" ")
    };
    let is_done = NamedEffectState::Done;

    assert_eq!(with(vec![name(is_done, Some(run(1)), 0)]), "");
    assert_eq!(
        with(vec![name(is_done, Some(run(1)), 2)]),
        "Under its business key in shared, 2 others asked for it and got its result."
    );
    let other = run(2);
    assert_eq!(
        with(vec![name(is_done, Some(other), 0)]),
        format!("It was done once by {other} in shared.")
    );
    assert_eq!(
        with(vec![name(NamedEffectState::InDoubt, None, 0)]),
        "Whether it happened is unknown, in shared."
    );
}

#[test]
fn the_number_of_steps_is_bounded() {
    let steps: Vec<StepStory> = (0..14)
        .map(|_| {
            step(StoryCounts {
                not_done: 1,
                ..none()
            })
        })
        .collect();
    let told = sentences(&story(steps));

    assert_eq!(told.len(), 13);
    assert_eq!(told[12], "2 more steps came to something.");
}

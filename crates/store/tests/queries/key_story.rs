//! What was done under a key: each change once, wherever and whenever runs of the key came to it.

use anyhow::{Context, Result};
use semel_model::RunId;
use semel_store::key_story::{self, LedgerCounts, LedgerStory, StoryOf};
use uuid::Uuid;

use crate::world::World;

const NAMESPACE: i32 = 1;

const RUN: &str = "
    INSERT INTO runs (id, claim_id, namespace_id, release_id, partition_date, state, key, delivery_id,
                      accepted_at, ended_at, parent_id)
    VALUES ($1, $2, 1, 1, current_date - $3::int4, $4::text::run_state, 'k', $1, now(),
            CASE WHEN $4::text IN ('succeeded', 'failed', 'cancelled', 'superseded') THEN now() END, $5)";

const CHILD: &str = "
    INSERT INTO child_runs (parent_id, step, index, run_id, namespace_id, key, state, ended_at, first_id, last_id)
    VALUES ($1, 'each', $2::int4, $3, 1, 'i' || $2::int4::text, 'succeeded', now(), $4, $5)";

const EFFECT: &str = "
    INSERT INTO effects (partition_date, id, run_id, namespace_id, step, kind, guard, state, attempt,
                         intended_at, settled_at, external_id, note)
    SELECT r.partition_date, $1::uuid, r.id, 1, $3::text, 'http', 'key', $4::text::effect_state, $5::int4,
           now() - make_interval(days => current_date - r.partition_date),
           CASE WHEN $4::text <> 'pending' THEN now() END, 'x-' || $5::int4::text, $6::text
      FROM runs r WHERE r.id = $2";

const CLAIM: &str = "
    INSERT INTO claims (id, run_id, fingerprint, run_number, expires_at)
    VALUES ($1, $2, $1, $3, now() + interval '1 day')";

/// One key, whose identities all begin alike.
struct Key<'a> {
    world: &'a World,
    head: u128,
}

/// A run, an item or a branch; the last of the same place before it.
#[derive(Clone, Copy, Default)]
struct Place {
    parent: Option<u64>,
    first: Option<u64>,
    last: Option<u64>,
}

/// What the ledger says of an effect.
#[derive(Clone, Copy)]
struct Entry {
    id: u64,
    run: u64,
    step: &'static str,
    state: &'static str,
    attempt: i32,
    note: Option<&'static str>,
}

const ENTRY: Entry = Entry {
    id: 0,
    run: 0,
    step: "charge",
    state: "done",
    attempt: 1,
    note: None,
};

const MET: &str = "already done by run_1 (eff_2) under its business key; nothing was sent";

impl<'a> Key<'a> {
    fn new(world: &'a World, head: u64) -> Self {
        let head = u128::from(head) << 64;
        Self { world, head }
    }

    fn id(&self, number: u64) -> Uuid {
        Uuid::from_u128(self.head | u128::from(number))
    }

    fn run_id(&self, number: u64) -> RunId {
        RunId::from_uuid(self.id(number))
    }

    /// A run that was accepted so many days ago.
    async fn run(&self, number: u64, days: i32, state: &str, place: Place) -> Result<()> {
        let client = self.world.cell.reader().await?;
        let parent = place.parent.map(|it| self.id(it));
        let (id, claim) = (self.id(number), self.id(0));
        client
            .execute(RUN, &[&id, &claim, &days, &state, &parent])
            .await?;
        if let Some(parent) = parent {
            let (first, last) = (place.first, place.last);
            let (first, last) = (first.map(|it| self.id(it)), last.map(|it| self.id(it)));
            let index = i32::try_from(number)?;
            client
                .execute(CHILD, &[&parent, &index, &id, &first, &last])
                .await?;
        }
        Ok(())
    }

    /// The claim, whose latest run has a number.
    async fn claim(&self, number: i32) -> Result<()> {
        let client = self.world.cell.reader().await?;
        let id = self.id(0);
        client.execute(CLAIM, &[&id, &id, &number]).await?;
        Ok(())
    }

    async fn enter(&self, entry: Entry) -> Result<()> {
        let client = self.world.cell.reader().await?;
        let (id, run) = (self.id(entry.id), self.id(entry.run));
        let (step, state) = (entry.step, entry.state);
        client
            .execute(
                EFFECT,
                &[&id, &run, &step, &state, &entry.attempt, &entry.note],
            )
            .await?;
        Ok(())
    }

    async fn story(&self) -> Result<LedgerStory> {
        self.told(&[StoryOf::Key(self.run_id(0))]).await
    }

    async fn told(&self, of: &[StoryOf]) -> Result<LedgerStory> {
        Ok(key_story::read(self.world.cell.every(), NAMESPACE, of).await?)
    }
}

/// The counts of a step of runs, or of items and branches.
fn counts(story: &LedgerStory, step: &str, is_child: bool) -> Result<LedgerCounts> {
    let mut steps = story.steps.iter();
    let found = steps.find(|it| it.step == step && it.is_child == is_child);
    Ok(found.with_context(|| format!("{step}: {story:?}"))?.counts)
}

fn none() -> LedgerCounts {
    LedgerCounts::default()
}

#[tokio::test]
async fn branches_items_and_what_is_inside_them_are_told_with_the_run() -> Result<()> {
    let world = World::start().await?;
    let key = Key::new(&world, 0x11);
    let (other, inside) = (Key::new(&world, 0x12), |parent| Place {
        parent: Some(parent),
        ..Place::default()
    });
    key.run(0, 0, "succeeded", Place::default()).await?;
    key.run(1, 0, "succeeded", inside(0)).await?;
    key.run(2, 0, "succeeded", inside(0)).await?;
    key.run(3, 0, "succeeded", inside(2)).await?;
    other.run(0, 0, "succeeded", Place::default()).await?;
    for (id, run, step) in [
        (10, 0, "charge"),
        (11, 1, "mail"),
        (12, 2, "mail"),
        (13, 3, "mail"),
    ] {
        let entry = Entry {
            id,
            run,
            step,
            ..ENTRY
        };
        key.enter(entry).await?;
    }
    other.enter(Entry { id: 10, ..ENTRY }).await?;

    let story = key.story().await?;
    let branch = key.told(&[StoryOf::Child(key.run_id(2))]).await?;
    let both = [StoryOf::Key(key.run_id(0)), StoryOf::Child(key.run_id(2))];
    let both = key.told(&both).await?;

    assert!(story.is_whole, "{story:?}");
    let once = LedgerCounts {
        done: 1,
        places: 1,
        ..none()
    };
    assert_eq!(counts(&story, "charge", false)?, once);
    let three = LedgerCounts {
        done: 3,
        places: 3,
        ..none()
    };
    assert_eq!(counts(&story, "mail", true)?, three);
    assert_eq!(branch.steps.len(), 1, "{branch:?}");
    assert_eq!(
        counts(&branch, "mail", true)?.done,
        2,
        "and what is inside it"
    );
    assert_eq!(both.steps, story.steps, "each change once");
    Ok(())
}

#[tokio::test]
async fn what_was_undone_does_not_stand_and_what_was_done_again_is_a_second_time() -> Result<()> {
    let world = World::start().await?;
    let key = Key::new(&world, 0x21);
    key.run(0, 0, "failed", Place::default()).await?;
    key.run(1, 0, "active", Place::default()).await?;
    let undo = |id, state| Entry {
        id,
        step: "charge.undo",
        state,
        ..ENTRY
    };
    key.enter(Entry { id: 10, ..ENTRY }).await?;
    key.enter(undo(11, "done")).await?;
    let undone = key.story().await?;
    key.enter(Entry {
        id: 12,
        run: 1,
        ..ENTRY
    })
    .await?;
    let again = key.story().await?;
    key.enter(undo(13, "in_doubt")).await?;
    let unknown = key.story().await?;

    let gone = LedgerCounts {
        undone: 1,
        places: 1,
        ..none()
    };
    assert_eq!(counts(&undone, "charge", false)?, gone);
    assert_eq!(
        counts(&again, "charge", false)?,
        LedgerCounts { done: 1, ..gone }
    );
    let doubtful = LedgerCounts {
        undo_in_doubt: 1,
        ..gone
    };
    assert_eq!(counts(&unknown, "charge", false)?, doubtful);
    Ok(())
}

#[tokio::test]
async fn what_others_had_made_is_not_counted_as_performed() -> Result<()> {
    let world = World::start().await?;
    let key = Key::new(&world, 0x31);
    key.run(0, 0, "succeeded", Place::default()).await?;
    let met = |id, step, note| Entry {
        id,
        step,
        attempt: 0,
        note: Some(note),
        ..ENTRY
    };
    key.enter(met(10, "charge", MET)).await?;
    key.enter(met(11, "mail", "found before anything was sent"))
        .await?;

    let story = key.story().await?;

    assert_eq!(
        counts(&story, "charge", false)?,
        LedgerCounts { met: 1, ..none() }
    );
    assert_eq!(
        counts(&story, "mail", false)?,
        LedgerCounts { found: 1, ..none() }
    );
    assert_eq!(story.steps[0].notes, [MET]);
    Ok(())
}

/// An effect has one row for each day on which a run of its key came to it.
#[tokio::test]
async fn an_effect_of_several_days_is_one_change() -> Result<()> {
    let world = World::start().await?;
    let key = Key::new(&world, 0x41);
    key.run(0, 3, "failed", Place::default()).await?;
    key.run(1, 0, "succeeded", Place::default()).await?;
    let doubted = Entry {
        id: 10,
        state: "in_doubt",
        ..ENTRY
    };
    let refused = Entry {
        id: 11,
        step: "ship",
        state: "failed",
        ..ENTRY
    };
    key.enter(doubted).await?;
    key.enter(Entry {
        id: 10,
        run: 1,
        ..ENTRY
    })
    .await?;
    key.enter(refused).await?;
    key.enter(Entry {
        run: 1,
        state: "in_doubt",
        ..refused
    })
    .await?;
    // What was performed stays performed, whatever a later row says.
    let bill = Entry {
        id: 12,
        step: "bill",
        ..ENTRY
    };
    key.enter(bill).await?;
    key.enter(Entry {
        run: 1,
        state: "failed",
        ..bill
    })
    .await?;

    let story = key.story().await?;

    let once = LedgerCounts {
        done: 1,
        places: 1,
        ..none()
    };
    assert_eq!(counts(&story, "charge", false)?, once);
    assert_eq!(counts(&story, "bill", false)?, once);
    assert_eq!(
        counts(&story, "ship", false)?,
        LedgerCounts {
            in_doubt: 1,
            ..none()
        }
    );
    Ok(())
}

#[tokio::test]
async fn a_doubt_that_an_operator_gave_up_is_still_a_doubt() -> Result<()> {
    let world = World::start().await?;
    let key = Key::new(&world, 0x51);
    key.run(0, 0, "failed", Place::default()).await?;
    key.run(1, 0, "quarantined", Place::default()).await?;
    let entries = [
        (
            10,
            0,
            "charge",
            "failed",
            Some("given up while in doubt: nobody knows"),
        ),
        (11, 0, "erased", "failed", Some("given up while in doubt")),
        (12, 0, "ship", "failed", None),
        (13, 0, "bill", "retrying", Some("busy")),
        (14, 1, "call", "pending", None),
    ];
    for (id, run, step, state, note) in entries {
        let entry = Entry {
            id,
            run,
            step,
            state,
            note,
            ..ENTRY
        };
        key.enter(entry).await?;
    }

    let story = key.story().await?;

    let in_doubt = LedgerCounts {
        in_doubt: 1,
        ..none()
    };
    let not_done = LedgerCounts {
        not_done: 1,
        ..none()
    };
    for (step, expected) in [
        ("charge", in_doubt),
        ("erased", in_doubt),
        ("ship", not_done),
        ("bill", not_done),
        ("call", in_doubt),
    ] {
        assert_eq!(counts(&story, step, false)?, expected, "{step}");
    }
    Ok(())
}

/// A later run of the key has child runs of its own at the same places.
#[tokio::test]
async fn a_place_counts_once_over_the_runs_of_its_key() -> Result<()> {
    let world = World::start().await?;
    let key = Key::new(&world, 0x61);
    let at = |parent, first, last| Place {
        parent: Some(parent),
        first,
        last,
    };
    key.run(0, 1, "failed", Place::default()).await?;
    key.run(1, 1, "succeeded", at(0, None, None)).await?;
    key.run(2, 1, "failed", at(0, None, None)).await?;
    key.run(3, 0, "succeeded", Place::default()).await?;
    key.run(4, 0, "succeeded", at(3, Some(1), Some(1))).await?;
    key.run(5, 0, "succeeded", at(3, Some(2), Some(2))).await?;
    let mail = Entry {
        step: "mail",
        ..ENTRY
    };
    // The second item was refused first, under another key, and made by the later run.
    key.enter(Entry {
        id: 10,
        run: 1,
        ..mail
    })
    .await?;
    key.enter(Entry {
        id: 11,
        run: 2,
        state: "failed",
        ..mail
    })
    .await?;
    key.enter(Entry {
        id: 12,
        run: 5,
        ..mail
    })
    .await?;

    let story = key.story().await?;
    let reused = key.told(&[StoryOf::Child(key.run_id(4))]).await?;
    let second = key
        .told(&[StoryOf::Step(key.run_id(5), "mail".to_owned())])
        .await?;
    key.enter(Entry {
        id: 13,
        run: 4,
        ..mail
    })
    .await?;
    let again = key.story().await?;

    let two = LedgerCounts {
        done: 2,
        places: 2,
        ..none()
    };
    assert_eq!(counts(&story, "mail", true)?, two, "nothing is left undone");
    let one = LedgerCounts {
        done: 1,
        places: 1,
        ..none()
    };
    assert_eq!(counts(&reused, "mail", true)?, one, "by the run before");
    assert_eq!(counts(&second, "mail", true)?, one);
    let (all, places) = (counts(&again, "mail", true)?.done, two.places);
    assert_eq!((all, counts(&again, "mail", true)?.places), (3, places));
    Ok(())
}

#[tokio::test]
async fn a_story_that_leaves_something_out_says_so() -> Result<()> {
    let world = World::start().await?;
    let (large, old) = (Key::new(&world, 0x71), Key::new(&world, 0x72));
    large.run(0, 0, "succeeded", Place::default()).await?;
    for id in 10..14 {
        large.enter(Entry { id, ..ENTRY }).await?;
    }
    old.run(1, 0, "succeeded", Place::default()).await?;
    old.claim(1).await?;

    let of = [StoryOf::Key(large.run_id(0))];
    let cell = world.cell.every();
    let cut = key_story::read_up_to(cell, NAMESPACE, &of, 3).await?;
    let whole = key_story::read_up_to(cell, NAMESPACE, &of, 4).await?;
    let deleted = old.story().await?;
    let elsewhere = key_story::read(cell, NAMESPACE + 1, &of).await?;

    assert!(!cut.is_whole, "{cut:?}");
    assert!(whole.is_whole, "{whole:?}");
    assert_eq!(counts(&whole, "charge", false)?.done, 4);
    assert!(!deleted.is_whole, "the first run of the key is gone");
    assert_eq!(elsewhere.steps, [], "of another namespace");
    Ok(())
}

//! Who is written together, and who has to wait.

use std::collections::HashSet;

use semel_model::Slot;

use super::*;

/// Items of a thing and, where they have one, an entry that one commit can hold once.
struct Entries;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Item {
    number: u32,
    subject: u128,
    entry: Option<&'static str>,
}

impl Batch for Entries {
    type Item = Item;
    type Answer = ();
    type Gathered = Vec<&'static str>;

    const LANES: usize = 2;
    const SECOND_LANE_FROM: usize = 3;
    const SECOND_LANE_BESIDE: usize = 8;

    fn slot(item: &Item) -> Slot {
        Slot::of(&[item.number as u8; 16])
    }

    fn subject(item: &Item) -> u128 {
        item.subject
    }

    fn admit(gathered: &mut Vec<&'static str>, next: &Item) -> bool {
        let Some(entry) = next.entry else {
            return true;
        };
        let is_new = !gathered.contains(&entry);
        gathered.push(entry);
        is_new
    }

    async fn write(
        &mut self,
        _: &mut WriterConnection,
        _: &mut Vec<Item>,
    ) -> Result<Vec<()>, tokio_postgres::Error> {
        unreachable!("nothing is written here")
    }
}

fn waiting(item: Item) -> Waiting<Entries> {
    let (answer, _) = oneshot::channel();
    Waiting {
        item,
        answer,
        bytes: 0,
    }
}

/// The batches that items go down in, by their numbers.
fn batches(items: impl IntoIterator<Item = (u128, Option<&'static str>)>) -> Vec<Vec<u32>> {
    let numbered = items.into_iter().zip(0..);
    let mut left: VecDeque<_> = numbered
        .map(|((subject, entry), number)| {
            waiting(Item {
                number,
                subject,
                entry,
            })
        })
        .collect();
    let mut batches = Vec::new();
    while !left.is_empty() {
        let gathering = Gathering::<Entries>::begin(left);
        let numbers = gathering.items.iter().map(|item| item.number);
        batches.push(numbers.collect());
        left = gathering.passed_over;
    }
    batches
}

#[test]
fn a_hot_entry_holds_up_only_its_own_writers() {
    let hot = Some("total");
    let items = [
        (1, hot),
        (2, hot),
        (3, None),
        (4, hot),
        (5, Some("other")),
        (6, None),
    ];

    assert_eq!(batches(items), [vec![0, 2, 4, 5], vec![1], vec![3]]);
}

#[test]
fn items_of_one_subject_keep_their_order() {
    let hot = Some("total");
    let items = [(1, hot), (2, hot), (2, None), (3, None), (2, Some("other"))];

    assert_eq!(batches(items), [vec![0, 3], vec![1, 2, 4]]);
}

#[test]
fn a_full_batch_leaves_the_rest_in_order() {
    let most = BATCH_ITEMS_MAX as u32;
    let items = (0..most + 2).map(|number| (u128::from(number), None));

    let batches = batches(items);

    assert_eq!(batches[0].len(), BATCH_ITEMS_MAX);
    assert_eq!(batches[1], [most, most + 1]);
}

#[test]
fn few_callers_share_one_lane_and_many_use_both() {
    let items = (0..64).map(|number| Item {
        number,
        subject: u128::from(number),
        entry: None,
    });
    let lanes = |others, beside| -> HashSet<usize> {
        let items = items.clone();
        items
            .map(|item| lane_of::<Entries>(others, beside, &item))
            .collect()
    };

    assert_eq!(lanes(0, 0), HashSet::from([0]));
    assert_eq!(lanes(2, 9), HashSet::from([0]));
    assert_eq!(lanes(3, 0), HashSet::from([0, 1]));
    // Few together with those of the writer beside this one.
    assert_eq!(lanes(3, 4), HashSet::from([0]));
    assert_eq!(lanes(4, 4), HashSet::from([0, 1]));
    assert_eq!(lanes(usize::MAX, 1), HashSet::from([0, 1]));
}

//! What was done, by step, as a table. The counts are those of the story.

use semel_api::types::{KeyStory, StepStory};

use super::markup::{self, Markup};
use super::visit::Visit;

/// The steps of a story.
pub(super) fn table(visit: &Visit, caption: &str, story: &KeyStory) -> Markup {
    rows(visit, caption, story.steps.iter())
}

/// Those of its items and branches; nothing where it has none.
pub(super) fn table_of_children(visit: &Visit, caption: &str, story: &KeyStory) -> Markup {
    let mut inside = story
        .steps
        .iter()
        .filter(|step| step.in_children)
        .peekable();
    match inside.peek() {
        Some(_) => rows(visit, caption, inside),
        None => Markup::default(),
    }
}

fn rows<'a>(visit: &Visit, caption: &str, steps: impl Iterator<Item = &'a StepStory>) -> Markup {
    let number = |count: u64| match count {
        0 => Markup::default(),
        count => Markup::text(&count.to_string()),
    };
    let row = |step: &StepStory| {
        let counts = &step.counts;
        vec![
            markup::code(&step.step),
            Markup::fixed(match step.in_children {
                true => "items and branches",
                false => "runs",
            }),
            number(counts.done),
            number(counts.undone),
            number(counts.met + counts.found),
            number(counts.in_doubt + counts.undo_in_doubt),
            number(counts.under_way + counts.undo_under_way),
            number(counts.not_done),
            Markup::text(&step.external_ids.join(", ")),
            visit.time(step.last_at),
        ]
    };
    let rows: Vec<Vec<Markup>> = steps.map(row).collect();
    let columns = [
        "Step",
        "Of",
        "Done",
        "Undone",
        "Done by others",
        "In doubt",
        "Under way",
        "Not done",
        "External ids",
        "Latest",
    ];
    markup::table(caption, &columns, &rows)
}

//! What was done under a key, in sentences. Pages and commands print them as they are.

use semel_api::types::{KeyStory, NameStory, StepStory, StoryCounts};
use semel_model::NamedEffectState;

/// How many steps are told of at most; of all others, how many there are.
const STEPS_MAX: usize = 12;

/// What was done, what is unknown and what was not done, one sentence for each.
pub(crate) fn sentences(story: &KeyStory) -> Vec<String> {
    up_to(story, STEPS_MAX)
}

/// The same of so many steps.
pub(crate) fn up_to(story: &KeyStory, most: usize) -> Vec<String> {
    let mut told: Vec<String> = Vec::new();
    for step in story.steps.iter().take(most) {
        told.extend(of_step(step));
    }
    let others = story.steps.len().saturating_sub(most);
    match others {
        0 => {}
        1 => told.push("1 more step came to something.".to_owned()),
        others => told.push(format!("{others} more steps came to something.")),
    }
    for name in &story.names {
        told.extend(of_name(name, story));
    }
    match (story.is_whole, told.is_empty()) {
        (true, true) => told.push("Nothing was done.".to_owned()),
        (true, false) => {}
        (false, true) => told.push(
            "What was done cannot be told: there is more than can be counted, or a part of the history was \
             deleted."
                .to_owned(),
        ),
        (false, false) => told.insert(
            0,
            "There is more than can be counted here, or a part of the history was deleted; at least this is \
             known."
                .to_owned(),
        ),
    }
    told
}

fn of_step(of: &StepStory) -> Vec<String> {
    let (step, counts) = (&of.step, of.counts);
    let mut told = Vec::new();
    told.extend(performed(of));
    if counts.undo_in_doubt > 0 {
        let places = within(of, counts.undo_in_doubt);
        told.push(format!("Whether {step} was undone is unknown{places}."));
    }
    if counts.undo_under_way > 0 {
        let places = within(of, counts.undo_under_way);
        told.push(format!("{step} is being undone{places}."));
    }
    if counts.undo_not_done > 0 {
        let places = within(of, counts.undo_not_done);
        told.push(format!(
            "{step} stands{places}: undoing it did not succeed."
        ));
    }
    told.extend(met(of));
    if counts.found > 0 {
        let (ids, places) = (
            ids_where(of, counts.performed() == 0),
            within(of, counts.found),
        );
        told.push(format!(
            "{step} had been at its destination already{ids}{places}; nothing was sent."
        ));
    }
    if counts.in_doubt > 0 {
        let places = within(of, counts.in_doubt);
        told.push(format!("Whether {step} happened is unknown{places}."));
    }
    if counts.under_way > 0 {
        let places = within(of, counts.under_way);
        told.push(format!(
            "{step} has not happened yet{places}, or is happening."
        ));
    }
    if counts.not_done > 0 {
        let places = match told.is_empty() {
            true => within(of, counts.not_done),
            false => elsewhere(of, counts.not_done),
        };
        told.push(format!("{step} was not done{places}."));
    }
    told
}

/// At how many places a step was not done, beside others where it came to something.
fn elsewhere(of: &StepStory, number: u64) -> String {
    match (number, of.in_children) {
        (1, true) => " in 1 other item or branch".to_owned(),
        (number, true) => format!(" in {number} other items or branches"),
        (1, false) => " in 1 other flow".to_owned(),
        (number, false) => format!(" in {number} other flows"),
    }
}

/// How often a step was performed, and how much of that stands.
fn performed(of: &StepStory) -> Option<String> {
    let (step, counts) = (&of.step, of.counts);
    let (all, undone) = (counts.performed(), counts.undone);
    let ids = ids_where(of, true);
    match all {
        0 => None,
        1 if undone == 1 => Some(format!(
            "{step} was done once{ids} and undone: it does not stand."
        )),
        1 => Some(format!("{step} was done once{ids}.")),
        all => {
            let (places, why) = (how_often(of, all), again(of, all));
            let gone = match undone {
                0 => String::new(),
                undone if undone == all => " All of them were undone: none stands.".to_owned(),
                1 => format!(" 1 of {all} was undone."),
                undone => format!(" {undone} of {all} were undone."),
            };
            Some(format!(
                "{step} was done {all} times{places}{ids}{why}.{gone}"
            ))
        }
    }
}

/// At how many places a step was performed.
fn how_often(of: &StepStory, all: u64) -> String {
    let places = of.counts.places;
    match (of.in_children, places == all) {
        (true, true) => format!(", once in each of {all} items or branches"),
        (true, false) if places > 1 => format!(" in {places} items or branches"),
        (true, false) => " in one item or branch".to_owned(),
        (false, true) => format!(", once in each of {all} flows"),
        (false, false) => String::new(),
    }
}

/// Why a step was performed more often than it has places.
fn again(of: &StepStory, all: u64) -> &'static str {
    match of.counts.places < all {
        true => ": an operator had it performed again, or the key came back as a new intent",
        false => "",
    }
}

/// What others had made under the step's business key.
fn met(of: &StepStory) -> Option<String> {
    let (step, counts) = (&of.step, of.counts);
    let ids = ids_where(of, counts.performed() == 0);
    let by = match of.met_by.as_slice() {
        [one] => one.as_str(),
        [] => "another holder of its business key",
        _ => "others",
    };
    match counts.met {
        0 => None,
        1 => Some(format!(
            "{step} had been done by {by} already{ids}; nothing was sent again."
        )),
        number => Some(format!(
            "{step} had been done by {by} already{ids}{}; nothing was sent again.",
            within(of, number)
        )),
    }
}

/// How many items or branches; nothing where one is meant. A step of runs themselves has several only where
/// flows share a key, or an operator had it performed again.
fn within(of: &StepStory, number: u64) -> String {
    match (number, of.in_children) {
        (0 | 1, _) => String::new(),
        (number, true) => format!(" in {number} items or branches"),
        (number, false) => format!(" ({number} times)"),
    }
}

/// What destinations call what was made, where this sentence is the one that tells it.
fn ids_where(of: &StepStory, is_here: bool) -> String {
    let StoryCounts { met, found, .. } = of.counts;
    let all = of.counts.performed() + met + found;
    match (is_here, of.external_ids.as_slice()) {
        (false, _) | (_, []) => String::new(),
        (true, ids) => {
            let more = match u64::try_from(ids.len()).is_ok_and(|told| told < all) {
                true if ids.len() > 2 => ", …",
                true | false => "",
            };
            format!(" ({}{more})", ids.join(", "))
        }
    }
}

/// What is true of a named effect. What the steps say already is not told again.
fn of_name(name: &NameStory, story: &KeyStory) -> Option<String> {
    let scope = &name.scope;
    let told = name.run.is_some_and(|run| {
        let mut steps = story.steps.iter();
        steps.any(|step| step.runs.contains(&run))
    });
    let by = match (&name.holder_name, name.run) {
        (Some(holder), _) => format!(" by {holder}"),
        (None, Some(run)) => format!(" by {run}"),
        (None, None) => String::new(),
    };
    let reused = match name.reuse_count {
        0 => String::new(),
        1 => "1 other asked for it and got its result".to_owned(),
        count => format!("{count} others asked for it and got its result"),
    };
    let id = name.external_id.as_deref();
    let id = id.map_or(String::new(), |id| format!(" ({id})"));
    match name.state {
        NamedEffectState::Done if told && reused.is_empty() => None,
        NamedEffectState::Done if told => {
            Some(format!("Under its business key in {scope}, {reused}."))
        }
        NamedEffectState::Done if reused.is_empty() => {
            Some(format!("It was done once{by}{id} in {scope}."))
        }
        NamedEffectState::Done => Some(format!("It was done once{by}{id} in {scope}; {reused}.")),
        NamedEffectState::InDoubt => {
            Some(format!("Whether it happened is unknown, in {scope}{by}."))
        }
        NamedEffectState::Pending => Some(format!("It is being performed{by} in {scope}.")),
        NamedEffectState::Undoing => {
            Some(format!("It was done, and is being undone{by} in {scope}."))
        }
        NamedEffectState::Failed => Some(format!("It was not done in {scope}.")),
    }
}

#[cfg(test)]
mod tests;

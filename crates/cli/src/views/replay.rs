//! Previews of replays.

use semel_api::types::{ChangedField, Forecast, ReplayPreview, StepForecast};
use serde_json::Value;

use crate::style::{Style, Tone, cell, render, toned_cell};
use crate::text::printable;

/// What a replay would do, for people.
pub(crate) fn text(preview: &ReplayPreview, style: Style) -> String {
    let ReplayPreview {
        run,
        flow,
        last_release,
        release,
        from,
        ..
    } = preview;
    let key = printable(&preview.key);
    let mut parts = vec![format!(
        "a replay of {run} ({flow} r{last_release}, key {key}) on r{release} would do this:"
    )];
    let mut table = style.table(&["STEP", "KIND", "WOULD", ""]);
    for step in &preview.steps {
        let (tone, word, more) = words(step);
        table.add_row([
            cell(&step.step),
            cell(&step.kind),
            toned_cell(tone, word),
            cell(printable(&more)),
        ]);
    }
    parts.push(render(&table));
    for step in &preview.steps {
        if let Forecast::Changed { fields, .. } = &step.forecast {
            parts.extend(fields.iter().map(|field| changed(&step.step, field)));
        }
    }
    match from {
        Some(step) => parts.push(format!(
            "reads and functions are made again from `{step}` on"
        )),
        None => parts.push("reads and functions keep their results".to_owned()),
    }
    parts.extend(preview.notes.iter().map(|note| printable(note)));
    let obstacles = preview.obstacles.iter();
    parts.extend(obstacles.map(|it| format!("not yet ({}): {}", it.code, printable(&it.message))));
    parts.push(format!("digest {}", preview.digest));
    parts.join("\n")
}

fn words(step: &StepForecast) -> (Tone, &'static str, String) {
    let made = |run: &dyn std::fmt::Display, id: &Option<String>| match id {
        Some(id) => format!("done by {run}, {id}"),
        None => format!("done by {run}"),
    };
    match &step.forecast {
        Forecast::Skipped {
            run, external_id, ..
        } => (Tone::Good, "be skipped", made(run, external_id)),
        Forecast::Changed {
            run,
            external_id,
            accepted,
            ..
        } => {
            let how = if *accepted { "accepted, " } else { "" };
            let more = format!("but changed: {how}{}", made(run, external_id));
            (Tone::Odd, "be skipped", more)
        }
        Forecast::Differs { run, .. } => (
            Tone::Bad,
            "be refused",
            format!("another effect, done by {run}"),
        ),
        Forecast::Performed { effect, .. } => (Tone::Plain, "be performed", effect.to_string()),
        Forecast::InDoubt { effect } => {
            (Tone::Odd, "be in doubt", format!("settle {effect} first"))
        }
        Forecast::Unknown { before } => {
            let more = format!("cannot be known before `{before}`'s result");
            (Tone::Plain, "be decided", more)
        }
        Forecast::Read => (Tone::Plain, "read again", String::new()),
        Forecast::Waits => (Tone::Plain, "wait", String::new()),
        Forecast::Asks => (Tone::Plain, "ask people", String::new()),
        Forecast::Items { done, left } => {
            let more = match left {
                Some(left) => format!("{done} of the last run are done, {left} are not"),
                None if *done > 0 => format!(
                    "{done} of the last run are done; what this release or input makes of them \
                     cannot be known before"
                ),
                None => String::new(),
            };
            (Tone::Plain, "go through its items", more)
        }
        Forecast::NotRun => (Tone::Plain, "not run", "its condition is false".to_owned()),
        Forecast::Fails { code, message } => (Tone::Bad, "fail", format!("{code}: {message}")),
    }
}

fn changed(step: &str, field: &ChangedField) -> String {
    let value = |value: &Option<Value>| match value {
        Some(value) => value.to_string(),
        None => "(absent)".to_owned(),
    };
    let (old, new) = (value(&field.old), value(&field.new));
    format!(
        "  {step} {}: {} -> {}",
        field.path,
        printable(&old),
        printable(&new)
    )
}

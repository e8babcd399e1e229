//! `semel connection presets`.

use semel_model::connection::preset::{PRESETS, Preset};
use serde_json::{Value, json};

use crate::answer::Answer;
use crate::context::Context;
use crate::style::{cell, render};

/// List the providers that Semel knows, and the options that each needs.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {}

pub(crate) fn run(ctx: &Context, Arguments {}: &Arguments) -> Answer {
    let mut table = ctx.style.table(&["PRESET", "NEEDS", "KEYS", "FOR"]);
    for preset in PRESETS {
        table.add_row([
            cell(preset.name),
            cell(needs(preset).join(" ")),
            cell(preset.keys),
            cell(preset.about),
        ]);
    }
    let data: Vec<Value> = PRESETS.iter().map(view).collect();
    Answer::done(json!({ "items": data }), render(&table))
        .next("semel connection create NAME --preset PRESET --secret NAME")
}

fn needs(preset: &Preset) -> Vec<String> {
    let holes = preset.needs.iter();
    holes.map(|hole| format!("--{}", hole.name)).collect()
}

fn view(preset: &Preset) -> Value {
    json!({
        "name": preset.name,
        "about": preset.about,
        "keys": preset.keys,
        "needs": preset.needs.iter().map(|hole| hole.name).collect::<Vec<_>>(),
        "takes": preset.takes.iter().map(|hole| hole.name).collect::<Vec<_>>(),
        "connection": preset.template(),
    })
}

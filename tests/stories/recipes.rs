//! The recipes of `docs/recipes/`, from the commands of their pages to what their destinations saw.
//!
//! Each is set up as its page says, with local servers in the places of the providers, and gets its
//! trigger twice, as the provider sends it. One exchange breaks on the way. What counts is what the
//! destinations hold at the end.

mod crm_to_mailing_list;
mod csv_import;
mod form_to_crm;
mod house;
mod incident_paging;
mod order_paid;
mod order_sync;
mod providers;
mod refund;
mod remote_build;
mod renewal_reminders;
mod signatures;
mod stand_ins;
mod user_provisioning;

use std::collections::HashMap;
use std::path::Path;

use anyhow::{Result, ensure};

use crate::steps::page::Page;

/// Every recipe has a story here, and all can be set up beside each other.
#[test]
fn every_recipe_is_played() -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut connections: HashMap<String, String> = HashMap::new();
    let mut played = 0;
    for entry in std::fs::read_dir(root.join("../docs/recipes"))? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        let Some(recipe) = name.strip_suffix(".flow.yaml") else {
            continue;
        };
        let module = recipe.replace('-', "_");
        ensure!(include_str!("recipes.rs").contains(&format!("mod {module};")));
        let story = root.join(format!("stories/recipes/{module}.rs"));
        let opened = format!("House::open(\"{recipe}\")");
        let story = std::fs::read_to_string(story)?;
        ensure!(story.contains(&opened), "{recipe} is not played");
        for line in Page::read(&format!("recipes/{recipe}"))?.commands()? {
            if let Some(created) = line.strip_prefix("semel connection create ") {
                let (name, _) = created.split_once(' ').unwrap_or_default();
                let other = connections.insert(name.to_owned(), line.clone());
                ensure!(
                    other.is_none_or(|other| other == line),
                    "two are called {name}: {line}"
                );
            }
        }
        played += 1;
    }
    assert_eq!(played, 10);
    Ok(())
}

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

use std::path::Path;

use anyhow::{Result, ensure};

/// Every recipe has a story here.
#[test]
fn every_recipe_is_played() -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut played = 0;
    for entry in std::fs::read_dir(root.join("../docs/recipes"))? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        let Some(recipe) = name.strip_suffix(".flow.yaml") else {
            continue;
        };
        let story = format!("stories/recipes/{}.rs", recipe.replace('-', "_"));
        let story = std::fs::read_to_string(root.join(story))?;
        let opened = format!("House::open(\"{recipe}\")");
        ensure!(story.contains(&opened), "{recipe} is not played");
        ensure!(include_str!("recipes.rs").contains(&format!("mod {};", recipe.replace('-', "_"))));
        played += 1;
    }
    assert_eq!(played, 10);
    Ok(())
}

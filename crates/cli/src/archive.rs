//! Where the server archives ended runs, as it is configured.

use std::sync::Arc;

use semel_engine::RunArchive;
use semel_server::RunFiles;

use crate::answer::Problem;
use crate::config::Key;
use crate::context::Context;
use crate::resources;

/// What stands for an archive that has ended.
const OFF: &str = "off";

/// Whether runs are deleted without being archived, although others were.
pub(crate) fn has_ended(ctx: &Context, flag: Option<&str>) -> bool {
    let setting = ctx.config.find(Key::Archive, flag);
    setting.is_some_and(|setting| setting.value == OFF)
}

/// What is configured, if it can be written. A server does not start with another: it would delete nothing, and its
/// database would grow until somebody looked.
pub(crate) async fn configured(
    ctx: &Context,
    flag: Option<&str>,
) -> Result<Option<Arc<dyn RunArchive>>, Problem> {
    let setting = ctx.config.find(Key::Archive, flag);
    let Some(setting) = setting.filter(|setting| setting.value != OFF) else {
        return Ok(None);
    };
    let resources = ctx.config.find(Key::Resources, None);
    if resources.is_some_and(|resources| resources.value == setting.value) {
        let why = "serve.archive is the place of serve.resources";
        return Err(Problem::usage(why).hint("give the archive a folder or a prefix of its own"));
    }
    let unusable = |error: &dyn std::error::Error| resources::unusable(Key::Archive, error);
    let place = resources::place(ctx, Key::Archive, &setting.value)?;
    let files = RunFiles::open(&place).map_err(|error| unusable(&error))?;
    let tried = files.try_out().await;
    tried.map_err(|error| unusable(&error))?;
    Ok(Some(Arc::new(files)))
}

//! Where the server archives ended runs, as it is configured.

use std::sync::Arc;

use semel_engine::RunArchive;
use semel_server::RunFiles;

use crate::answer::Problem;
use crate::config::Key;
use crate::context::Context;
use crate::resources;

/// What is configured, if it can be written. A server does not start with another: it would delete nothing, and its
/// database would grow until somebody looked.
pub(crate) async fn configured(
    ctx: &Context,
    flag: Option<&str>,
) -> Result<Option<Arc<dyn RunArchive>>, Problem> {
    let Some(setting) = ctx.config.find(Key::Archive, flag) else {
        return Ok(None);
    };
    let unusable = |error: &dyn std::error::Error| resources::unusable(Key::Archive, error);
    let place = resources::place(ctx, Key::Archive, &setting.value)?;
    let files = RunFiles::open(&place).map_err(|error| unusable(&error))?;
    let tried = files.try_out().await;
    tried.map_err(|error| unusable(&error))?;
    Ok(Some(Arc::new(files)))
}

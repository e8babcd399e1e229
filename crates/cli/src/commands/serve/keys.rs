//! The keys that an operator keeps outside the database.

use semel_engine::{MasterKeys, Secret};

use crate::answer::Problem;
use crate::commands::read_file;
use crate::config::Key;
use crate::context::Context;

/// The secret keys, which every server of a database shares: the first makes addresses, all verify.
pub(crate) fn secret(ctx: &Context, file: Option<&str>) -> Result<Secret, Problem> {
    let Some(text) = find(ctx, Key::Secret, Key::SecretFile, file)? else {
        return Err(Problem::usage("no secret key is configured").hint(
            "create one with `openssl rand -hex 32 > semel.secret` and set \
             SEMEL_SECRET_KEY_FILE=semel.secret; every server of a database shares it",
        ));
    };
    Secret::from_hex(text.trim())
        .map_err(|error| Problem::usage(format!("the secret key cannot be used: {error}")))
}

/// The master keys, or those that are derived from the secret keys where none are given.
pub(crate) fn masters(
    ctx: &Context,
    file: Option<&str>,
    secret: &Secret,
) -> Result<MasterKeys, Problem> {
    let Some(text) = find(ctx, Key::MasterKeys, Key::MasterKeysFile, file)? else {
        return Ok(MasterKeys::derive(secret));
    };
    MasterKeys::parse(&text).map_err(|_| {
        Problem::usage("the master keys cannot be used: each is 64 hex digits").hint(
            "create one with `openssl rand -hex 32`; the current one comes first, former ones \
             behind it, divided by commas or lines; `derived:` and a secret key stand for the \
             master key that is derived from it",
        )
    })
}

/// A key that is given directly or by a file. A flag is nearer than the environment, also where
/// they name different keys.
pub(super) fn find(
    ctx: &Context,
    direct: Key,
    in_file: Key,
    flag: Option<&str>,
) -> Result<Option<String>, Problem> {
    let given = ctx.config.find(direct, None).filter(|_| flag.is_none());
    match given {
        Some(setting) => Ok(Some(setting.value)),
        None => match ctx.config.find(in_file, flag) {
            Some(setting) => read_file(&setting.value).map(Some),
            None => Ok(None),
        },
    }
}

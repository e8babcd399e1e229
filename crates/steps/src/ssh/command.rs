//! A command's words, quoted so that no shell reads anything into them.

use semel_model::Fault;
use semel_model::connection::SshTarget;
use semel_model::request::SshRequest;

/// The command by itself, as the other machine's shell is given it.
pub(super) fn plain(request: &SshRequest, target: &SshTarget) -> Result<String, Fault> {
    Ok(format!("exec {}", words(request, target)?))
}

/// Variables, program and arguments, each word quoted.
///
/// Variables go through `env` because SSH servers take none from a client by default.
pub(super) fn words(request: &SshRequest, target: &SshTarget) -> Result<String, Fault> {
    let Some(program) = request
        .command
        .first()
        .filter(|program| !program.is_empty())
    else {
        return Err(unfit("the command names no program"));
    };
    if program.contains('=') || program.starts_with('-') {
        return Err(unfit(
            "a program's name cannot begin with `-` or hold a `=`",
        ));
    }
    let mut words = Vec::new();
    if !request.env.is_empty() {
        words.push("env".to_owned());
        for (name, value) in &request.env {
            admit(name, target)?;
            words.push(quote(&format!("{name}={value}"))?);
        }
    }
    for word in &request.command {
        words.push(quote(word)?);
    }
    Ok(words.join(" "))
}

/// A variable must be one that the connection's owner named.
fn admit(name: &str, target: &SshTarget) -> Result<(), Fault> {
    let is_letter = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_';
    let is_name = name.bytes().next().is_some_and(is_letter)
        && name
            .bytes()
            .all(|byte| is_letter(byte) || byte.is_ascii_digit());
    if is_name && target.env.iter().any(|allowed| allowed == name) {
        return Ok(());
    }
    let message = format!("the connection does not let steps set {name:?}: add it to its `env`");
    Err(Fault::permanent("env-refused", message))
}

/// One word for a POSIX shell: within single quotes nothing has a meaning but the next quote.
pub(super) fn quote(word: &str) -> Result<String, Fault> {
    if word.contains('\0') {
        return Err(unfit("a command cannot hold a zero byte"));
    }
    Ok(format!("'{}'", word.replace('\'', r"'\''")))
}

fn unfit(message: &str) -> Fault {
    Fault::permanent("command-unfit", message)
}

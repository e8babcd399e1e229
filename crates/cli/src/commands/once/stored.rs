//! What a command leaves under its key, and how a repeat shows it.

use std::io::Write as _;

use semel_api::types::OnceEffect;
use semel_model::Label;
use serde_json::{Value, json};

use crate::answer::{Answer, Problem};
use crate::code;
use crate::context::Context;
use crate::outcome::Outcome;
use crate::output::{self, Reader, Stdout};
use crate::text::operand;

/// The most bytes of a command's stdout that are stored.
pub(super) const STDOUT_BYTES_MAX: usize = 64 * 1024;

/// What a command wrote to its stdout.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Written {
    /// The first bytes, [`STDOUT_BYTES_MAX`] at most.
    pub(super) kept: Vec<u8>,
    /// How many there were.
    pub(super) total: u64,
}

impl Written {
    /// Adds bytes, as far as there is room.
    pub(super) fn add(&mut self, bytes: &[u8]) {
        let room = STDOUT_BYTES_MAX.saturating_sub(self.kept.len());
        self.kept.extend_from_slice(&bytes[..bytes.len().min(room)]);
        self.total += bytes.len() as u64;
    }

    /// The result of a command that is done. Bytes that are not text are stored as hexadecimal.
    pub(super) fn to_result(&self) -> Value {
        let mut result = match std::str::from_utf8(&self.kept) {
            Ok(text) if !text.contains('\0') => json!({ "exit_code": 0, "stdout": text }),
            Ok(_) | Err(_) => json!({ "exit_code": 0, "stdout_hex": hex::encode(&self.kept) }),
        };
        if self.total > self.kept.len() as u64 {
            result["stdout_bytes"] = json!(self.total);
        }
        result
    }
}

/// The bytes that a repeat writes.
fn bytes_of(result: &Value) -> Vec<u8> {
    if let Some(text) = result["stdout"].as_str() {
        return text.as_bytes().to_vec();
    }
    let digits = result["stdout_hex"].as_str().unwrap_or_default();
    hex::decode(digits).unwrap_or_default()
}

/// Answers a repeat of what is done.
pub(super) fn repeat(ctx: &Context, effect: &OnceEffect) -> Answer {
    let result = effect.result.clone().unwrap_or_default();
    let answer = Answer::done(effect, "");
    if ctx.reader == Reader::Program {
        return answer;
    }
    let _ = Stdout.write_all(&bytes_of(&result));
    let _ = Stdout.flush();
    if let Some(total) = result["stdout_bytes"].as_u64() {
        output::note(&format!(
            "semel: the command wrote {total} bytes, of which {STDOUT_BYTES_MAX} were stored"
        ));
    }
    answer
}

/// A signal came before the command was started.
pub(super) fn stopped(signal: i32) -> Problem {
    let message = format!("signal {signal} came: nothing was run");
    let problem = Problem::new(Outcome::Failed, code::LOCAL, message);
    problem.exit_with(exit_code_of(signal))
}

/// What shells exit with if a signal ended a command.
pub(super) fn exit_code_of(signal: i32) -> u8 {
    u8::try_from(128 + signal).unwrap_or(1)
}

/// The line that shows an effect. What belongs to a flow is found by the key that was sent.
pub(super) fn show_line(effect: &OnceEffect) -> String {
    match effect.scope.starts_with("flow/") {
        true => format!("semel once show {}", effect.effect_key),
        false => line_to_show(scope_of(effect).as_ref(), &effect.key),
    }
}

/// The line that settles an effect, but for the decision.
pub(super) fn settle_line(effect: &OnceEffect) -> String {
    line_to_settle(scope_of(effect).as_ref(), &effect.key)
}

/// The line that settles a key, but for the decision.
pub(super) fn line_to_settle(scope: Option<&Label>, key: &str) -> String {
    let (command, key) = (command("settle", scope), operand(key));
    let decide = "--happened (or --did-not-happen) --reason …";
    // Behind `--` no option is read.
    if key.starts_with('-') {
        format!("{command} {decide} {key}")
    } else {
        format!("{command} {key} {decide}")
    }
}

/// The line that shows a key.
pub(super) fn line_to_show(scope: Option<&Label>, key: &str) -> String {
    format!("{} {}", command("show", scope), operand(key))
}

fn command(verb: &str, scope: Option<&Label>) -> String {
    match scope {
        Some(name) => format!("semel once {verb} --scope {name}"),
        None => format!("semel once {verb}"),
    }
}

fn scope_of(effect: &OnceEffect) -> Option<Label> {
    effect.scope.strip_prefix("once/")?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_that_is_stored_comes_back() {
        for bytes in [&b"paid\n"[..], b"", b"a\0b", &[0xff, 0xfe]] {
            let mut written = Written::default();
            written.add(bytes);

            assert_eq!(bytes_of(&written.to_result()), bytes);
        }
    }

    #[test]
    fn a_long_output_is_cut_and_says_so() {
        let mut written = Written::default();
        written.add(&vec![b'x'; STDOUT_BYTES_MAX]);
        assert_eq!(written.to_result()["stdout_bytes"], Value::Null);
        written.add(b"y");

        let result = written.to_result();

        assert_eq!(bytes_of(&result).len(), STDOUT_BYTES_MAX);
        assert_eq!(result["stdout_bytes"], 65_537);
    }

    #[test]
    fn a_key_is_one_word_of_the_line_to_type_and_no_option() {
        let billing: Label = "billing".parse().unwrap();

        assert_eq!(
            line_to_show(None, "charge:o-1"),
            "semel once show charge:o-1"
        );
        assert_eq!(
            line_to_show(Some(&billing), "it's $HOME"),
            r"semel once show --scope billing 'it'\''s $HOME'"
        );
        assert_eq!(
            line_to_settle(None, "o-1"),
            "semel once settle o-1 --happened (or --did-not-happen) --reason …"
        );
        assert_eq!(
            line_to_settle(None, "--url=http://x"),
            "semel once settle --happened (or --did-not-happen) --reason … -- --url=http://x"
        );
    }
}

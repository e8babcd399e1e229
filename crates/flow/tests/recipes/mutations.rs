//! Every mechanical change that makes a key unstable, or the same for what is not the same.

use semel_flow::provider;
use serde_json::Value;

use crate::recipes::keys::{Key, Role};

/// A recipe with a key that does not hold, and the codes that may say so.
pub(crate) struct Mutation {
    pub(crate) kind: &'static str,
    pub(crate) expr: String,
    pub(crate) source: String,
    pub(crate) codes: Codes,
}

type Codes = &'static [&'static str];

const TIME: [&str; 5] = [
    "trigger.received_at",
    "headers.date",
    r#"headers["x-slack-request-timestamp"]"#,
    "input.sent_at",
    "input.meta.deliveredAt",
];
const RANDOM: [&str; 6] = [
    "uuid()",
    "random()",
    "now()",
    r#"headers["x-request-id"]"#,
    "headers.traceparent",
    "input.nonce",
];
const ATTEMPT: [&str; 4] = [
    "input.attempt",
    "input.retry_count",
    "trigger.attempt",
    r#"headers["x-slack-retry-num"]"#,
];
const RUN: [&str; 2] = ["run.id", "run.release"];
const PARTY: [&str; 4] = [
    "input.customer.id",
    "input.account_id",
    "lower(trim(input.email))",
    r#""order/" + input.user.email"#,
];

/// All changes that fit a key's role.
pub(crate) fn of(key: &Key, tree: &Value) -> Vec<Mutation> {
    let mut made = Made {
        key,
        mutations: vec![],
    };
    // A version is a time by nature.
    if key.role != Role::Version {
        made.add("time", TIME, &["key-clock"]);
        made.add("time", volatile(tree), &["key-clock", "key-attempt"]);
    }
    made.add("random", RANDOM, &["key-random", "expression-function"]);
    made.add("attempt", ATTEMPT, &["key-attempt"]);
    made.add("run", RUN, &["key-per-run"]);
    made.add("model", models(key, tree), &["key-model"]);
    if let Some(item) = key.item() {
        made.add("time", [format!("{item}.fetched_at")], &["key-clock"]);
        made.add("random", [format!("{item}.nonce")], &["key-random"]);
        made.add(
            "attempt",
            [format!("{item}.attemptNumber")],
            &["key-attempt"],
        );
    }
    if matches!(key.role, Role::Item | Role::Business) {
        made.ask_a_model();
    }
    made.drop();
    made.mutations
}

struct Made<'k> {
    key: &'k Key,
    mutations: Vec<Mutation>,
}

impl Made<'_> {
    /// The key with something unstable behind it, before it, hashed with it, and instead of it;
    /// in a step's key also by way of another step.
    fn add<T: AsRef<str>>(
        &mut self,
        kind: &'static str,
        unstable: impl IntoIterator<Item = T>,
        codes: Codes,
    ) {
        let key = self.key.expr.clone();
        for part in unstable {
            let part = part.as_ref();
            self.push(
                kind,
                format!(r#"string({key}) + "/" + string({part})"#),
                codes,
            );
            self.push(
                kind,
                format!(r#"string({part}) + "/" + string({key})"#),
                codes,
            );
            self.push(
                kind,
                format!("sha256(string({key}) + string({part}))"),
                codes,
            );
            self.push(kind, format!("fingerprint([{key}, {part}])"), codes);
            self.push(kind, format!("string({part})"), codes);
            let of_item = self.key.item().is_some_and(|item| part.starts_with(item));
            if matches!(self.key.role, Role::Item | Role::Business) && !of_item {
                self.through_step(kind, part, codes);
            }
        }
    }

    /// What a step in front of the key has computed.
    fn through_step(&mut self, kind: &'static str, part: &str, codes: Codes) {
        let function = format!(r#"{{"made": string({part})}}"#);
        let steps = format!("  - id: made_up\n    function: '{function}'\n\n");
        self.behind(kind, &steps, "steps.made_up.result.made", codes);
    }

    /// What a model in front of the key says, by itself and by way of a function.
    fn ask_a_model(&mut self) {
        const MODEL: &str = "  - id: model\n    llm: { connection: model, prompt: Name it. }\n\n";
        const TRIM: &str = "  - id: name\n    function: lower(trim(steps.model.result.name))\n\n";
        let codes: Codes = &["key-model"];
        self.behind("model", MODEL, "steps.model.result.name", codes);
        self.behind(
            "model",
            &format!("{MODEL}{TRIM}"),
            "steps.name.result",
            codes,
        );
    }

    /// The key with the outcome of other steps behind it, and that outcome alone.
    fn behind(&mut self, kind: &'static str, steps: &str, part: &str, codes: Codes) {
        let both = format!(r#"string({}) + "/" + {part}"#, self.key.expr);
        for expr in [both, part.to_owned()] {
            self.mutations.push(Mutation {
                kind,
                source: self.key.with_steps(steps, &expr),
                expr: format!("{expr}, after\n{steps}"),
                codes,
            });
        }
    }

    /// The key without what tells one intent from another.
    fn drop(&mut self) {
        let constant: Codes = &["key-constant"];
        let literals: Vec<&str> = self
            .key
            .expr
            .split(" + ")
            .filter(|part| part.starts_with('"'))
            .collect();
        let literals = literals.join(" + ");
        match self.key.role {
            Role::Trigger | Role::Business => {
                self.push("drop to a constant", r#""always""#.to_owned(), constant);
                if !literals.is_empty() {
                    self.push("drop to a constant", literals, constant);
                }
                for party in PARTY {
                    self.push("drop to a party", party.to_owned(), &["key-party"]);
                }
            }
            Role::Item => {
                self.push("drop to a constant", r#""always""#.to_owned(), constant);
                self.push("drop to a constant", "run.key".to_owned(), constant);
            }
            // One run at a time for all, or for all of one party, is a choice.
            Role::Overlap | Role::Object | Role::Version => {}
        }
    }

    fn push(&mut self, kind: &'static str, expr: String, codes: Codes) {
        let source = self.key.with(&expr);
        self.mutations.push(Mutation {
            kind,
            expr,
            source,
            codes,
        });
    }
}

/// What the recipe's provider changes from one delivery to the next.
fn volatile(tree: &Value) -> Vec<String> {
    let name = tree["trigger"]["webhook"]["provider"].as_str();
    let known = name.and_then(provider::find);
    let fields = known.map_or(&[][..], |known| known.clock_fields);
    let plain = fields.iter().filter(|field| !field.contains('*'));
    plain.map(|field| format!("input.{field}")).collect()
}

/// What models said before the key.
fn models(key: &Key, tree: &Value) -> Vec<String> {
    let steps = tree["steps"].as_array().into_iter().flatten();
    let models = steps.filter(|step| step.get("llm").is_some());
    let ids = models.filter_map(|step| step["id"].as_str());
    ids.filter(|id| key.follows(id))
        .map(|id| format!("steps.{id}.result.summary"))
        .collect()
}

//! What the peer remembers: effects, counts, first answers, states, rules and held requests.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::Write as _;

use rustix::time::{ClockId, clock_gettime};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use tokio::sync::oneshot;

use super::wire::{Behaviour, Count, Effect, Held, Rule, Totals};

/// Longer bodies are kept as their digest only.
const BODY_KEPT_BYTES_MAX: usize = 4096;

/// A request as the books see it.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) method: String,
    pub(super) path: String,
    pub(super) key: Option<String>,
    pub(super) body: bytes::Bytes,
    pub(super) signed: BTreeMap<String, String>,
}

/// The answer that a key or a path got first.
#[derive(Clone, Debug)]
struct First {
    path: String,
    body_sha256: String,
    /// Nothing where it was refused.
    effect: Option<usize>,
}

/// What a keyed request turned out to be.
pub(super) enum Keyed {
    New(usize),
    Repeat(usize),
    Mismatch,
}

/// The peer's memory.
#[derive(Debug, Default)]
pub(super) struct World {
    effects: Vec<Effect>,
    calls: u64,
    by_path: HashMap<String, Count>,
    by_key: HashMap<String, Count>,
    by_field: HashMap<String, Vec<usize>>,
    firsts: HashMap<String, First>,
    states: HashMap<String, bytes::Bytes>,
    refused: HashMap<String, u32>,
    rules: Vec<Rule>,
    held: BTreeMap<u64, (Held, oneshot::Sender<()>)>,
    held_so_far: u64,
    log: Option<File>,
}

impl World {
    pub(super) fn with_log(log: Option<File>) -> Self {
        Self {
            log,
            ..Self::default()
        }
    }

    /// Notes that a request has arrived, whatever becomes of it.
    pub(super) fn note_call(&mut self, path: &str, key: Option<&str>) {
        self.calls += 1;
        entry(&mut self.by_path, path).calls += 1;
        if let Some(key) = key {
            entry(&mut self.by_key, key).calls += 1;
        }
    }

    /// Acts, whatever was done before.
    pub(super) fn act(&mut self, call: &Call) -> usize {
        let index = self.effects.len();
        let effect = Effect {
            index,
            method: call.method.clone(),
            path: call.path.clone(),
            key: call.key.clone(),
            body_sha256: digest(&call.body),
            body: short_text(&call.body),
            at_ns: boot_ns(),
            signed: call.signed.clone(),
        };
        entry(&mut self.by_path, &call.path).effects += 1;
        if let Some(key) = &call.key {
            entry(&mut self.by_key, key).effects += 1;
        }
        self.index_fields(&effect);
        self.write_down(&effect);
        self.effects.push(effect);
        index
    }

    /// Acts once per key.
    pub(super) fn act_keyed(&mut self, call: &Call) -> Keyed {
        let Some(key) = &call.key else {
            return Keyed::New(self.act(call));
        };
        let body_sha256 = digest(&call.body);
        match self.firsts.get(key) {
            Some(First {
                path,
                body_sha256: known,
                effect: Some(effect),
            }) if *path == call.path && *known == body_sha256 => Keyed::Repeat(*effect),
            Some(_) => Keyed::Mismatch,
            None => {
                let effect = self.act(call);
                let first = First {
                    path: call.path.clone(),
                    body_sha256,
                    effect: Some(effect),
                };
                self.firsts.insert(key.clone(), first);
                Keyed::New(effect)
            }
        }
    }

    /// Whether the request is refused for its amount; that stays the answer to its key.
    pub(super) fn refuse_for_ever(&mut self, call: &Call) -> bool {
        let body: Value = serde_json::from_slice(&call.body).unwrap_or_default();
        let is_refused = body["amount"] == 0;
        if let (true, Some(key)) = (is_refused, &call.key) {
            let first = || First {
                path: call.path.clone(),
                body_sha256: digest(&call.body),
                effect: None,
            };
            self.firsts.entry(key.clone()).or_insert_with(first);
        }
        is_refused
    }

    /// Sets a path's state; acts when that changes it.
    pub(super) fn put(&mut self, call: &Call) -> Option<usize> {
        if self.states.get(&call.path) == Some(&call.body) {
            return None;
        }
        self.states.insert(call.path.clone(), call.body.clone());
        Some(self.act(call))
    }

    /// Removes a path's state; acts when there was one.
    pub(super) fn delete(&mut self, call: &Call) -> Option<usize> {
        self.states.remove(&call.path)?;
        Some(self.act(call))
    }

    /// A path's state.
    pub(super) fn state(&self, path: &str) -> Option<bytes::Bytes> {
        self.states.get(path).cloned()
    }

    /// The effects whose body, or key, says so.
    pub(super) fn find(&self, field: &str, value: &str) -> Vec<Effect> {
        let found = self.by_field.get(&format!("{field}={value}"));
        found
            .into_iter()
            .flatten()
            .map(|index| self.effects[*index].clone())
            .collect()
    }

    /// A page of effects, in order.
    pub(super) fn list(&self, from: usize, limit: usize) -> Vec<Effect> {
        self.effects
            .iter()
            .skip(from)
            .take(limit)
            .cloned()
            .collect()
    }

    /// Whether this request is among the first that are refused, which uses one of them up.
    pub(super) fn refuse_first(&mut self, path: &str, key: Option<&str>, first: u32) -> bool {
        let name = format!("{path} {}", key.unwrap_or_default());
        let refused = self.refused.entry(name).or_default();
        let refuse = *refused < first;
        *refused += u32::from(refuse);
        refuse
    }

    pub(super) fn count_of_path(&self, prefix: &str) -> Count {
        let under = self
            .by_path
            .iter()
            .filter(|(path, _)| path.starts_with(prefix));
        under.fold(Count::default(), |sum, (_, count)| Count {
            calls: sum.calls + count.calls,
            effects: sum.effects + count.effects,
        })
    }

    pub(super) fn count_of_key(&self, key: &str) -> Count {
        self.by_key.get(key).copied().unwrap_or_default()
    }

    pub(super) fn totals(&self) -> Totals {
        let several = self
            .by_key
            .values()
            .filter(|count| count.effects > 1)
            .count();
        Totals {
            calls: self.calls,
            effects: self.effects.len() as u64,
            keys: self.by_key.len() as u64,
            keys_with_several_effects: several as u64,
        }
    }

    pub(super) fn add_rule(&mut self, rule: Rule) {
        self.rules.push(rule);
    }

    /// The oldest rule that concerns this path, which uses one of its times up.
    pub(super) fn take_behaviour(&mut self, path: &str) -> Option<Behaviour> {
        let index = self
            .rules
            .iter()
            .position(|rule| path.starts_with(&rule.path_prefix))?;
        let behaviour = self.rules[index].behaviour;
        self.rules[index].times = self.rules[index].times.saturating_sub(1);
        if self.rules[index].times == 0 {
            self.rules.remove(index);
        }
        Some(behaviour)
    }

    /// Enters a request among the held ones. It continues when the receiver gets a message.
    pub(super) fn hold(&mut self, path: &str, key: Option<&str>) -> oneshot::Receiver<()> {
        let (go, wait) = oneshot::channel();
        let id = self.held_so_far;
        self.held_so_far += 1;
        let held = Held {
            id,
            path: path.to_owned(),
            key: key.map(str::to_owned),
        };
        self.held.insert(id, (held, go));
        wait
    }

    pub(super) fn list_held(&self) -> Vec<Held> {
        self.held.values().map(|(held, _)| held.clone()).collect()
    }

    /// Releases held requests, all of them or one.
    pub(super) fn let_go(&mut self, only: Option<u64>) -> usize {
        let chosen: Vec<u64> = self
            .held
            .keys()
            .copied()
            .filter(|id| only.is_none_or(|only| only == *id))
            .collect();
        for id in &chosen {
            if let Some((_, go)) = self.held.remove(id) {
                go.send(()).ok();
            }
        }
        chosen.len()
    }

    /// Forgets everything. Held requests continue into the new world.
    pub(super) fn reset(&mut self) {
        self.let_go(None);
        let log = self.log.take();
        let held_so_far = self.held_so_far;
        *self = Self {
            log,
            held_so_far,
            ..Self::default()
        };
    }

    fn index_fields(&mut self, effect: &Effect) {
        let mut names: Vec<String> = Vec::new();
        names.extend(effect.key.iter().map(|key| format!("key={key}")));
        if let Ok(Value::Object(fields)) = serde_json::from_str(&effect.body) {
            names.extend(fields.iter().filter_map(|(name, value)| match value {
                Value::String(text) => Some(format!("{name}={text}")),
                Value::Number(number) => Some(format!("{name}={number}")),
                Value::Bool(flag) => Some(format!("{name}={flag}")),
                Value::Null | Value::Array(_) | Value::Object(_) => None,
            }));
        }
        names.dedup();
        for name in names {
            self.by_field.entry(name).or_default().push(effect.index);
        }
    }

    /// A peer that cannot keep its log must not continue: the log is evidence.
    fn write_down(&mut self, effect: &Effect) {
        if let Some(log) = &mut self.log {
            let mut line = serde_json::json!(effect).to_string();
            line.push('\n');
            assert!(
                log.write_all(line.as_bytes()).is_ok(),
                "the log of effects cannot be written"
            );
        }
    }
}

fn entry<'a>(counts: &'a mut HashMap<String, Count>, name: &str) -> &'a mut Count {
    counts.entry(name.to_owned()).or_default()
}

fn digest(body: &[u8]) -> String {
    hex::encode(Sha256::digest(body))
}

fn short_text(body: &[u8]) -> String {
    let kept = if body.len() <= BODY_KEPT_BYTES_MAX {
        body
    } else {
        &[]
    };
    String::from_utf8_lossy(kept).into_owned()
}

fn boot_ns() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs()
}

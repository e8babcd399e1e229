//! Plays an example on paper: the answers are taken as they stand, nothing is called.

use semel_flow::{Expr, Scope, provider};
use serde_json::{Map, Value, json};

const ROOTS: [&str; 8] = [
    "input", "headers", "query", "trigger", "steps", "waits", "run", "env",
];

/// The key of the run that an example starts; nothing for a tick of a schedule.
pub(crate) fn key(flow: &Value, example: &Value) -> Option<Value> {
    let trigger = &flow["trigger"];
    let kinds = ["webhook", "api", "manual", "schedule"];
    let kind = kinds.iter().find(|kind| trigger.get(**kind).is_some())?;
    let start = &trigger[*kind];
    let paper = Paper::new(example);
    if let Some(when) = start["when"].as_str() {
        assert_eq!(paper.eval(when), json!(true), "an example starts a run");
    }
    if *kind == "schedule" {
        return None;
    }
    let preset = start["provider"].as_str().and_then(provider::find);
    let key = start["key"].as_str().or(preset.map(|known| known.key));
    let mut paper = paper;
    // An example need not repeat what only a real delivery has.
    if let Some(provider::Source::Header(name)) = preset.map(|known| known.key_source) {
        paper.headers[name] = json!(format!("{}", example["name"]));
    }
    Some(paper.eval(key.unwrap()))
}

/// What the run yields.
pub(crate) fn result(flow: &Value, example: &Value) -> Value {
    let mut paper = Paper::new(example);
    paper.steps(&flow["steps"], &example["answers"]);
    paper.eval(flow["result"].as_str().unwrap())
}

struct Paper {
    input: Value,
    headers: Value,
    steps: Value,
}

impl Paper {
    fn new(example: &Value) -> Self {
        let headers = example.get("headers").cloned();
        Self {
            input: example["input"].clone(),
            headers: headers.unwrap_or_else(|| json!({})),
            steps: json!({}),
        }
    }

    fn eval(&self, source: &str) -> Value {
        self.eval_over(source, "result", &Value::Null)
    }

    /// Evaluates an expression that also sees one more name.
    fn eval_over(&self, source: &str, name: &str, value: &Value) -> Value {
        let roots: Vec<&str> = ROOTS.into_iter().chain([name]).collect();
        let expr = Expr::compile(source, &roots).unwrap();
        let nothing = Value::Object(Map::new());
        let mut scope: Scope<'_> = ROOTS.iter().map(|root| (*root, &nothing)).collect();
        scope = scope
            .with("input", &self.input)
            .with("headers", &self.headers)
            .with("steps", &self.steps)
            .with(name, value);
        let value = expr.eval(&scope);
        value.unwrap_or_else(|error| panic!("{source}: {error}"))
    }

    /// What each step leaves behind. Switches leave nothing that a recipe reads.
    fn steps(&mut self, steps: &Value, answers: &Value) {
        for step in steps.as_array().unwrap() {
            let skipped = step["if"]
                .as_str()
                .is_some_and(|condition| self.eval(condition) == json!(false));
            for branch in step["parallel"]["branches"]
                .as_array()
                .into_iter()
                .flatten()
            {
                self.steps(&branch["steps"], answers);
            }
            assert!(skipped || step.get("fail").is_none(), "the example fails");
            if skipped {
                continue;
            }
            let id = step["id"].as_str().unwrap();
            let answer = &answers[id];
            let result = self.result(step, answer);
            let external_id = step["external_id"]
                .as_str()
                .map(|source| self.eval_over(source, "result", &result));
            self.steps[id] = json!({ "result": result, "external_id": external_id });
        }
    }

    /// What a step's result is: computed, counted, read from the response, or the response itself.
    fn result(&self, step: &Value, answer: &Value) -> Value {
        if let Some(function) = step["function"].as_str() {
            return self.eval(function);
        }
        if let Some(items) = step["foreach"]["in"].as_str() {
            let count = self.eval(items).as_array().map(Vec::len);
            return json!({ "count": count, "succeeded": count, "failed": 0, "failures": [] });
        }
        match step["result"].as_str() {
            Some(source) => self.eval_over(source, "response", answer),
            None => answer.get("json").unwrap_or(answer).clone(),
        }
    }
}

//! The verdict about a case: what happened more than once, not at all, or under another key.

mod effects;
mod ends;

use std::collections::BTreeMap;

use semel_flow::Flow;
use semel_store::rehearsals::StagedRun;

use crate::fault::FaultClass;
use crate::play::Played;
use crate::report::{CaseReport, Violation};

/// What a case shows, beside the same example when nothing goes wrong.
pub(crate) fn judge(flow: &Flow, plain: &Played, played: &Played) -> CaseReport {
    let mut found = Findings::default();
    let is_plain = played.case.fault.class == FaultClass::None;
    one_run(flow, played, &mut found);
    match is_plain {
        true => ends::as_expected(flow, played, &mut found),
        false => ends::as_before(flow, plain, played, &mut found),
    }
    effects::once(plain, played, &mut found);
    effects::all(flow, plain, played, &mut found);
    effects::one_key(played, &mut found);
    effects::undone(flow, played, &mut found);
    items_once(plain, played, &mut found);
    probes_answered(played, &mut found);
    let example = &played.case.example.name;
    CaseReport::new(
        example,
        &played.case.fault,
        found.in_doubt,
        found.violations,
    )
}

/// What is found about a case.
#[derive(Default)]
pub(crate) struct Findings {
    pub(crate) in_doubt: Vec<String>,
    pub(crate) violations: Vec<Violation>,
}

impl Findings {
    fn add(&mut self, code: &'static str, step: Option<&str>, message: String) {
        let (code, step) = (code.to_owned(), step.map(str::to_owned));
        self.violations.push(Violation {
            code,
            step,
            message,
        });
    }
}

/// Whether the fault leads the run elsewhere, so that it may do other things than before.
fn leads_elsewhere(class: FaultClass) -> bool {
    match class {
        FaultClass::CallbackLate
        | FaultClass::ItemTwice
        | FaultClass::EffectRefused
        | FaultClass::SecondIntent => true,
        FaultClass::None
        | FaultClass::DeliveryAtOnce
        | FaultClass::DeliveryInARow
        | FaultClass::DeliveryAfterEnd
        | FaultClass::DeliveryOtherPayload
        | FaultClass::Crash
        | FaultClass::AnswerLostBefore
        | FaultClass::AnswerLostAfter
        | FaultClass::AnswerLate
        | FaultClass::AnswerVeryLate
        | FaultClass::CallbackEarly
        | FaultClass::CallbackTwice
        | FaultClass::CallbackContradicted
        | FaultClass::ApprovalTwice
        | FaultClass::ApprovalContradicted => false,
    }
}

/// The runs that deliveries of the case started.
fn started<'a>(flow: &'a Flow, played: &'a Played) -> impl Iterator<Item = &'a StagedRun> {
    let own = move |run: &&StagedRun| run.parent.is_none() && run.flow == flow.name.as_str();
    played.runs.iter().filter(own)
}

fn one_run(flow: &Flow, played: &Played, found: &mut Findings) {
    match started(flow, played).count() {
        1 => {}
        0 if played.case.fault.class == FaultClass::SecondIntent => {}
        0 => {
            let ended = played.case.arrived.ended();
            let said = ended.first().map(|intake| match intake {
                Ok(_) => "the trigger's `when` is false for it".to_owned(),
                Err(error) => error.to_string(),
            });
            let said = said.unwrap_or_else(|| "the delivery was not answered".to_owned());
            let message = format!("the example starts no run: {said}; change the example");
            found.add("example-starts-nothing", None, message);
        }
        runs => {
            let message = format!(
                "one intent started {runs} runs: the trigger's key differs between deliveries"
            );
            found.add("run-repeated", None, message);
        }
    }
}

/// An item that comes twice in its list is one item, and has one run.
fn items_once(plain: &Played, played: &Played, found: &mut Findings) {
    let (FaultClass::ItemTwice, Some(spot)) = (played.case.fault.class, &played.case.fault.at)
    else {
        return;
    };
    let items = |played: &Played| {
        let children = played.runs.iter().filter(|run| run.parent.is_some());
        children.count()
    };
    let (before, now) = (items(plain), items(played));
    if now > before {
        let step = &spot.step;
        let message = format!(
            "an item that comes twice in the list of `{step}` runs twice: {now} items ran, and not {before}"
        );
        found.add("item-repeated", Some(step), message);
    }
}

fn probes_answered(played: &Played, found: &mut Findings) {
    let log = played.case.stage.log();
    for step in &log.unanswered_probes {
        let example = &played.case.example.name;
        let message = format!(
            "the example `{example}` does not say what the probe sees; add to its answers: \
             {step}.probe: {{ absent: {{ status: 200, json: … }}, found: {{ status: 200, json: … }} }}"
        );
        found.add("probe-unanswered", Some(step), message);
    }
}

/// Compares the probes of two intents: equal ones look at the wrong thing.
pub(crate) fn compare_intents(played: &[Played]) -> Vec<(usize, Violation)> {
    let mut first: BTreeMap<(&str, &str), Vec<String>> = BTreeMap::new();
    let spot_of = |one: &'_ Played| one.case.fault.at.as_ref().map(|spot| spot.step.clone());
    for one in played {
        let lost = one.case.fault.class == FaultClass::AnswerLostBefore;
        if let (true, Some(spot)) = (lost, &one.case.fault.at) {
            let key = (one.case.example.name.as_str(), spot.step.as_str());
            first
                .entry(key)
                .or_insert_with(|| questions(one, &spot.step));
        }
    }
    let mut found = Vec::new();
    for (index, one) in played.iter().enumerate() {
        let (FaultClass::SecondIntent, Some(step)) = (one.case.fault.class, spot_of(one)) else {
            continue;
        };
        let second = questions(one, &step);
        let before = first.get(&(one.case.example.name.as_str(), step.as_str()));
        let same = before.and_then(|before| second.iter().find(|asked| before.contains(asked)));
        if let Some(same) = same {
            let message = format!(
                "the probe of `{step}` asks the same for two intents, so that it finds what another \
                 run made: {same}; ask for something that only this run's effect has"
            );
            let code = "probe-same-for-two-intents".to_owned();
            let step = Some(step);
            found.push((
                index,
                Violation {
                    code,
                    step,
                    message,
                },
            ));
        }
    }
    found
}

fn questions(played: &Played, step: &str) -> Vec<String> {
    let log = played.case.stage.log();
    let asked = log.asked.iter().filter(|asked| asked.step == step);
    asked.map(|asked| asked.request.clone()).collect()
}

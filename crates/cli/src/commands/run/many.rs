//! Cancelling and resuming many runs: a plan first, then the job that carries it out.

use jiff::Timestamp;
use semel_api::types::{AskRunJob, RunJob, RunJobPlan, RunJobVerb, RunStatus};
use semel_model::FlowName;

use crate::answer::{Answer, Problem};
use crate::commands::Repeat;
use crate::context::Context;
use crate::remote;
use crate::text::printable;

/// Which runs, instead of one that is named.
#[derive(Debug, clap::Args)]
pub(super) struct Many {
    /// All runs of this flow that fit the other options, instead of one run.
    #[arg(long, conflicts_with = "run")]
    flow: Option<FlowName>,
    /// Of these, only those in this state.
    #[arg(long, requires = "flow")]
    state: Option<RunStatus>,
    /// Of these, only those accepted at this time or later.
    #[arg(long, requires = "flow", value_name = "TIME")]
    after: Option<Timestamp>,
    /// Of these, only those accepted before this time.
    #[arg(long, requires = "flow", value_name = "TIME")]
    before: Option<Timestamp>,
    /// Carry out the plan with this digest, as the command without it printed it.
    #[arg(long, requires = "flow", requires = "reason", value_name = "DIGEST")]
    apply: Option<String>,
}

/// Shows the plan or, with its digest, has it carried out.
pub(super) async fn run(
    ctx: &Context,
    verb: RunJobVerb,
    many: &Many,
    reason: Option<&str>,
    repeat: &Repeat,
) -> Result<Answer, Problem> {
    let Some(flow) = &many.flow else {
        unreachable!("the command line has a run or a flow");
    };
    let ask = AskRunJob {
        verb,
        flow: flow.clone(),
        state: many.state,
        after: many.after,
        before: many.before,
        digest: many.apply.clone(),
        reason: reason.filter(|_| many.apply.is_some()).map(str::to_owned),
    };
    let client = remote::client(ctx)?;
    let Some(digest) = &many.apply else {
        let plan = client.plan_run_job(&ask).await?;
        return Ok(preview(&plan, &ask));
    };
    let asked = serde_json::to_string(&ask).unwrap_or_default();
    let key = repeat.key_or(&["run job", digest, &asked]);
    let job = client.make_run_job(&ask, &key).await?.body;
    let text = tell(&job);
    Ok(Answer::done(&job, text).next(format!("semel run job {}", job.job)))
}

fn preview(plan: &RunJobPlan, ask: &AskRunJob) -> Answer {
    let (word, done) = words(plan.verb);
    let states = plan.states.iter();
    let states: Vec<String> = states
        .map(|it| format!("{} {}", it.count, it.state))
        .collect();
    let text = format!(
        "{} runs of {} would be {done}: {}\ndigest {}",
        plan.count,
        plan.flow,
        states.join(", "),
        plan.digest
    );
    let mut command = format!("semel run {word} --flow {}", plan.flow);
    if let Some(state) = ask.state {
        command.push_str(&format!(" --state {state}"));
    }
    for (option, time) in [("after", ask.after), ("before", ask.before)] {
        if let Some(time) = time {
            command.push_str(&format!(" --{option} {time}"));
        }
    }
    command.push_str(&format!(" --reason '…' --apply {}", plan.digest));
    Answer::done(plan, text).decision(&format!("to {word} these {}", plan.count), command)
}

const fn words(verb: RunJobVerb) -> (&'static str, &'static str) {
    match verb {
        RunJobVerb::Cancel => ("cancel", "cancelled"),
        RunJobVerb::Resume => ("resume", "resumed"),
    }
}

/// How far a job is, in one line.
pub(super) fn tell(job: &RunJob) -> String {
    let RunJob {
        verb,
        flow,
        count,
        done,
        refused,
        state,
        stopped_because,
        ..
    } = job;
    let why = stopped_because.as_deref().map(printable);
    let why = why.map_or_else(String::new, |why| format!("; Semel stopped it: {why}"));
    format!(
        "{} ({verb} {flow}) is {state}: {done} of {count} done, {refused} refused{why}",
        job.job
    )
}

//! What a replay of a run would do: the preview that people and programs decide by.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::fingerprint::Fingerprint;
use crate::id::{EffectId, RunId};

/// What the next run of a key would do, if an operator replayed its last one now.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReplayPreview {
    /// The run that is replayed.
    pub run: RunId,
    /// Its flow.
    pub flow: String,
    /// Its key.
    pub key: String,
    /// The release that it is on.
    pub last_release: i32,
    /// The release that the next run would be on.
    pub release: i32,
    /// The first step whose read or function is made again; nothing where all keep their results.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The fingerprint of the input that it would have; absent without the right `payload`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Fingerprint>,
    /// The steps that keep the results of reads, functions and timers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kept: Vec<String>,
    /// What it would do at each step that asks for something outside of the run, in order.
    pub steps: Vec<StepForecast>,
    /// What else an operator should know, in sentences.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Why it is not carried out as it is; none where it can be.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub obstacles: Vec<ReplayObstacle>,
    /// The fingerprint of all of the above: a replay is carried out only while it is the same.
    #[serde(default)]
    pub digest: String,
}

impl ReplayPreview {
    /// The preview with the fingerprint of what it says.
    #[must_use]
    pub fn sealed(mut self) -> Self {
        self.digest = String::new();
        let said = serde_json::to_value(&self).unwrap_or_default();
        self.digest = Fingerprint::of(&said).to_string();
        self
    }

    /// How many steps have a forecast of this kind.
    #[must_use]
    pub fn count(&self, is: impl Fn(&Forecast) -> bool) -> usize {
        self.steps.iter().filter(|step| is(&step.forecast)).count()
    }
}

/// What a replay would do at one step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepForecast {
    /// The step's path.
    pub step: String,
    /// The kind of step, e.g. http.
    pub kind: String,
    /// What would happen.
    #[serde(flatten)]
    pub forecast: Forecast,
}

/// What would happen at a step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "forecast", rename_all = "snake_case")]
pub enum Forecast {
    /// It is done: nothing is sent, and its result is reused.
    Skipped {
        /// The effect.
        effect: EffectId,
        /// The run that performed it.
        run: RunId,
        /// The destination's identity for what was made.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        external_id: Option<String>,
    },
    /// It is done with another request: nothing is sent, where an operator accepts that.
    Changed {
        /// The effect.
        effect: EffectId,
        /// The run that performed it.
        run: RunId,
        /// The destination's identity for what was made.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        external_id: Option<String>,
        /// What differs; empty where the first request is no longer kept.
        fields: Vec<ChangedField>,
        /// Whether the operator accepts it.
        accepted: bool,
    },
    /// It is done as another kind of effect, or over another connection: it is never reused.
    Differs {
        /// The effect.
        effect: EffectId,
        /// The run that performed it.
        run: RunId,
    },
    /// It is sent.
    Performed {
        /// The effect: the key that the destination gets.
        effect: EffectId,
        /// The fingerprint of what is sent; absent without the right `payload`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        request: Option<Fingerprint>,
    },
    /// Whether it happened is unknown.
    InDoubt {
        /// The effect.
        effect: EffectId,
    },
    /// What it would do depends on the result of a step that is not known yet.
    Unknown {
        /// That step.
        before: String,
    },
    /// It reads again.
    Read,
    /// It waits.
    Waits,
    /// It asks people.
    Asks,
    /// It goes through a list or branches; items that are done are not done again.
    Items {
        /// How many of the last run are done.
        done: u64,
        /// How many of the last run are not; absent where the last run did not come to it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        left: Option<u64>,
    },
    /// Its condition is false.
    NotRun,
    /// It cannot be carried out, and the run fails.
    Fails {
        /// The fault's code.
        code: String,
        /// Why.
        message: String,
    },
}

/// One member of a request that differs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChangedField {
    /// Where it is in the request, as a JSON pointer (RFC 6901).
    pub path: String,
    /// What was sent; absent where it was not there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub old: Option<Value>,
    /// What would be sent now; absent where it is not there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new: Option<Value>,
}

/// Why a replay is not carried out as it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplayObstacle {
    /// The stable word for it.
    pub code: String,
    /// What is in the way, and what to do.
    pub message: String,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn preview(steps: Vec<StepForecast>) -> ReplayPreview {
        let run = RunId::from_uuid(uuid::Uuid::from_u128(1));
        ReplayPreview {
            run,
            flow: "orders".to_owned(),
            key: "o-1".to_owned(),
            last_release: 3,
            release: 4,
            from: None,
            input: Some(Fingerprint::of(&json!(1))),
            kept: Vec::new(),
            steps,
            notes: Vec::new(),
            obstacles: Vec::new(),
            digest: String::new(),
        }
    }

    #[test]
    fn the_digest_is_of_everything_that_would_happen() {
        let step = |forecast| StepForecast {
            step: "charge".to_owned(),
            kind: "http".to_owned(),
            forecast,
        };
        let waits = preview(vec![step(Forecast::Waits)]).sealed();
        let reads = preview(vec![step(Forecast::Read)]).sealed();

        assert_ne!(waits.digest, reads.digest);
        assert_eq!(waits.clone().sealed(), waits);
        let written = serde_json::to_value(&reads).unwrap();
        assert_eq!(written["steps"][0]["forecast"], "read");
        assert_eq!(
            serde_json::from_value::<ReplayPreview>(written).unwrap(),
            reads
        );
    }
}

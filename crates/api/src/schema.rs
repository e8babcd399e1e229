//! How the API's document describes types of the model, which itself knows nothing of documents.
//!
//! Each type here stands for the one of the same name in the model, and is never made: the fields of
//! [`crate::types`] name it as the type of their schema.

mod approval;
mod delivery;
mod replay;

pub use approval::ApprovalDecision;
pub use delivery::{
    AlertsHealth, Alive, IgnoredDelivery, MismatchedDelivery, Ready, StaleDelivery,
};
pub use replay::{ChangedField, ReplayObstacle, ReplayPreview, StepForecast};

use std::borrow::Cow;

use semel_model::alert;
use semel_model::approval::ApprovalState as ApprovalStates;
use semel_model::effect::EffectState as EffectStates;
use semel_model::task::TaskState as TaskStates;
use serde_json::json;
use utoipa::openapi::schema::AdditionalProperties;
use utoipa::openapi::{ArrayBuilder, Object, ObjectBuilder, Ref, RefOr, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

/// A text of a certain form.
fn text(description: &str, pattern: &str, example: &str) -> RefOr<Schema> {
    object(
        ObjectBuilder::new()
            .schema_type(Type::String)
            .description(Some(description))
            .pattern(Some(pattern))
            .examples([json!(example)])
            .build(),
    )
}

/// One of some words.
fn words<'a>(description: &str, words: impl IntoIterator<Item = &'a str>) -> RefOr<Schema> {
    object(
        ObjectBuilder::new()
            .schema_type(Type::String)
            .description(Some(description))
            .enum_values(Some(words.into_iter().map(|word| json!(word))))
            .build(),
    )
}

fn object(object: Object) -> RefOr<Schema> {
    RefOr::T(Schema::Object(object))
}

macro_rules! described {
    ($($(#[$doc:meta])* $name:ident $schema:expr;)*) => {$(
        $(#[$doc])*
        pub struct $name;

        impl PartialSchema for $name {
            fn schema() -> RefOr<Schema> {
                $schema
            }
        }

        impl ToSchema for $name {
            fn name() -> Cow<'static, str> {
                Cow::Borrowed(stringify!($name))
            }
        }
    )*};
}

macro_rules! identities {
    ($($name:ident $prefix:literal $description:literal;)*) => {
        described! {$(
            #[doc = $description]
            $name text(
                $description,
                concat!("^", $prefix, "[0-9a-f]{32}$"),
                concat!($prefix, "0190a1b2c3d4e5f60718293a4b5c6d7e"),
            );
        )*}
    };
}

identities! {
    ClaimId "claim_" "Semel's hold on a key.";
    DuplicateId "dup_" "Repeats that were stopped at one place with one payload.";
    EffectId "eff_" "One change to the outside world: the key that the destination is sent.";
    HolderId "holder_" "One process that wants to perform a named effect.";
    NamedEffectId "name_" "An effect whose key people choose.";
    ReplayPlanId "plan_" "A set of runs that are replayed together.";
    RunId "run_" "One execution of a release.";
    RunJobId "job_" "A set of runs that are cancelled or resumed together.";
    TokenId "tok_" "What an API token is known by: the part of it that is no secret.";
    WaitId "wait_" "One durable pause of a run.";
}

/// The form of names that authors give.
const NAME: &str = "^[a-z][a-z0-9-]{0,62}$";

described! {
    /// What an author calls a flow.
    FlowName text("What an author calls a flow.", NAME, "order-paid");
    /// Who flows and runs belong to.
    NamespaceName text("Who flows and runs belong to.", NAME, "main");
    /// What the owner of a connection or a secret calls it.
    Label text(
        "What its owner calls it.",
        "^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$",
        "payments",
    );
    /// A network, as CIDR.
    Network text(
        "A network, as CIDR, or one address.",
        "^[0-9A-Fa-f.:]+(/[0-9]{1,3})?$",
        "10.0.0.0/8",
    );
    /// A length of time.
    Span text(
        "A length of time: numbers with the units w, d, h, m, s and ms.",
        "^([0-9]+(ms|w|d|h|m|s))+$",
        "2s",
    );
    /// What an uploaded or large value is called: made from its bytes.
    ResourceRef text(
        "A resource, by the SHA-256 of its bytes.",
        "^res://[0-9a-f]{64}$",
        "res://e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    );
    /// The SHA-256 of what was shown.
    Digest text(
        "The SHA-256 of the canonical form (RFC 8785) of what was shown.",
        "^[0-9a-f]{64}$",
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    );
    /// The text of a secret, which goes one way.
    SecretText object(
        ObjectBuilder::new()
            .schema_type(Type::String)
            .description(Some("The text of a secret, 1 to 16,384 bytes. It can be set and never read."))
            .build()
    );
    /// An object of any members.
    AnyObject object(
        ObjectBuilder::new()
            .description(Some("An object of any members."))
            .additional_properties(Some(AdditionalProperties::FreeForm(true)))
            .build()
    );
    /// What the owner of a connection says of it.
    ConnectionSetting object(
        ObjectBuilder::new()
            .description(Some(
                "What its owner says of a connection: where it leads, under `to`, and its limits. \
                 semel explain connections lists the fields of each kind.",
            ))
            .additional_properties(Some(AdditionalProperties::FreeForm(true)))
            .examples([json!({ "to": { "http": { "base_url": "https://api.example.com" } } })])
            .build()
    );
    /// The state of an effect.
    EffectState words("The state of an effect.", EffectStates::ALL.map(EffectStates::as_str));
    /// The state of a named effect.
    NamedEffectState words(
        "The state of a named effect.",
        semel_model::NamedEffectState::ALL.map(semel_model::NamedEffectState::as_str),
    );
    /// What a repeat does when a script's effect is in doubt.
    OnDoubt words(
        "What a repeat does when a script's effect is in doubt.",
        semel_model::named_effect::OnDoubt::ALL.map(semel_model::named_effect::OnDoubt::as_str),
    );
    /// The state of a task.
    TaskState words("The state of a task.", TaskStates::ALL.map(TaskStates::as_str));
    /// The state of an approval.
    ApprovalState words(
        "The state of an approval.",
        ApprovalStates::ALL.map(ApprovalStates::as_str),
    );
    /// What an alert is about.
    AlertKind words("What an alert is about.", alert::AlertKind::ALL.map(alert::AlertKind::as_str));
    /// What holds a run up before its first step.
    GateKind words("What holds a run up before its first step.", ["order", "overlap", "limit"]);
    /// How a run is started over the API.
    TriggerKind words("How a run is started over the API.", ["api", "manual"]);
    /// What a token may do.
    Right words(
        "What a token may do; docs/access.md says what each right is for.",
        semel_model::Right::ALL.iter().map(|right| right.as_str()),
    );
    /// What the holder of a token is.
    Role words(
        "What the holder of a token is; docs/access.md lists the rights of each role.",
        semel_model::Role::ALL.iter().map(|role| role.as_str()),
    );
}

/// What a token may do, right by right.
pub struct Rights;

impl PartialSchema for Rights {
    fn schema() -> RefOr<Schema> {
        let rights = ArrayBuilder::new()
            .items(Ref::from_schema_name("Right"))
            .description(Some("What a token may do, right by right."));
        RefOr::T(Schema::Array(rights.build()))
    }
}

impl ToSchema for Rights {
    fn name() -> Cow<'static, str> {
        Cow::Borrowed("Rights")
    }

    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        schemas.push((Right::name().into_owned(), Right::schema()));
    }
}

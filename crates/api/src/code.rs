//! Error codes: one stable word for each kind of error that a person can meet over the API.
//!
//! A word is never given a second meaning. Mistakes in a flow's text have words of their own,
//! listed by the flow language; no word is on both lists.

use std::fmt;
use std::str::FromStr;

macro_rules! codes {
    ($($(#[$doc:meta])* $variant:ident $name:literal $status:literal $title:literal $hint:literal;)*) => {
        /// The kind of an error: a stable word, with a page of its own.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Code { $($(#[$doc])* $variant,)* }

        impl Code {
            /// Every code.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The word.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// The HTTP status that it comes with; 0 where no server answered.
            pub const fn status(self) -> u16 {
                match self { $(Self::$variant => $status,)* }
            }

            /// The kind of error, for people.
            pub const fn title(self) -> &'static str {
                match self { $(Self::$variant => $title,)* }
            }

            /// What to do.
            pub const fn hint(self) -> &'static str {
                match self { $(Self::$variant => $hint,)* }
            }

            /// What stands there.
            pub const fn page_text(self) -> &'static str {
                match self {
                    $(Self::$variant => include_str!(concat!("../../../docs/errors/", $name, ".md")),)*
                }
            }

            /// Where the repository tells more.
            pub const fn page(self) -> &'static str {
                match self { $(Self::$variant => concat!("docs/errors/", $name, ".md"),)* }
            }
        }
    };
}

codes! {
    /// No token, or one that does not work.
    Unauthorized "unauthorized" 401 "The request is not authorized"
        "Send `Authorization: Bearer` with a token that has not expired or been revoked.";
    /// No such route.
    RouteNotFound "route-not-found" 404 "There is nothing at this address"
        "Check the path; API routes begin with /v1, hooks with /hooks.";
    /// The route does not take this method.
    MethodNotAllowed "method-not-allowed" 405 "The address does not take this method"
        "Use one of the methods that the Allow header names.";
    /// The body is beyond the limit.
    BodyTooLarge "body-too-large" 413 "The body is too large"
        "Send at most 1 MiB; pass a reference to anything larger.";
    /// The body was not received in time, or not to its end.
    BodyIncomplete "body-incomplete" 408 "The body did not arrive"
        "Send the request again; nothing was done.";
    /// The body is not JSON that can be fingerprinted.
    BodyNotJson "body-not-json" 400 "The body is not JSON"
        "Send one JSON value; no member twice, no integer beyond 2^53.";
    /// The body is JSON of another shape.
    BodyInvalid "body-invalid" 400 "The body does not fit"
        "Compare the body with what the route takes; unknown members are refused.";
    /// A query parameter that cannot be read.
    QueryInvalid "query-invalid" 400 "The query does not fit"
        "Mend the query parameter that the detail names.";
    /// No flow listens at this hook.
    HookNotFound "hook-not-found" 404 "No flow listens at this hook"
        "Promote a release with this webhook path, or correct the address at the sender.";
    /// A delivery that does not prove where it comes from.
    SignatureInvalid "signature-invalid" 401 "The delivery does not prove where it comes from"
        "Compare secret, headers and clock at the sender; the raw body must arrive unchanged.";
    /// More than is let in.
    TooManyRequests "too-many-requests" 429 "Too many requests came at once"
        "Send again after the time in Retry-After, with the same key.";
    /// No such flow.
    FlowNotFound "flow-not-found" 404 "There is no such flow"
        "List the flows of the namespace; push, publish and promote the one that is missing.";
    /// No such run.
    RunNotFound "run-not-found" 404 "There is no such run"
        "Check the identity and the token's namespace; ended runs are kept for a limited time.";
    /// No such effect.
    EffectNotFound "effect-not-found" 404 "There is no such effect"
        "Check the identity and the token's namespace; show the run to see its effects.";
    /// No such wait.
    WaitNotFound "wait-not-found" 404 "There is no open wait of this identity"
        "Show the run: the wait may have been answered, have elapsed or never have been.";
    /// No such task.
    TaskNotFound "task-not-found" 404 "There is no such task"
        "Check the identity and the token's namespace; list the tasks to see what there is.";
    /// The claim is not the latest, or its lease is over.
    TaskNotHeld "task-not-held" 409 "The task is not held under this token"
        "Leave the task: its lease was over, and it is another's or waits to be settled.";
    /// Another answer to the task is on record.
    TaskAnswered "task-answered" 409 "The task was answered otherwise"
        "Leave the task: the first answer stands, and the detail tells it.";
    /// The run wants the task no longer.
    TaskWithdrawn "task-withdrawn" 410 "The task was withdrawn"
        "Leave the task: its run was cancelled, or its time was over.";
    /// No such approval.
    ApprovalNotFound "approval-not-found" 404 "There is nothing to decide here"
        "The approval is unknown, its time is over, or its run has ended; nothing was changed.";
    /// The decision is about something else than what is shown.
    ApprovalDiffers "approval-differs" 409 "The decision is about something else"
        "Look at what is shown, and decide with its digest.";
    /// Somebody decided otherwise.
    ApprovalDecided "approval-decided" 409 "It was decided otherwise"
        "The first decision stands; the detail tells who made it, and when.";
    /// The token's owner may not decide.
    ApprovalDenied "approval-denied" 403 "The decision is not yours to make"
        "Ask one of those who are named; `semel approval show` lists them.";
    /// The link alone is not enough.
    ApprovalNeedsLogin "approval-needs-login" 403 "The link alone is not enough"
        "Decide with a token of your own: `semel approval approve` or `semel approval reject`.";
    /// A reason that cannot be recorded.
    ReasonInvalid "reason-invalid" 422 "The reason cannot be recorded"
        "Give a reason of 1 to 2,000 characters without a zero byte; nothing was done.";
    /// Later steps read what was not said.
    ResultNeeded "result-needed" 422 "Later steps read what the effect gave"
        "Give `--result` or `--external-id` as the detail says; `--result null` says that it gave nothing.";
    /// What the effect gave cannot be corrected.
    NotAmendable "not-amendable" 409 "What the effect gave cannot be corrected"
        "Only what a person said can be corrected, while its run has stopped and no later step has used it.";
    /// Nobody holds the key.
    KeyNotFound "key-not-found" 404 "The key is not held"
        "Nothing has to be dropped: the next delivery of this key makes a new run.";
    /// No such release.
    ReleaseNotFound "release-not-found" 404 "There is no such release"
        "Show the flow to see the numbers of its releases.";
    /// No such resource.
    ResourceNotFound "resource-not-found" 404 "There is no such resource"
        "Check the digest and the token's namespace; a resource is kept for as long as its step says.";
    /// The callback leads nowhere, or no longer.
    CallbackNotFound "callback-not-found" 404 "There is nothing to call back"
        "The address is unknown, or what it was for is over; nothing was changed.";
    /// The flow cannot be started this way.
    TriggerNotDeclared "trigger-not-declared" 422 "The flow does not have this trigger"
        "Add the trigger to the flow, or start the flow the way it declares.";
    /// A start without a key.
    KeyMissing "key-missing" 400 "The request has no key"
        "Send an Idempotency-Key header or `key`, or give the trigger a `key` expression.";
    /// The key expression failed on this payload.
    KeyFailed "key-failed" 400 "The key of this delivery could not be told"
        "Mend the payload or the trigger's `key` expression; nothing was started.";
    /// The text given as key is none.
    KeyInvalid "key-invalid" 400 "The key is not usable"
        "Send 1 to 4096 bytes, and the same in header and body.";
    /// A key for a trigger that has its own.
    KeyDeclared "key-declared" 400 "The trigger has a key of its own"
        "Leave the key out: the flow's `key` names the run, so that one intent is one run whoever asks.";
    /// The input is not what the flow's schema describes.
    InputInvalid "input-invalid" 422 "The input does not fit the flow's schema"
        "Mend the input as the detail says and send it again under the same key; nothing was started.";
    /// A known key with another payload.
    PayloadMismatch "payload-mismatch" 422 "The key is known with another payload"
        "Send the first payload again, or use another key for what is another thing.";
    /// A command's key was used with another payload.
    CommandMismatch "command-mismatch" 422 "The Idempotency-Key was used for another command"
        "Use a new Idempotency-Key for a new command.";
    /// The first command of this key has no answer yet.
    CommandUnderWay "command-under-way" 409 "The same command is under way"
        "Repeat the request after the time in Retry-After to get its answer.";
    /// The effect is not in doubt.
    NotInDoubt "not-in-doubt" 409 "The effect is not in doubt"
        "Show the effect: somebody or something settled it before.";
    /// The last attempt could still arrive.
    SettleTooSoon "settle-too-soon" 409 "It is too soon to say that it did not happen"
        "Repeat after the time in Retry-After, when nothing of the last attempt can arrive any more.";
    /// The run is not in a state to resume from.
    NotResumable "not-resumable" 409 "The run cannot be resumed"
        "Show the run: only one that failed or gave up is resumed.";
    /// A worker holds the run.
    RunBusy "run-busy" 409 "A worker holds the run"
        "Repeat the request after the time in Retry-After.";
    /// The run has ended.
    RunEnded "run-ended" 409 "The run has ended"
        "Nothing more can be done to it; show the run to see how it ended.";
    /// The run has not ended.
    RunNotEnded "run-not-ended" 409 "The run has not ended"
        "Cancel the run or wait for its end; the key of a live run is never freed.";
    /// The flow's text has mistakes.
    FlowInvalid "flow-invalid" 422 "The flow has mistakes"
        "Mend what the diagnostics point at.";
    /// The text names another flow than the address.
    FlowNameDiffers "flow-name-differs" 422 "The text names another flow"
        "Push to the name that the text has under `flow`, or change it there.";
    /// Another flow has the hook.
    HookTaken "hook-taken" 409 "Another flow has this hook"
        "Give the webhook another `path`, or promote a release of the other flow without it.";
    /// Nothing to publish.
    DraftMissing "draft-missing" 409 "The flow has no draft"
        "Push a draft first.";
    /// No such connection.
    ConnectionNotFound "connection-not-found" 404 "There is no such connection"
        "List the connections of the namespace; create the one that is missing.";
    /// What a connection says cannot be.
    ConnectionInvalid "connection-invalid" 422 "The connection cannot be kept"
        "Mend what the detail names; docs/connections.md lists the fields of each kind.";
    /// Another connection has the name.
    ConnectionDiffers "connection-differs" 409 "There is another connection of this name"
        "Give it another name, or say that the other one is to be replaced.";
    /// A live flow or a subscription goes over the connection.
    ConnectionInUse "connection-in-use" 409 "A live flow or a subscription goes over the connection"
        "Promote a release of that flow that does not name it, or delete the subscription, then delete it.";
    /// No such subscription.
    SubscriptionNotFound "subscription-not-found" 404 "There is no such subscription"
        "List the subscriptions of the namespace; create the one that is missing.";
    /// What a subscription says cannot be.
    SubscriptionInvalid "subscription-invalid" 422 "The subscription cannot be kept"
        "Mend what the detail names: the event, or the connection, which is of kind webhook.";
    /// Another subscription has the name.
    SubscriptionDiffers "subscription-differs" 409 "There is another subscription of this name"
        "Give it another name, or say that the other one is to be replaced.";
    /// No such delivery.
    DeliveryNotFound "delivery-not-found" 404 "There is no such delivery"
        "List the deliveries of the subscription; settled ones are kept for 30 days.";
    /// The delivery was not given up.
    DeliveryNotGivenUp "delivery-not-given-up" 409 "The delivery was not given up"
        "Nothing has to be done: it was delivered, or is tried again by itself.";
    /// The flow has no live schedule.
    ScheduleNotFound "schedule-not-found" 404 "There is no such schedule"
        "List the schedules; promote a release of the flow that has one.";
    /// The schedule does not name the instant.
    InstantNotScheduled "instant-not-scheduled" 422 "The schedule does not name this instant"
        "Name one of its instants, or fire now under a key of your own.";
    /// No such secret.
    SecretNotFound "secret-not-found" 404 "There is no such secret"
        "List the secrets of the namespace; nothing was removed.";
    /// What was sent cannot be a secret.
    SecretInvalid "secret-invalid" 422 "The secret cannot be kept"
        "Send a name that the detail allows and a value of 1 to 16,384 bytes.";
    /// The server was not given the master key.
    VaultLocked "vault-locked" 409 "The vault is sealed with another master key"
        "Add the former master key behind the current one in SEMEL_MASTER_KEYS, and start again.";
    /// The database does not answer.
    DatabaseUnavailable "database-unavailable" 503 "The database does not answer"
        "Repeat the request with the same key after the time in Retry-After.";
    /// The server has no memory left for a request.
    Overloaded "overloaded" 503 "The server has no room for the request now"
        "Repeat the request with the same key after the time in Retry-After.";
    /// The resource store does not answer.
    ResourcesUnavailable "resources-unavailable" 503 "The resource store does not answer"
        "Repeat the request; if it stays, check `serve.resources` of the server.";
    /// A defect of ours.
    Internal "internal" 500 "Something is wrong with the server"
        "Repeat the request with the same key; if it stays, look at the server's log.";
    /// No server answered.
    ServerUnreachable "server-unreachable" 0 "The server cannot be reached"
        "Check the address and that the server runs; then repeat with the same key.";
    /// What answered does not speak this API.
    AnswerMalformed "answer-malformed" 0 "The answer is not one of this API"
        "Check that the address leads to a Semel server of about this version.";
}

impl Code {
    /// The code as the URI that problems carry.
    pub fn uri(self) -> String {
        format!("urn:semel:problem:{self}")
    }
}

/// The text is no code of this list.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("not an error code")]
pub struct CodeError;

impl FromStr for Code {
    type Err = CodeError;

    fn from_str(text: &str) -> Result<Self, CodeError> {
        Self::ALL
            .iter()
            .copied()
            .find(|code| code.as_str() == text)
            .ok_or(CodeError)
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;

    #[test]
    fn every_code_is_one_of_its_kind() {
        let words: BTreeSet<&str> = Code::ALL.iter().map(|code| code.as_str()).collect();

        assert_eq!(words.len(), Code::ALL.len());
        for word in words {
            assert!(
                word.chars().all(|c| c.is_ascii_lowercase() || c == '-'),
                "{word} is kebab-case"
            );
        }
    }

    #[test]
    fn every_code_has_its_page() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        for code in Code::ALL {
            let page = std::fs::read_to_string(root.join(code.page())).unwrap_or_default();

            assert!(
                page.starts_with(&format!("# {code}\n\n{}.", code.title())),
                "{} opens with its code and title",
                code.page()
            );
        }
    }
}

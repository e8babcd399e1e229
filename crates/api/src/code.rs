//! Error codes: one stable word for each kind of error that a person can meet over the API.
//!
//! A word is never given a second meaning. Mistakes in a flow's text have words of their own,
//! listed by the flow language; no word is on both lists.

mod define;
mod text;

use define::codes;
pub use text::CodeError;

codes! {
    /// No token, or one that does not work.
    Unauthorized "unauthorized" 401 "The request is not authorized"
        "Send `Authorization: Bearer` with a token that has not expired or been revoked, from one of its networks if it has some.";
    /// The token lacks the right that the route needs.
    RightMissing "right-missing" 403 "The token does not have the right for this"
        "Use a token that has the right; `semel token create NAME --right RIGHT` makes one.";
    /// The code is unknown, was used, or has expired.
    SignInCodeInvalid "sign-in-code-invalid" 400 "The sign-in code does not work"
        "Make another one with `semel open`: a code works once and for one minute.";
    /// The form did not come from a page of this console.
    FormRefused "form-refused" 403 "The form did not come from this console"
        "Go back, load the page again, and send the form from there; nothing was changed.";
    /// The console is reached by an address that it cannot be used safely on.
    ConsoleAddress "console-address" 421 "The console is not available at this address"
        "Use the installation's own https address, or http on this machine's 127.0.0.1.";
    /// The browser did not begin this sign-in, or too long ago.
    SignInExpired "sign-in-expired" 400 "This sign-in was not begun here, or is over"
        "Begin again: choose the identity provider on the page that signs in.";
    /// The identity provider refused.
    ProviderRefused "provider-refused" 403 "The identity provider refused the sign-in"
        "Read what it says, and begin again; ask the people who run it if it stays so.";
    /// The identity provider cannot be used now.
    ProviderUnavailable "provider-unavailable" 502 "The identity provider cannot be used now"
        "Try again soon; `semel doctor` on the server's machine says what is wrong. `semel open` still works.";
    /// What the identity provider says of the person cannot be believed.
    IdentityInvalid "identity-invalid" 403 "What the identity provider says cannot be verified"
        "Begin again; if it stays so, compare issuer and client of the server with the provider's.";
    /// No group of the person has a role.
    GroupMissing "group-missing" 403 "No group of yours has a role here"
        "Ask who manages Semel to give one of your groups a role: `semel member map GROUP --role ROLE`.";
    /// An operator revoked the person.
    PersonRevoked "person-revoked" 403 "Your access was revoked"
        "Ask who manages the namespace; `semel member restore` lets you in again.";
    /// A logout token that is not the provider's, is too old, or was used.
    LogoutInvalid "logout-invalid" 400 "The logout token does not work"
        "Send a new logout token of the configured issuer for the configured client.";
    /// No such person.
    PersonNotFound "person-not-found" 404 "There is no such person"
        "Check the id and the namespace; `semel member people` shows who signed in.";
    /// The group has no role.
    GroupNotMapped "group-not-mapped" 404 "The group has no role here"
        "Check the group's name and the namespace; `semel member list` shows every group that has one.";
    /// No such token.
    TokenNotFound "token-not-found" 404 "There is no such token"
        "Check the token's id and the namespace; `semel token list --all` shows every token.";
    /// The token exists, and is not shown any more.
    TokenShown "token-shown" 409 "The token was created under this key before, and is no longer shown"
        "If nobody kept it, revoke it and create another one under another `Idempotency-Key`.";
    /// The name is taken.
    NamespaceExists "namespace-exists" 409 "There is a namespace of this name already"
        "Choose another name; `semel namespace list` shows which there are.";
    /// No such namespace.
    NamespaceNotFound "namespace-not-found" 404 "There is no such namespace"
        "Check the name; `semel namespace list` shows which there are.";
    /// No such route.
    RouteNotFound "route-not-found" 404 "There is no such route"
        "Check the path; API routes begin with /v1, hooks with /hooks.";
    /// The route does not take this method.
    MethodNotAllowed "method-not-allowed" 405 "The route does not accept this method"
        "Use one of the methods that the Allow header names.";
    /// The body is beyond the limit.
    BodyTooLarge "body-too-large" 413 "The body is too large"
        "Send at most 1 MiB; pass a reference to anything larger.";
    /// The body was not received in time, or not to its end.
    BodyIncomplete "body-incomplete" 408 "The body is incomplete"
        "Send the request again; nothing was done.";
    /// The body is not JSON that can be fingerprinted.
    BodyNotJson "body-not-json" 400 "The body is not JSON"
        "Send one JSON value without duplicate members and without integers beyond 2^53.";
    /// The body is JSON of another shape.
    BodyInvalid "body-invalid" 400 "The body does not match the route"
        "Compare the body with what the route accepts; unknown members are refused.";
    /// A query parameter that cannot be read.
    QueryInvalid "query-invalid" 400 "A query parameter is invalid"
        "Fix the query parameter that the detail names.";
    /// No flow listens at this hook.
    HookNotFound "hook-not-found" 404 "No flow listens at this hook"
        "Promote a release with this webhook path, or correct the address at the sender.";
    /// A delivery whose signature or token does not verify.
    SignatureInvalid "signature-invalid" 401 "Webhook signature verification failed"
        "Compare the secret, the headers and the clock at the sender; the raw body must arrive unchanged.";
    /// Too many requests.
    TooManyRequests "too-many-requests" 429 "Too many requests"
        "Send the request again with the same key after the time in Retry-After.";
    /// Too many runs of the namespace wait.
    BacklogFull "backlog-full" 429 "Too many runs of the namespace wait for a server"
        "Send the request again with the same key after the time in Retry-After.";
    /// No such flow.
    FlowNotFound "flow-not-found" 404 "There is no such flow"
        "List the flows of the namespace; push, publish and promote the one that is missing.";
    /// No such run.
    RunNotFound "run-not-found" 404 "There is no such run"
        "Check the run's id and the token's namespace; ended runs are deleted after a limited time.";
    /// No such effect.
    EffectNotFound "effect-not-found" 404 "There is no such effect"
        "Check the effect's id and the token's namespace; show the run to see its effects.";
    /// No such wait.
    WaitNotFound "wait-not-found" 404 "There is no open wait with this id"
        "Show the run: the wait may have ended, timed out or never existed.";
    /// No such task.
    TaskNotFound "task-not-found" 404 "There is no such task"
        "Check the task's id and the token's namespace; list the tasks to see their ids.";
    /// The claim is not the latest, or its lease is over.
    TaskNotHeld "task-not-held" 409 "This token does not hold the task"
        "Stop working on the task: its lease has expired, and another worker has it or its doubt has to be settled.";
    /// The task already has another answer.
    TaskAnswered "task-answered" 409 "The task already has another answer"
        "Stop working on the task: the first answer stands; the detail shows it to the token that gave it.";
    /// The run no longer wants the task.
    TaskWithdrawn "task-withdrawn" 410 "The task was withdrawn"
        "Stop working on the task: its run was cancelled, or its time limit has passed.";
    /// The text given as key of a named effect is none.
    OnceKeyInvalid "once-key-invalid" 400 "The key of the effect is invalid"
        "Use a key of 1 to 1024 bytes; for something longer use its digest.";
    /// No such named effect.
    OnceNotFound "once-not-found" 404 "There is no effect of this name"
        "Check the key and the scope; `semel once list` shows what there is.";
    /// The key was begun with another request.
    OnceMismatch "once-mismatch" 409 "The key was used with another command"
        "Repeat the first command, or use another key for this one; `semel once show` tells what happened under the key.";
    /// The token is not the latest, or its lease is over.
    OnceNotHeld "once-not-held" 409 "This token does not hold the effect"
        "Stop: the lease has expired, or another process holds the key; `semel once show` tells which.";
    /// There is no doubt to settle.
    OnceNotInDoubt "once-not-in-doubt" 409 "The effect is not in doubt"
        "Show the effect to see its state; it may have been settled, or begun again.";
    /// There is nothing to redo.
    OnceNotDone "once-not-done" 409 "The effect is not done"
        "Show the effect to see its state; only a done effect has to be redone.";
    /// A run holds the named effect.
    OnceHeldByRun "once-held-by-run" 409 "A run holds the effect"
        "Leave it to the run that the detail names; a doubt is settled with `semel doubt settle` by the key that was sent.";
    /// The release has no passing rehearsal.
    FlowNotRehearsed "flow-not-rehearsed" 409 "The release has no passing rehearsal"
        "Run `semel rehearse FLOW` and promote again; with the right `override`, promote with `--override REASON`.";
    /// No such rehearsal.
    RehearsalNotFound "rehearsal-not-found" 404 "There is no such rehearsal"
        "Rehearse again: `semel rehearse FILE` starts one and waits for it.";
    /// No such approval.
    ApprovalNotFound "approval-not-found" 404 "There is no such approval"
        "The approval is unknown, has expired, or its run has ended; nothing was changed.";
    /// The decision is about something else than what is shown.
    ApprovalDiffers "approval-differs" 409 "The decision does not match what is shown"
        "Look at what the approval shows, and decide with its digest.";
    /// The approval already has another decision.
    ApprovalDecided "approval-decided" 409 "The approval already has another decision"
        "The first decision stands; the detail says who made it and when.";
    /// The token's owner may not decide.
    ApprovalDenied "approval-denied" 403 "You may not decide this approval"
        "Ask one of the approvers that the step names; `semel approval show` lists them.";
    /// The link alone is not enough.
    ApprovalNeedsLogin "approval-needs-login" 403 "The link alone is not enough"
        "Decide with a token of your own: `semel approval approve` or `semel approval reject`.";
    /// A reason that cannot be recorded.
    ReasonInvalid "reason-invalid" 422 "The reason cannot be recorded"
        "Give a reason of 1 to 2,000 characters without a zero byte; nothing was done.";
    /// Later steps read what the settlement does not give.
    ResultNeeded "result-needed" 422 "Later steps read the effect's result"
        "Pass `--result` or `--external-id` as the detail says; `--result null` records that there was no result.";
    /// The effect's result cannot be corrected.
    NotAmendable "not-amendable" 409 "The effect's result cannot be corrected"
        "You can correct an operator's result while its run is failed, needs_review or quarantined and no later step has used it.";
    /// The effect cannot be undone or performed again by hand.
    NotRepeatable "not-repeatable" 409 "The effect cannot be undone or performed again"
        "Only a done effect of an ended run can be, by its latest id; the detail says what is in the way.";
    /// No run holds the key.
    KeyNotFound "key-not-found" 404 "There is no such key"
        "There is nothing to drop: the next delivery with this key starts a new run.";
    /// `kv` has no such entry.
    EntryNotFound "entry-not-found" 404 "There is no such entry"
        "List the entries to see their names; one that has expired is gone.";
    /// No such release.
    ReleaseNotFound "release-not-found" 404 "There is no such release"
        "Show the flow to see the numbers of its releases.";
    /// No such resource.
    ResourceNotFound "resource-not-found" 404 "There is no such resource"
        "Check the digest and the token's namespace; a resource is kept for as long as its step says.";
    /// The callback leads nowhere, or no longer.
    CallbackNotFound "callback-not-found" 404 "There is no such callback"
        "The callback address is unknown or has expired, or its run has ended; nothing was changed.";
    /// The flow cannot be started this way.
    TriggerNotDeclared "trigger-not-declared" 422 "The flow does not have this trigger"
        "Add the trigger to the flow, or start the flow through a trigger that it declares.";
    /// A start without a key.
    KeyMissing "key-missing" 400 "The request has no key"
        "Send an Idempotency-Key header or `key`, or give the trigger a `key` expression.";
    /// The key expression failed on this payload.
    KeyFailed "key-failed" 400 "The key of this delivery could not be computed"
        "Fix the payload or the trigger's `key` expression; nothing was started.";
    /// The text given as key is none.
    KeyInvalid "key-invalid" 400 "The key is invalid"
        "Send 1 to 4096 bytes, and the same key in header and body.";
    /// A key for a trigger that has its own.
    KeyDeclared "key-declared" 400 "The trigger computes its own key"
        "Leave the key out: the flow's `key` names the run, so that one intent is one run for every caller.";
    /// The input is not what the flow's schema describes.
    InputInvalid "input-invalid" 422 "The input does not match the flow's schema"
        "Fix the input as the detail says and send it again with the same key; nothing was started.";
    /// A known key with another payload.
    PayloadMismatch "payload-mismatch" 422 "The key was used with another payload"
        "Send the first payload again, or use another key for another intent.";
    /// No such stopped delivery.
    DuplicateNotFound "duplicate-not-found" 404 "There is no such stopped delivery"
        "Check the id and the token's namespace; `semel duplicate list --held` shows what is held.";
    /// Another decision was first.
    HeldDecided "held-decided" 409 "The held delivery is already decided"
        "The first decision stands; the detail says who made it and what came of it.";
    /// The held delivery cannot be let in like this.
    HeldNotAccepted "held-not-accepted" 409 "The held delivery cannot be accepted like this"
        "Choose another key, accept it as a repeat, or dismiss it, as the detail says.";
    /// The doubts are no longer those of the preview.
    DoubtsChanged "doubts-changed" 409 "The effects in doubt have changed"
        "Run the command without `--apply`, look at the list, and apply the new digest; nothing was settled.";
    /// A command's key was used with another payload.
    CommandMismatch "command-mismatch" 422 "The Idempotency-Key was used for another command"
        "Use a new Idempotency-Key for a new command.";
    /// The first command of this key has no answer yet.
    CommandUnderWay "command-under-way" 409 "The same command is still running"
        "Repeat the request after the time in Retry-After to get its response.";
    /// The effect is not in doubt.
    NotInDoubt "not-in-doubt" 409 "The effect is not in doubt"
        "Show the effect to see its state; it may have been settled already.";
    /// The last attempt could still arrive.
    SettleTooSoon "settle-too-soon" 409 "It is too early to settle the effect as not happened"
        "Repeat after the time in Retry-After, when the last attempt can no longer arrive.";
    /// The run is not in a state to resume from.
    NotResumable "not-resumable" 409 "The run cannot be resumed"
        "Show the run: you can resume a run that is failed, needs_review or quarantined.";
    /// The run cannot be replayed.
    NotReplayable "not-replayable" 409 "The run cannot be replayed"
        "Show the run: you can replay the last run of a key once it has ended, needs review or is quarantined.";
    /// The replay would do something else than its preview showed.
    ReplayChanged "replay-changed" 409 "What the replay would do has changed"
        "Preview the replay again, look at it, and apply the new digest; nothing was done.";
    /// A done effect has another request now.
    EffectChanged "effect-changed" 409 "A done effect has another request now"
        "Compare the fields in the preview; `--accept-changed STEP` skips the step all the same.";
    /// A done effect is of another kind or connection now.
    EffectDiffers "effect-differs" 409 "A done effect is another effect now"
        "Give the step another id, so that it is performed, or undo the effect first.";
    /// No such plan.
    PlanNotFound "plan-not-found" 404 "There is no such replay plan"
        "Check the plan's id and the token's namespace; `semel replay list` shows the plans.";
    /// The plan cannot be made.
    PlanInvalid "plan-invalid" 422 "The replay plan cannot be made"
        "Change which runs it is about as the detail says; nothing was planned.";
    /// There is no such job.
    JobNotFound "job-not-found" 404 "There is no such job"
        "`semel run job` lists the jobs of the namespace.";
    /// The wish fits no runs, too many, or a state that is none for it.
    JobInvalid "job-invalid" 422 "These runs cannot be cancelled or resumed together"
        "Name another state with `--state`, or a time with `--after` and `--before`.";
    /// Other runs fit than the plan showed.
    JobChanged "job-changed" 409 "Other runs fit by now than the plan showed"
        "Repeat the command without `--apply`, look at the plan, and apply its digest.";
    /// It is paused, but writes that began before are not over.
    PauseUnsettled "pause-unsettled" 503 "The pause is not complete yet"
        "Repeat the command: it is paused, and waits for writes that began before.";
    /// The plan is in another state.
    PlanUnfit "plan-unfit" 409 "The replay plan is in another state"
        "Show the plan: you can apply a planned or paused one, pause a running one, and stop any that is not done.";
    /// A worker holds the run.
    RunBusy "run-busy" 409 "A worker holds the run"
        "Repeat the request after the time in Retry-After.";
    /// Its journal, or what was to follow it, does not fit.
    JournalInconsistent "journal-inconsistent" 409 "The journal of the run is inconsistent"
        "The run is quarantined and nothing was sent; report the detail with the output of `semel run show RUN --json`.";
    /// The run has ended.
    RunEnded "run-ended" 409 "The run has ended"
        "Show the run to see how it ended; nothing was changed.";
    /// The run was archived and deleted from the database.
    RunArchived "run-archived" 409 "The run is archived"
        "Show the run to see what it did; it cannot be changed any more. A new delivery of its key makes a new run, which does everything again, also what this one has done.";
    /// The run has not ended.
    RunNotEnded "run-not-ended" 409 "The run has not ended"
        "Cancel the run or wait until it ends, and settle its doubts; until then its key is not dropped, nor its payloads erased.";
    /// The key has too many runs.
    RunTooLarge "run-too-large" 422 "The key has too many runs"
        "Shorten the history of the namespace or the flow: retention deletes the runs of such a key a part at a time.";
    /// The flow's text has mistakes.
    FlowInvalid "flow-invalid" 422 "The flow has errors"
        "Fix what the diagnostics point at.";
    /// The text names another flow than the address.
    FlowNameDiffers "flow-name-differs" 422 "The file names another flow"
        "Push to the name that the file has under `flow`, or change it there.";
    /// Another flow has the hook.
    HookTaken "hook-taken" 409 "Another flow uses this hook"
        "Give the webhook another `path`, or promote a release of the other flow without it.";
    /// Nothing to publish.
    DraftMissing "draft-missing" 409 "The flow has no draft"
        "Push a draft first.";
    /// No such connection.
    ConnectionNotFound "connection-not-found" 404 "There is no such connection"
        "List the connections of the namespace; create the one that is missing.";
    /// The connection is not valid.
    ConnectionInvalid "connection-invalid" 422 "The connection is invalid"
        "Fix what the detail names; semel explain connections lists the fields of each kind.";
    /// Another connection has the name.
    ConnectionDiffers "connection-differs" 409 "A different connection has this name"
        "Choose another name, or ask to replace the existing connection.";
    /// A live flow or a subscription uses the connection.
    ConnectionInUse "connection-in-use" 409 "A live flow or a subscription uses the connection"
        "Promote a release of that flow that does not name it, or delete the subscription; then delete the connection.";
    /// No such subscription.
    SubscriptionNotFound "subscription-not-found" 404 "There is no such subscription"
        "List the subscriptions of the namespace; create the one that is missing.";
    /// The subscription is not valid.
    SubscriptionInvalid "subscription-invalid" 422 "The subscription is invalid"
        "Fix what the detail names: the event, or the connection, which must be of kind webhook.";
    /// Another subscription has the name.
    SubscriptionDiffers "subscription-differs" 409 "A different subscription has this name"
        "Choose another name, or ask to replace the existing subscription.";
    /// Alerts cannot go there.
    AlertInvalid "alert-invalid" 422 "Alerts cannot go there"
        "Fix what the detail names: the connection, which must be of kind smtp, slack or webhook, or the recipients.";
    /// It is not set where alerts go.
    AlertNotSet "alert-not-set" 404 "It is not set where alerts go"
        "Set a connection that receives the alerts of the namespace.";
    /// No such delivery.
    DeliveryNotFound "delivery-not-found" 404 "There is no such delivery"
        "List the deliveries of the subscription; finished ones are kept for 30 days.";
    /// The delivery has not failed.
    DeliveryNotFailed "delivery-not-failed" 409 "The delivery has not failed"
        "You do not have to do anything: it was delivered, or Semel tries it again by itself.";
    /// The delivery was erased with its run.
    DeliveryErased "delivery-erased" 409 "The delivery was erased with its run"
        "You do not have to do anything: nothing is left to send.";
    /// The flow has no live schedule.
    ScheduleNotFound "schedule-not-found" 404 "There is no such schedule"
        "List the schedules; promote a release of the flow that has one.";
    /// The flow does not reconcile, or has no such pass.
    ReconcileNotFound "reconcile-not-found" 404 "There is nothing to reconcile"
        "Promote a release of the flow that has `reconcile`; list its passes.";
    /// A pass would look further back than keys are remembered.
    SinceTooLong "since-too-long" 422 "The pass would look back too far"
        "Choose a `since` that is at most the flow's `keep`.";
    /// The schedule does not name the instant.
    InstantNotScheduled "instant-not-scheduled" 422 "The schedule has no such instant"
        "Name one of its instants, or fire now with a key of your own.";
    /// No such secret.
    SecretNotFound "secret-not-found" 404 "There is no such secret"
        "List the secrets of the namespace; nothing was deleted.";
    /// What was sent cannot be a secret.
    SecretInvalid "secret-invalid" 422 "The secret is invalid"
        "Send a name that the detail allows and a value of 1 to 16,384 bytes.";
    /// A connection names a secret that is bound to other hosts.
    SecretBoundElsewhere "secret-bound-elsewhere" 409 "The secret is bound to other hosts"
        "Use a secret of that host, or ask a holder of the right `secret` to run `semel secret set NAME --host HOST`.";
    /// The server was not given the master key.
    VaultLocked "vault-locked" 409 "The vault is encrypted with another master key"
        "Add the former master key after the current one in SEMEL_MASTER_KEYS, and restart the server.";
    /// The database does not answer.
    DatabaseUnavailable "database-unavailable" 503 "The database does not respond"
        "Repeat the request with the same key after the time in Retry-After.";
    /// The server has no memory left for a request.
    Overloaded "overloaded" 503 "The server is overloaded"
        "Repeat the request with the same key after the time in Retry-After.";
    /// The resource store does not answer.
    ResourcesUnavailable "resources-unavailable" 503 "The resource store does not respond"
        "Repeat the request; if the error persists, check `serve.resources` of the server.";
    /// The archive of ended runs does not answer.
    ArchiveUnavailable "archive-unavailable" 503 "The archive does not respond"
        "Read what is wrong; repeat the request where the archive did not respond, and check `serve.archive` of the server otherwise.";
    /// A defect of Semel.
    Internal "internal" 500 "Internal server error"
        "Repeat the request with the same key; if the error persists, look at the server's log.";
    /// No server answered.
    ServerUnreachable "server-unreachable" 0 "The server cannot be reached"
        "Check the address and that the server runs; then repeat with the same key.";
    /// What answered does not speak this API.
    AnswerMalformed "answer-malformed" 0 "The response is not from this API"
        "Check that the address belongs to a Semel server of a similar version.";
}

impl Code {
    /// The code as the URI that problems carry.
    pub fn uri(self) -> String {
        format!("urn:semel:problem:{self}")
    }
}

#[cfg(test)]
mod tests;

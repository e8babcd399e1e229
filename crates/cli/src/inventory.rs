//! The inventory for people: each effect of a flow, its key, its guard, what a crash does to it,
//! and what is left to an operator.

use semel_flow::triggers::Proof;
use semel_flow::{Inventory, InventoryEffect, InventoryStart};

use crate::style::{Style, Tone, cell, render, toned_cell};
use crate::text::printable;

const HEADER: [&str; 8] = [
    "EFFECT",
    "BY",
    "KIND",
    "KEY",
    "GUARD",
    "RETRY",
    "AFTER A CRASH",
    "LEFT TO AN OPERATOR",
];

/// How runs start, the effects, and the diagnostics that the author suppressed.
pub(crate) fn tell(inventory: &Inventory, style: Style) -> String {
    let mut parts = vec![];
    if !inventory.starts.is_empty() {
        parts.push(starts(inventory, style));
    }
    let open: Vec<String> = inventory.starts.iter().filter_map(unsigned).collect();
    if !open.is_empty() {
        parts.push(open.join("\n"));
    }
    if !inventory.effects.is_empty() {
        parts.push(table(inventory, style));
    }
    let advised: Vec<String> = inventory.effects.iter().filter_map(advice).collect();
    if !advised.is_empty() {
        parts.push(advised.join("\n"));
    }
    if !inventory.allowed.is_empty() {
        parts.push(allowed(inventory, style));
    }
    parts.join("\n\n")
}

fn starts(inventory: &Inventory, style: Style) -> String {
    let mut table = style.table(&["STARTS BY", "KEY", "AUTHENTICATED BY"]);
    for start in &inventory.starts {
        let tone = match start.proof {
            Proof::Nothing => Tone::Bad,
            Proof::Signature | Proof::Token | Proof::Caller | Proof::Inside => Tone::Plain,
        };
        table.add_row([
            cell(start.trigger.as_str()),
            cell(&start.key),
            toned_cell(tone, start.proof.as_str()),
        ]);
    }
    render(&table)
}

/// The note about parts that the signature does not cover; none where it covers all that the flow reads.
fn unsigned(start: &InventoryStart) -> Option<String> {
    let read = start.unsigned.join(", ");
    (!read.is_empty()).then(|| {
        format!(
            "note: {}: the signature does not cover {}: whoever captured a delivery can change it",
            start.trigger,
            printable(&read)
        )
    })
}

fn table(inventory: &Inventory, style: Style) -> String {
    let undoes = inventory.effects.iter().any(|effect| effect.undo.is_some());
    let header = HEADER.iter().copied().chain(undoes.then_some("UNDONE BY"));
    let mut table = style.table(&header.collect::<Vec<_>>());
    for effect in &inventory.effects {
        let (tone, retry) = if effect.retry_safe {
            (Tone::Good, "safe")
        } else {
            (Tone::Odd, "not safe")
        };
        let key = match effect.scope.as_str() {
            "run" => effect.key.clone(),
            scope => format!("{} (once per key across runs, in the {scope})", effect.key),
        };
        let undo = undoes.then(|| cell(effect.undo.as_deref().unwrap_or("nothing")));
        let row = [
            cell(&effect.step),
            cell(effect.action.as_str()),
            cell(effect.kind.as_str()),
            cell(key),
            cell(effect.guard.as_str()),
            toned_cell(tone, retry),
            cell(&effect.after_crash),
            cell(effect.left_to_person.as_deref().unwrap_or("nothing")),
        ];
        table.add_row(row.into_iter().chain(undo));
    }
    render(&table)
}

/// What would make an effect safer, where the check knows.
fn advice(effect: &InventoryEffect) -> Option<String> {
    let advice = effect.advice.as_ref()?;
    Some(format!("note: {}: {advice}", effect.step))
}

fn allowed(inventory: &Inventory, style: Style) -> String {
    let mut table = style.table(&["ALLOWED", "WHERE", "BECAUSE"]);
    for allowed in &inventory.allowed {
        let place = format!("line {}", allowed.said.line);
        let place = match &allowed.step {
            Some(step) => format!("{step}, {place}"),
            None => place,
        };
        table.add_row([
            toned_cell(Tone::Odd, allowed.code.as_str()),
            cell(place),
            cell(printable(&allowed.because)),
        ]);
    }
    render(&table)
}

#[cfg(test)]
mod tests {
    use semel_flow::{CheckContext, examine};

    use super::*;

    const SOURCE: &str = r#"
flow: orders
trigger: { api: {} }
steps:
  - id: total
    function: input.total
  - id: seen
    kv: { set: "seen/${{ input.id }}", value: true }
  - id: customer
    key: '"customer:" + input.customer.id'
    http: { put: "https://books.example/customers/1", json: {} }
    allow: [{ code: key-party, because: a customer is one record }]
  - id: invoice
    http: { post: "https://books.example/invoices", json: {} }
    guard: review
"#;

    #[test]
    fn what_a_signature_does_not_cover_is_named_wherever_the_flow_reads_it() {
        let told = |webhook: &str| {
            let source = format!(
                "flow: built\ntrigger:\n  webhook: {{ {webhook} }}\nsteps:\n  - id: seen\n    \
                 kv: {{ set: \"seen/${{{{ input.id }}}}\", value: \"${{{{ query.tenant }}}}\" }}\n"
            );
            let examined = examine("built.flow.yaml", &source, &CheckContext::default());
            assert!(examined.is_sound(), "{}", examined.render(false));
            tell(&examined.inventory, Style::PLAIN)
        };
        let when = r#"when: 'headers["x-github-event"] == "push"'"#;

        let github = told(&format!("provider: github, secret: s, {when}"));
        let twilio = told("provider: twilio, secret: s");
        let open = told(&format!("auth: none, key: input.id, {when}"));

        let note = "note: webhook: the signature does not cover";
        let said = format!("{note} headers.x-github-event, query.tenant: ");
        assert!(github.contains(&said), "{github}");
        assert!(
            twilio.contains(&format!("{note} input, query.tenant: ")),
            "{twilio}"
        );
        assert!(!open.contains(note), "{open}");
    }

    #[test]
    fn every_effect_says_what_a_crash_does_to_it_and_what_was_allowed_is_shown() {
        let examined = examine("orders.flow.yaml", SOURCE, &CheckContext::default());

        let told = tell(&examined.inventory, Style::PLAIN);

        let lines: Vec<&str> = told.lines().collect();
        assert_eq!(lines.len(), 10, "{told}");
        assert!(
            lines[1].starts_with("api        named by the caller"),
            "{told}"
        );
        assert!(
            lines[4].starts_with("seen      kv    update  derived"),
            "{told}"
        );
        assert!(lines[6].contains("an operator settles it"), "{told}");
        assert!(
            lines[9].starts_with("key-party  customer, line 10  a customer"),
            "{told}"
        );
    }
}

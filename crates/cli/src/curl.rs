//! The curl line of a hook: one that works as printed.

use semel_flow::release::WebhookAuth;
use semel_flow::{Flow, examples, sample_payload};

use crate::text::shell_word;

/// The line that delivers the first example of a flow's text to its hook, where it has one that takes what is not
/// signed: no other line would work as printed. Without examples it delivers something that the flow can read.
pub(crate) fn line(flow: &Flow, source: &str, url: &str, namespace: &str) -> Option<String> {
    let webhook = flow.trigger.webhook.as_ref()?;
    match webhook.auth {
        WebhookAuth::None => {}
        WebhookAuth::Signature { .. } | WebhookAuth::Token { .. } => return None,
    }
    let address = format!(
        "{}/hooks/{namespace}/{}",
        url.trim_end_matches('/'),
        webhook.path
    );
    let first = examples(source).into_iter().next();
    let payload = first.map_or_else(|| sample_payload(flow), |example| example.input);
    let payload = payload.to_string();
    Some(format!(
        "curl -sS {} -H 'content-type: application/json' -d {}",
        shell_word(&address),
        shell_word(&payload),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(key: &str, function: &str) -> Flow {
        let source = format!(
            "flow: orders\ntrigger:\n  webhook: {{ auth: none, key: {key} }}\nsteps:\n  - id: a\n    function: {function}\n"
        );
        let checked = semel_flow::check("orders.flow.yaml", &source);
        assert!(checked.flow.is_some(), "{}", checked.render(false));
        checked.flow.unwrap()
    }

    #[test]
    fn the_line_names_the_hook_and_has_what_the_flow_reads() {
        let flow = flow("input.order.id", "input.name");

        let line = line(&flow, "", "http://127.0.0.1:7171", "default").unwrap();

        let expected = concat!(
            "curl -sS http://127.0.0.1:7171/hooks/default/orders",
            " -H 'content-type: application/json'",
            r#" -d '{"name":"example","order":{"id":"example-1"}}'"#,
        );
        assert_eq!(line, expected);
    }

    #[test]
    fn a_flow_without_a_hook_has_no_line() {
        let source = "flow: a\ntrigger: { api: {} }\nsteps:\n  - id: a\n    function: '1'\n";
        let flow = semel_flow::check("a", source).flow.unwrap();

        assert_eq!(line(&flow, source, "http://x", "default"), None);
    }

    #[test]
    fn the_line_has_the_first_example_of_the_flow() {
        let source = "flow: orders\ninput_schema: { type: object, properties: { total: { type: number } } }\n\
            trigger:\n  webhook: { auth: none, key: input.id }\nsteps:\n  - { id: a, function: input.total }\n\
            examples:\n  - { name: paid, input: { id: o-1, total: 99 } }\n";
        let checked = semel_flow::check("orders.flow.yaml", source);
        let flow = checked.flow.unwrap();

        let line = line(&flow, source, "http://x", "default").unwrap();

        assert!(line.ends_with(r#"-d '{"id":"o-1","total":99}'"#), "{line}");
    }
}

//! The networks and queues of a token: how many it has, and that it has none beyond its maker's.

use semel_model::{Label, Right};
use semel_store::tokens::NewToken;

use super::{TokenError, TokenMaker};

/// The most networks of a token.
const NETWORKS_MAX: usize = 32;

/// The most queues of a token.
const QUEUES_MAX: usize = 32;

/// What is wrong with the limits of a token, in one sentence.
pub(super) fn validate(token: &NewToken<'_>) -> Result<(), String> {
    if token.networks.len() > NETWORKS_MAX {
        return Err(format!("a token has at most {NETWORKS_MAX} networks"));
    }
    if token.queues.len() > QUEUES_MAX {
        return Err(format!("a token has at most {QUEUES_MAX} queues"));
    }
    if !token.queues.is_empty() && !token.rights.contains(Right::Work) {
        return Err(
            "queues are for the right `work`: give it as well, or leave the queues out".into(),
        );
    }
    Ok(())
}

/// Refuses a token that would work where its maker does not. The statement that stores it says the same.
pub(super) fn check_within(maker: TokenMaker<'_>, token: &NewToken<'_>) -> Result<(), TokenError> {
    if !maker.networks.include(&token.networks) {
        return Err(TokenError::BeyondNetworks(maker.networks.clone()));
    }
    let works = token.rights.contains(Right::Work);
    match works && !include(maker.queues, token.queues) {
        true => Err(TokenError::BeyondQueues(list(maker.queues))),
        false => Ok(()),
    }
}

/// Whether a token with these queues works on no others than one with its maker's.
fn include(own: &[Label], given: &[Label]) -> bool {
    own.is_empty() || (!given.is_empty() && given.iter().all(|queue| own.contains(queue)))
}

fn list(queues: &[Label]) -> String {
    let names: Vec<&str> = queues.iter().map(Label::as_str).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use semel_model::{Networks, Rights, Span, TokenId};

    use super::*;
    use crate::commands::connection::Actor;

    fn queues(names: &[&str]) -> Vec<Label> {
        names.iter().map(|name| name.parse().unwrap()).collect()
    }

    fn networks(texts: &[&str]) -> Networks {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    fn asked(rights: impl Into<Rights>, networks: Networks, queues: &[Label]) -> NewToken<'_> {
        NewToken {
            id: TokenId::from_uuid(uuid::Uuid::nil()),
            name: "ci",
            digest: &[0; 32],
            lifetime: Span::from_secs(60),
            groups: &[],
            role: None,
            rights: rights.into(),
            networks,
            queues,
        }
    }

    #[test]
    fn limits_are_few_and_queues_need_the_right_to_work() {
        let images = queues(&["images"]);
        let many = vec![images[0].clone(); QUEUES_MAX + 1];
        let everywhere: Networks = (0..=NETWORKS_MAX)
            .map(|n| format!("10.0.0.{n}").parse().unwrap())
            .collect();

        assert_eq!(
            validate(&asked(Right::Work, Networks::default(), &images)),
            Ok(())
        );
        assert!(validate(&asked(Right::Work, Networks::default(), &many)).is_err());
        assert!(validate(&asked(Right::Read, everywhere, &[])).is_err());
        let said = validate(&asked(Right::Read, Networks::default(), &images)).unwrap_err();
        assert!(said.contains("the right `work`"), "{said}");
    }

    #[test]
    fn a_maker_gives_what_lies_inside_its_own_limits() {
        let (own, elsewhere) = (queues(&["images", "thumbs"]), queues(&["images", "mail"]));
        let office = networks(&["10.0.0.0/8"]);
        let maker = TokenMaker {
            by: Actor {
                namespace_id: 1,
                actor: "token:desk",
            },
            id: TokenId::from_uuid(uuid::Uuid::nil()),
            rights: Rights::ALL,
            networks: &office,
            queues: &own,
        };
        let inside = || networks(&["10.1.0.0/16"]);

        assert!(check_within(maker, &asked(Right::Work, inside(), &own[..1])).is_ok());
        assert!(check_within(maker, &asked(Right::Read, inside(), &[])).is_ok());
        for beyond in [&[][..], &elsewhere] {
            let refused = check_within(maker, &asked(Right::Work, inside(), beyond));
            assert!(
                matches!(refused, Err(TokenError::BeyondQueues(_))),
                "{beyond:?}"
            );
        }
        for beyond in [
            Networks::default(),
            networks(&["10.1.0.0/16", "192.0.2.0/24"]),
        ] {
            let refused = check_within(maker, &asked(Right::Read, beyond, &[]));
            assert!(
                matches!(refused, Err(TokenError::BeyondNetworks(_))),
                "{refused:?}"
            );
        }
    }
}

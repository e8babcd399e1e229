//! Mail: what the server accepted, what it refused, and what stays unknown.

use anyhow::Result;
use semel_model::connection::Tls;
use semel_model::{Outcome, Span};
use semel_steps::Egress;
use semel_testkit::smtp::recipient;
use semel_testkit::{Cut, Proxy, Smtp, until};

use crate::enough_time::{is_in_doubt, with_enough_time};
use crate::notify::world::{
    SECRET, done, failed, in_doubt, key, mail_to, message, message_id, notifier, notifier_within,
    smtp,
};

#[tokio::test]
async fn a_mail_arrives_whole_under_the_effects_key() -> Result<()> {
    let server = Smtp::start().await?;
    let (notifier, _gate) = notifier()?;
    let to = mail_to(smtp(server.address()));
    let mut mail = message(&["Ada <ada@books.example>", "bob@books.example"]);
    mail.subject = Some("Rechnung für Ä".to_owned());
    mail.text = "Thank you.\r\n.\r\nA dot alone ends nothing.".to_owned();
    mail.html = Some("<p>Thank <b>you</b>.</p>".to_owned());

    let response = done(notifier.send(&mail, &to, key("a")).await);

    let mails = server.mails()?;
    assert_eq!(response["message_id"], serde_json::json!(message_id("a")));
    assert_eq!(mails.len(), 1);
    assert_eq!(server.count(&message_id("a"))?, 1);
    for part in [
        "ada@books.example",
        "bob@books.example",
        "A dot alone ends nothing.",
        "<b>you</b>",
        "Date: ",
    ] {
        assert!(mails[0].contains(part), "{part} is not in {}", mails[0]);
    }
    Ok(())
}

#[tokio::test]
async fn a_repeat_is_another_mail_under_the_same_id() -> Result<()> {
    let server = Smtp::start().await?;
    let (notifier, _gate) = notifier()?;
    let to = mail_to(smtp(server.address()));

    done(
        notifier
            .send(&message(&["ada@books.example"]), &to, key("a"))
            .await,
    );
    done(
        notifier
            .send(&message(&["ada@books.example"]), &to, key("a"))
            .await,
    );

    assert_eq!(
        server.count(&message_id("a"))?,
        2,
        "which is why mail is under review"
    );
    Ok(())
}

#[tokio::test]
async fn a_refusal_at_any_point_is_a_failure() -> Result<()> {
    let server = Smtp::start().await?;
    let (notifier, _gate) = notifier()?;
    let to = mail_to(smtp(server.address()));

    for (recipient, code, retryable) in [
        (recipient::REFUSED, "smtp-550", false),
        (recipient::BUSY, "smtp-450", true),
        (recipient::SPAM, "smtp-554", false),
        (recipient::FULL, "smtp-452", true),
    ] {
        let mail = message(&["ada@books.example", recipient]);
        let fault = failed(notifier.send(&mail, &to, key("a")).await);
        assert_eq!((fault.code.as_str(), fault.retryable), (code, retryable));
    }
    assert_eq!(
        server.mails()?.len(),
        0,
        "one refused recipient stops it for all"
    );
    Ok(())
}

#[tokio::test]
async fn no_header_can_be_slipped_in() -> Result<()> {
    let server = Smtp::start().await?;
    let (notifier, _gate) = notifier()?;
    let to = mail_to(smtp(server.address()));
    let mut subject = message(&["ada@books.example"]);
    subject.subject = Some("Hello\r\nBcc: eve@evil.example".to_owned());
    let hostile = [
        subject,
        message(&["ada@books.example\r\nBcc: eve@evil.example"]),
        message(&["\"Ada\r\nBcc: eve@evil.example\" <ada@books.example>"]),
        message(&["ada@books.example>\r\nRCPT TO:<eve@evil.example"]),
        message(&[]),
    ];

    for mail in &hostile {
        let fault = failed(notifier.send(mail, &to, key("a")).await);
        assert_eq!(
            (fault.code.as_str(), fault.retryable),
            ("message-unfit", false)
        );
    }
    assert_eq!(server.mails()?.len(), 0);
    Ok(())
}

#[tokio::test]
async fn without_a_connection_nothing_is_sent() -> Result<()> {
    let server = Smtp::start().await?;
    let proxy = Proxy::start(server.address()).await?;
    let (notifier, _gate) = notifier()?;
    let to = mail_to(smtp(proxy.address()));
    let mut mail = message(&["ada@books.example"]);

    proxy.refuse();
    let refused = failed(notifier.send(&mail, &to, key("a")).await);
    proxy.resume();
    proxy.hold_answers();
    mail.timeout = Span::from_millis(500);
    let silent = failed(notifier.send(&mail, &to, key("b")).await);

    assert_eq!(
        (refused.code.as_str(), refused.retryable),
        ("no-connection", true)
    );
    assert_eq!((silent.code.as_str(), silent.retryable), ("timeout", true));
    assert_eq!(server.mails()?.len(), 0);
    Ok(())
}

#[tokio::test]
async fn data_that_is_not_answered_in_time_is_a_doubt() -> Result<()> {
    let server = Smtp::start().await?;
    let (notifier, _gate) = notifier()?;
    let to = mail_to(smtp(server.address()));
    let mut mail = message(&[recipient::SLOW]);

    let attempt = async |timeout: Span| -> Result<Outcome> {
        mail.timeout = timeout;
        Ok(notifier.send(&mail, &to, key("a")).await)
    };
    let doubt = in_doubt(with_enough_time(attempt, is_in_doubt).await?);
    until_taken(&server, "a").await?;

    assert_eq!(doubt.code, "no-answer");
    assert_eq!(
        server.count(&message_id("a"))?,
        1,
        "it was taken all the same"
    );
    Ok(())
}

#[tokio::test]
async fn an_answer_that_is_lost_is_a_doubt() -> Result<()> {
    let server = Smtp::start().await?;
    let proxy = Proxy::start(server.address()).await?;
    let (notifier, _gate) = notifier()?;
    let to = mail_to(smtp(proxy.address()));

    let cutting = async {
        until_taken(&server, "a").await.unwrap();
        proxy.cut(Cut::Reset);
    };
    let mail = message(&[recipient::SLOW]);
    let (outcome, ()) = tokio::join!(notifier.send(&mail, &to, key("a")), cutting);

    assert_eq!(in_doubt(outcome).code, "no-answer");
    assert_eq!(server.count(&message_id("a"))?, 1);
    Ok(())
}

#[tokio::test]
async fn a_wire_that_breaks_anywhere_is_never_a_false_failure() -> Result<()> {
    let server = Smtp::start().await?;
    let proxy = Proxy::start(server.address()).await?;
    let (notifier, _gate) = notifier()?;
    let to = mail_to(smtp(proxy.address()));

    let (mut failures, mut doubts) = (0, 0);
    for budget in (0..900).step_by(60) {
        let name = format!("budget {budget}");
        proxy.cut_requests_after(budget, Cut::Reset);
        let outcome = notifier
            .send(&message(&["ada@books.example"]), &to, key(&name))
            .await;
        proxy.resume();
        let taken = server.count(&message_id(&name))?;
        match outcome {
            Outcome::Done(_) => assert_eq!(taken, 1, "{name}"),
            Outcome::Failed(_) => {
                failures += 1;
                assert_eq!(taken, 0, "{name}");
            }
            Outcome::InDoubt(_) => doubts += 1,
        }
    }

    assert!(
        failures > 0 && doubts > 0,
        "{failures} failures, {doubts} doubts"
    );
    Ok(())
}

#[tokio::test]
async fn a_server_without_tls_is_not_spoken_to_in_the_clear() -> Result<()> {
    let server = Smtp::start().await?;
    let (notifier, _gate) = notifier()?;

    for tls in [Tls::Required, Tls::Starttls] {
        let mut target = smtp(server.address());
        target.tls = tls;
        let mut mail = message(&["ada@books.example"]);
        mail.timeout = Span::from_millis(500);
        failed(notifier.send(&mail, &mail_to(target), key("a")).await);
    }
    assert_eq!(server.mails()?.len(), 0);
    Ok(())
}

#[tokio::test]
async fn a_password_lets_us_in_and_another_does_not() -> Result<()> {
    let server = Smtp::start_with_user("semel", SECRET).await?;
    let strange = Smtp::start_with_user("semel", "another").await?;
    let (notifier, _gate) = notifier()?;
    let account = |address| {
        let mut target = smtp(address);
        target.user = Some("semel".to_owned());
        target.secret = Some("s".to_owned());
        mail_to(target)
    };

    let mail = message(&["ada@books.example"]);
    done(
        notifier
            .send(&mail, &account(server.address()), key("a"))
            .await,
    );
    let refused = failed(
        notifier
            .send(&mail, &account(strange.address()), key("b"))
            .await,
    );
    let tested = notifier.test(&account(server.address())).await.unwrap();

    assert_eq!(
        (refused.code.as_str(), refused.retryable),
        ("sign-in-refused", false)
    );
    assert!(!refused.message.contains(SECRET));
    assert!(tested.contains("accepts mail from"), "{tested}");
    assert_eq!((server.mails()?.len(), strange.mails()?.len()), (1, 0));
    Ok(())
}

#[tokio::test]
async fn nothing_is_sent_without_a_lease_or_beyond_reach() -> Result<()> {
    let server = Smtp::start().await?;
    let to = mail_to(smtp(server.address()));
    let mail = message(&["ada@books.example"]);
    let (late, gate) = notifier()?;
    gate.close();
    let (strict, _gate) = notifier_within(Egress::default())?;

    let late = failed(late.send(&mail, &to, key("a")).await);
    let strict = failed(strict.send(&mail, &to, key("b")).await);

    assert_eq!((late.code.as_str(), late.retryable), ("lease-lost", true));
    assert_eq!(
        (strict.code.as_str(), strict.retryable),
        ("address-refused", false)
    );
    assert_eq!(server.mails()?.len(), 0);
    Ok(())
}

/// Waits until a server has taken the mail of a key. A mail that is being written cannot be read yet.
async fn until_taken(server: &Smtp, name: &str) -> Result<()> {
    let look = async || -> Result<usize> { Ok(server.count(&message_id(name)).unwrap_or(0)) };
    until("a mail to be taken", look, |count| *count > 0).await?;
    Ok(())
}

//! Commands that need no server, as a person or a program meets them.
#![expect(clippy::expect_used, reason = "a test that cannot begin has failed")]

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

/// Runs `semel` in a directory, with nothing of the tester's own configuration.
fn semel(directory: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_semel"))
        .args(arguments)
        .current_dir(directory)
        .env_clear()
        .output()
        .expect("semel runs")
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("stdout is text")
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("stderr is text")
}

/// The one object on stdout.
fn object(output: &Output) -> Value {
    serde_json::from_str(&stdout(output)).expect("stdout is one object")
}

fn directory() -> tempfile::TempDir {
    tempfile::tempdir().expect("a directory")
}

#[test]
fn a_first_flow_is_written_once_and_passes_its_check() {
    let place = directory();

    let first = semel(place.path(), &["init", "greet"]);
    let again = semel(place.path(), &["init", "greet"]);
    let checked = semel(place.path(), &["check", "greet.flow.yaml"]);

    assert!(first.status.success(), "{}", stderr(&first));
    assert!(again.status.success(), "{}", stderr(&again));
    assert_eq!(stdout(&first), "greet.flow.yaml\n");
    assert!(checked.status.success(), "{}", stderr(&checked));
    let table = stdout(&checked);
    assert!(
        table.contains("remember  kv  update  derived  transaction  safe"),
        "{table}"
    );
    assert!(!table.contains('\u{1b}'), "no colour behind a pipe");
}

#[test]
fn a_changed_file_is_not_overwritten() {
    let place = directory();
    let file = place.path().join("greet.flow.yaml");
    std::fs::write(&file, "flow: mine\n").expect("a file");

    let refused = semel(place.path(), &["init", "greet", "--json"]);

    assert_eq!(refused.status.code(), Some(6));
    assert_eq!(object(&refused)["outcome"], "conflict");
    let kept = std::fs::read_to_string(&file).expect("the file");
    assert_eq!(kept, "flow: mine\n");
}

#[test]
fn a_broken_flow_fails_its_check_and_points_at_the_place() {
    let place = directory();
    std::fs::write(place.path().join("a.flow.yaml"), "flow: a\nstep: []\n").expect("a file");

    let people = semel(place.path(), &["check", "a.flow.yaml"]);
    let program = semel(place.path(), &["check", "a.flow.yaml", "--json"]);

    assert_eq!(people.status.code(), Some(1));
    assert!(
        stderr(&people).contains("a.flow.yaml:2:1"),
        "{}",
        stderr(&people)
    );
    assert_eq!(program.status.code(), Some(1));
    let read = object(&program);
    assert_eq!(read["ok"], false);
    assert_eq!(read["error"]["code"], "flow-invalid");
    let codes: Vec<&str> = read["data"]["files"][0]["diagnostics"]
        .as_array()
        .expect("diagnostics")
        .iter()
        .filter_map(|diagnostic| diagnostic["code"].as_str())
        .collect();
    assert!(codes.contains(&"unknown-field"), "{codes:?}");
}

#[test]
fn a_missing_file_is_not_found() {
    let missing = semel(directory().path(), &["check", "none.flow.yaml", "--json"]);

    assert_eq!(missing.status.code(), Some(5));
    assert_eq!(object(&missing)["error"]["code"], "file-not-found");
}

#[test]
fn usage_errors_are_json_with_the_json_flag() {
    let place = directory();

    for words in [
        vec!["--json", "frobnicate"],
        vec!["run", "show", "not-a-run", "--json"],
        vec!["doubt", "settle", "eff_00", "--json"],
        vec!["run", "cancel", "--json"],
        vec!["--json"],
    ] {
        let refused = semel(place.path(), &words);

        assert_eq!(refused.status.code(), Some(2), "{words:?}");
        let read = object(&refused);
        assert_eq!(read["schema"], "semel/1");
        assert_eq!(read["outcome"], "usage", "{words:?}");
        assert_eq!(read["error"]["code"], "usage");
        assert!(read["error"]["message"].is_string());
    }
}

#[test]
fn people_read_what_was_wrong_on_stderr() {
    let refused = semel(directory().path(), &["frobnicate"]);

    assert_eq!(refused.status.code(), Some(2));
    assert_eq!(stdout(&refused), "");
    assert!(stderr(&refused).contains("frobnicate"));
}

#[test]
fn a_server_that_is_not_there_is_unreachable() {
    let place = directory();
    let words = [
        "--url",
        "http://127.0.0.1:1",
        "--token",
        "t",
        "run",
        "list",
        "--json",
    ];

    let unreachable = semel(place.path(), &words);

    assert_eq!(unreachable.status.code(), Some(8));
    let read = object(&unreachable);
    assert_eq!(read["outcome"], "unreachable");
    assert_eq!(read["next"][0]["command"], "semel doctor");
}

#[test]
fn without_a_token_a_client_is_denied_before_it_asks() {
    let denied = semel(directory().path(), &["run", "list", "--json"]);

    assert_eq!(denied.status.code(), Some(7));
    assert_eq!(object(&denied)["error"]["code"], "token-missing");
}

#[test]
fn every_shell_gets_its_completions() {
    let place = directory();

    for shell in ["bash", "zsh", "fish"] {
        let script = semel(place.path(), &["completions", shell]);

        assert!(script.status.success(), "{shell}");
        assert!(stdout(&script).contains("semel"), "{shell}");
    }
}

#[test]
fn a_configured_value_says_where_it_came_from_and_secrets_stay_secret() {
    let place = directory();
    std::fs::write(
        place.path().join("semel.toml"),
        "url = 'http://a.example'\ntoken = 'hush'\n",
    )
    .expect("a file");

    let shown = semel(place.path(), &["config", "show", "--json"]);

    let read = object(&shown);
    assert_eq!(read["data"][0]["value"], "http://a.example");
    assert_eq!(read["data"][0]["source"], "semel.toml");
    assert!(!stdout(&shown).contains("hush"));
}

#[test]
fn serving_without_a_database_says_what_to_set() {
    let place = directory();
    let secret = place.path().join("secret");
    std::fs::write(&secret, "00".repeat(32)).expect("a file");
    let secret = secret.to_string_lossy().into_owned();

    let refused = semel(
        place.path(),
        &["serve", "--secret-key-file", &secret, "--json"],
    );

    assert_eq!(refused.status.code(), Some(2));
    let hint = object(&refused)["error"]["hint"].to_string();
    assert!(hint.contains("DATABASE_URL"), "{hint}");
}

#[test]
fn presets_are_listed_without_a_server() {
    let place = directory();

    let people = semel(place.path(), &["connection", "presets"]);
    let program = semel(place.path(), &["connection", "presets", "--json"]);

    assert!(people.status.success(), "{}", stderr(&people));
    assert!(stdout(&people).contains("stripe"), "{}", stdout(&people));
    let read = object(&program);
    let names: Vec<&str> = read["data"]["items"]
        .as_array()
        .expect("items")
        .iter()
        .filter_map(|preset| preset["name"].as_str())
        .collect();
    assert_eq!(names.len(), 8, "{names:?}");
}

#[test]
fn a_secret_on_the_command_line_is_refused_and_not_shown() {
    let place = directory();

    for json in [&[][..], &["--json"]] {
        let words = [&["secret", "set", "stripe_key", "sk_live_4711"], json].concat();
        let refused = semel(place.path(), &words);

        assert_eq!(refused.status.code(), Some(2), "{}", stderr(&refused));
        let said = stdout(&refused) + &stderr(&refused);
        assert!(said.contains("command line"), "{said}");
        assert!(!said.contains("sk_live"), "{said}");
    }
}

#[test]
fn what_a_connection_lacks_is_named_by_its_flag() {
    let place = directory();
    let words = [
        "connection",
        "create",
        "db",
        "--preset",
        "postgres",
        "--host",
        "h",
        "--json",
    ];

    let refused = semel(place.path(), &words);

    assert_eq!(refused.status.code(), Some(2));
    let message = object(&refused)["error"]["message"].to_string();
    assert!(
        message.contains("--database, --user, --secret"),
        "{message}"
    );
}

#[test]
fn every_template_is_written_checked_and_formatted() {
    let place = directory();
    let listed = object(&semel(place.path(), &["init", "--list", "--json"]));
    let items = listed["data"]["items"].as_array().expect("templates");
    assert!(items.len() >= 5, "{listed}");

    for item in items {
        let name = item["template"].as_str().expect("a name");
        let file = format!("{name}.flow.yaml");
        let made = semel(place.path(), &["init", name, "--template", name]);
        let checked = semel(place.path(), &["check", &file]);
        let formatted = semel(place.path(), &["flow", "fmt", "--check", &file]);

        assert!(made.status.success(), "{name}: {}", stderr(&made));
        assert!(checked.status.success(), "{name}: {}", stderr(&checked));
        assert!(formatted.status.success(), "{name}: {}", stderr(&formatted));
    }
    let unknown = semel(place.path(), &["init", "a", "--template", "nowhere"]);
    assert_eq!(unknown.status.code(), Some(2));
}

#[test]
fn the_binary_explains_its_language_and_its_errors() {
    let place = directory();
    for topic in [
        "language",
        "http",
        "shapes",
        "functions",
        "guards",
        "input-invalid",
    ] {
        let told = semel(place.path(), &["explain", topic, "--json"]);
        let read = object(&told);

        assert!(told.status.success(), "{topic}");
        assert_eq!(read["data"]["topic"], topic);
        let text = read["data"]["text"].as_str().unwrap_or_default();
        assert!(text.len() > 200, "{topic}: {text}");
    }
    let shapes = object(&semel(place.path(), &["explain", "shapes", "--json"]));
    assert!(shapes["data"]["shapes"][0]["fields"][0]["field"].is_string());
    let unknown = semel(place.path(), &["explain", "nothing", "--json"]);
    assert_eq!(unknown.status.code(), Some(5));
    assert_eq!(object(&unknown)["error"]["code"], "topic-not-found");
}

#[test]
fn the_version_is_data_too() {
    let told = semel(directory().path(), &["--version", "--json"]);

    assert!(told.status.success());
    assert_eq!(object(&told)["data"]["version"], env!("CARGO_PKG_VERSION"));
}

#[test]
fn the_version_names_commit_and_build() {
    let place = directory();

    let told = stdout(&semel(place.path(), &["--version"]));
    let data = object(&semel(place.path(), &["--version", "--json"]));

    let build = data["data"]["build"].as_str().expect("a build");
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(told, format!("semel {version} ({build})\n"));
    if cfg!(debug_assertions) {
        assert_eq!(build, "dev build");
    } else {
        let (commit, profile) = build.rsplit_once(", ").expect("a commit and a profile");
        assert!(!commit.is_empty() && !profile.is_empty(), "{build}");
    }
}

#[test]
fn a_worker_that_cannot_work_is_refused_at_its_start() {
    let place = directory();
    let begin = |queue: &str, command: &str| {
        let words = [
            "worker", "--queue", queue, "--token", "t", "--json", "--", command,
        ];
        semel(place.path(), &words)
    };

    let missing = begin("images", "./not-there.sh");
    let unnamed = begin("no queue!", "sh");
    std::fs::write(place.path().join("plain.txt"), "no program").expect("a file");
    let plain = begin("images", "./plain.txt");

    for refused in [&missing, &unnamed, &plain] {
        assert_eq!(refused.status.code(), Some(2), "{}", stderr(refused));
        assert_eq!(object(refused)["outcome"], "usage");
    }
    assert!(stdout(&missing).contains("not-there.sh"));
}

#[test]
fn the_token_of_dev_is_not_shown_to_another_server() {
    let place = directory();
    let kept = place.path().join(".semel");
    std::fs::create_dir(&kept).expect("a folder");
    std::fs::write(kept.join("url"), "http://127.0.0.1:1\n").expect("a file");
    std::fs::write(kept.join("token"), "secret\n").expect("a file");

    let own = semel(place.path(), &["run", "list", "--json"]);
    let words = ["--url", "http://127.0.0.1:2", "run", "list", "--json"];
    let other = semel(place.path(), &words);

    assert_eq!(own.status.code(), Some(8), "it is asked, and is not there");
    assert_eq!(other.status.code(), Some(7));
    assert_eq!(object(&other)["error"]["code"], "token-missing");
}

#[test]
fn a_server_that_a_file_of_the_directory_names_does_not_get_the_token_of_the_environment() {
    let clone = directory();
    let stranger = std::net::TcpListener::bind("127.0.0.1:0").expect("a listener");
    stranger.set_nonblocking(true).expect("no wait");
    let url = format!("http://{}", stranger.local_addr().expect("an address"));
    let list = |words: &[&str]| {
        Command::new(env!("CARGO_BIN_EXE_semel"))
            .args(words)
            .current_dir(clone.path())
            .env_clear()
            .env("SEMEL_TOKEN", "semel_hush")
            .output()
            .expect("semel runs")
    };
    let refused = |words: &[&str]| {
        let output = list(words);
        assert_eq!(output.status.code(), Some(7), "{}", stderr(&output));
        let read = object(&output);
        assert_eq!(read["error"]["code"], "token-withheld");
        assert!(read["error"]["hint"].to_string().contains("SEMEL_URL"));
        assert_eq!(read["next"], serde_json::json!([]));
        assert!(!stdout(&output).contains("hush"));
    };

    std::fs::write(clone.path().join("semel.toml"), format!("url = '{url}'\n")).expect("a file");
    refused(&["run", "list", "--json"]);
    refused(&["run", "list", "--json", "--token", "semel_hush"]);
    std::fs::create_dir(clone.path().join(".semel")).expect("a folder");
    std::fs::write(clone.path().join(".semel/url"), format!("{url}\n")).expect("a file");
    refused(&["run", "list", "--json"]);
    let looked = list(&["doctor"]);

    let told = stdout(&looked);
    assert!(told.contains("is not sent to"), "{told}");
    let asked = stranger.accept().map(|_| ());
    let none = asked.map_err(|error| error.kind());
    assert_eq!(none, Err(std::io::ErrorKind::WouldBlock), "nobody asked");
}

#[test]
fn a_clone_that_brings_a_server_and_its_token_gets_no_secret() {
    let clone = directory();
    let set = || {
        Command::new(env!("CARGO_BIN_EXE_semel"))
            .args(["secret", "set", "stripe_key", "--json"])
            .current_dir(clone.path())
            .env_clear()
            .stdin(std::process::Stdio::null())
            .output()
            .expect("semel runs")
    };
    let write = |name: &str, text: &str| {
        std::fs::write(clone.path().join(name), text).expect("a file");
    };

    write(
        "semel.toml",
        "url = 'https://stranger.example'\ntoken = 'semel_hush'\n",
    );
    let by_file = set();
    std::fs::remove_file(clone.path().join("semel.toml")).expect("removed");
    std::fs::create_dir(clone.path().join(".semel")).expect("a folder");
    write(".semel/url", "https://stranger.example\n");
    write(".semel/token", "semel_hush\n");
    let by_folder = set();
    let listed = semel(clone.path(), &["run", "list", "--json"]);

    for (output, code) in [
        (&by_file, "secret-withheld"),
        (&by_folder, "secret-withheld"),
        (&listed, "token-withheld"),
    ] {
        assert_eq!(output.status.code(), Some(7), "{}", stderr(output));
        let read = object(output);
        assert_eq!(read["error"]["code"], code);
        assert!(stdout(output).contains("stranger.example"));
    }
}

#[test]
fn a_token_crosses_the_network_in_the_clear_only_if_that_is_asked_for() {
    let place = directory();
    // Another machine's address to the command, and nobody listens there.
    let words = [
        "--url",
        "http://0.0.0.0:1",
        "--token",
        "t",
        "run",
        "list",
        "--json",
    ];

    let refused = semel(place.path(), &words);
    let asked = semel(place.path(), &[&words[..], &["--insecure"]].concat());

    assert_eq!(refused.status.code(), Some(7));
    let read = object(&refused);
    assert_eq!(read["error"]["code"], "token-withheld");
    assert!(read["error"]["hint"].to_string().contains("https://"));
    assert_eq!(asked.status.code(), Some(8), "{}", stdout(&asked));
}

#[test]
fn a_secret_on_the_command_line_is_warned_of_and_not_shown() {
    let place = directory();
    let token = ["--token", "semel_hush", "config", "show", "--json"];
    let distant = "postgresql://semel:hunter2@db.example/semel";

    let told = semel(place.path(), &token);
    let quiet = semel(place.path(), &["config", "show"]);
    let database = semel(place.path(), &["migrate", "--database", distant]);

    assert!(told.status.success(), "{}", stderr(&told));
    assert!(stderr(&told).contains("set SEMEL_TOKEN instead"));
    assert_eq!(stderr(&quiet), "");
    assert!(stderr(&database).contains("set DATABASE_URL instead"));
    for output in [&told, &database] {
        let said = stdout(output) + &stderr(output);
        assert!(
            !said.contains("hush") && !said.contains("hunter2"),
            "{said}"
        );
    }
}

#[test]
fn doctor_says_where_others_can_read_what_is_sent() {
    let place = directory();
    let transport = |words: &[&str]| {
        let looked = object(&semel(
            place.path(),
            &[&["doctor", "--json"], words].concat(),
        ));
        let lines = looked["data"].as_array().expect("lines").clone();
        lines
            .into_iter()
            .find(|line| line["subject"] == "transport")
    };
    let serve = |text: &str| {
        let text = format!("[serve]\n{text}\n");
        std::fs::write(place.path().join("semel.toml"), text).expect("a file");
    };

    assert_eq!(transport(&[]), None, "nothing leaves this machine");
    let distant = transport(&["--url", "http://10.0.0.9:7171"]).expect("a line");
    serve("listen = '0.0.0.0:7171'");
    let open = transport(&[]).expect("a line");
    serve("listen = '0.0.0.0:7171'\npublic_url = 'https://semel.example'");
    let proxied = transport(&[]);

    for line in [distant, open] {
        assert_eq!(line["state"], "warn", "{line}");
        assert!(line["mend"].to_string().contains("https"), "{line}");
    }
    assert_eq!(proxied, None);
}

#[test]
fn an_archive_that_cannot_be_written_is_refused() {
    let place = directory();
    let write = |name: &str, text: &str| std::fs::write(place.path().join(name), text);
    write("taken", "no folder").expect("a file");
    write("key", &"0a".repeat(32)).expect("a file");
    write("semel.toml", "[serve]\narchive = 'taken/runs'\n").expect("a file");

    let served = semel(place.path(), &["serve", "--secret-key-file", "key"]);
    let looked = semel(place.path(), &["doctor"]);

    let why = "serve.archive cannot be used";
    assert!(stderr(&served).contains(why), "{}", stderr(&served));
    assert!(stdout(&looked).contains(why), "{}", stdout(&looked));
}

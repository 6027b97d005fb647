//! The configuration of `estop serve`: what is accepted, and what it means.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use estop_config::{AuthStyle, Env, Limits, PemFiles, Protocol, Retention, ServeConfig, TlsFiles};
use estop_core::guard::Guard;
use estop_core::policy::{Limit, Mode};
use secrecy::ExposeSecret;

fn env(variables: &[(&str, &str)]) -> Env {
    [("HOME", "/home/me")].iter().chain(variables).copied().collect()
}

#[track_caller]
fn with_env(yaml: &str, variables: &[(&str, &str)]) -> ServeConfig {
    estop_config::parse_serve(yaml, "estop.yaml", &env(variables)).expect("the configuration is accepted")
}

#[track_caller]
fn serve(yaml: &str) -> ServeConfig {
    with_env(yaml, &[])
}

fn refused(yaml: &str, variables: &[(&str, &str)]) -> String {
    estop_config::parse_serve(yaml, "estop.yaml", &env(variables)).expect_err("is refused").to_string()
}

#[test]
fn ui_5_without_a_file_everything_has_a_default() {
    let config = estop_config::load_serve(None, &env(&[])).expect("the defaults are fine");
    assert_eq!(config.listen.data.to_string(), "127.0.0.1:4100");
    assert_eq!(config.listen.admin.to_string(), "127.0.0.1:4101");
    assert_eq!(config.data_dir, PathBuf::from("/home/me/.local/state/estop"));
    assert_eq!((config.tls, config.behind_tls_proxy, config.require_keys), (None, false, false));
    assert_eq!(config.limits, Limits::default());
    assert!(config.llm_enabled);
    assert!(config.agent_keys.is_empty());
    assert_eq!(config.policies, estop_config::parse("", "estop.yaml").expect("an empty file"));
}

#[test]
fn ui_5_the_sample_is_read_by_serve_and_by_eval() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples/estop.yaml");
    let config = estop_config::load_serve(Some(&path), &env(&[])).expect("the sample loads");
    assert_eq!(config.limits, Limits::default(), "the sample shows the defaults");
    assert_eq!(config.policies, estop_config::load(&path).expect("eval reads it too"));
    // Also with everything that is commented out.
    let all: Vec<String> = fs::read_to_string(&path)
        .expect("the sample is there")
        .lines()
        .map(|line| line.replacen("#: ", "", 1))
        .collect();
    let keys = env(&[
        ("OPENAI_API_KEY", "sk-1"),
        ("ESTOP_KEY_CODER", "key-of-the-coder"),
        ("AZURE_OPENAI_API_KEY", "az-1"),
    ]);
    let config =
        estop_config::parse_serve(&all.join("\n"), "estop.yaml", &keys).expect("every example is valid");
    assert!(config.require_keys && config.providers.contains_key("azure"));
}

#[test]
fn ui_5_one_file_is_for_serve_and_for_eval() {
    let yaml = "
listen: {data: 127.0.0.1:1, admin: 127.0.0.1:2}
providers: {openai: {api_key_env: NOT_SET_HERE}}
require_keys: true
limits: {headers: 5}
agents: {coder: {key_env: NOT_SET_EITHER, role: pm, policy: {limits: {max_turns: 3}}}}";
    let policy =
        estop_config::parse(yaml, "estop.yaml").expect("eval needs no keys").resolve(Some("coder"), None);
    assert_eq!(policy.limits.max_turns, Limit::max(3));
    let config = with_env(yaml, &[("NOT_SET_HERE", "a"), ("NOT_SET_EITHER", "key-of-the-coder")]);
    assert_eq!(config.policies.resolve(Some("coder"), None), policy);
}

#[test]
fn ui_5_addresses_are_ipv4_ipv6_or_localhost() {
    for (given, expected) in [
        ("127.0.0.1:0", "127.0.0.1:0"),
        ("127.0.0.2:4100", "127.0.0.2:4100"),
        ("'[::1]:4100'", "[::1]:4100"),
        ("localhost:4200", "127.0.0.1:4200"),
    ] {
        let config = serve(&format!("listen: {{data: {given}}}"));
        assert_eq!(config.listen.data.to_string(), expected, "{given}");
    }
    let both = serve("listen: {data: 127.0.0.1:0, admin: 127.0.0.1:0}").listen;
    assert_eq!(both.data, both.admin, "the system picks two ports");
}

#[test]
fn ui_5_other_machines_may_connect_where_somebody_encrypts() {
    let tls = "tls: {cert: c.pem, key: ~/k.pem}\n";
    let config = serve(&format!("{tls}listen: {{data: 0.0.0.0:4100}}"));
    let files = TlsFiles { cert: "c.pem".into(), key: "/home/me/k.pem".into() };
    assert_eq!(config.tls, Some(files));
    let proxied = serve("behind_tls_proxy: true\nlisten: {data: '[::]:4100', admin: 10.0.0.1:4101}");
    assert!(proxied.behind_tls_proxy);
    assert!(serve("tls: {}").tls.is_none());
}

#[test]
fn ui_5_the_data_directory_follows_xdg() {
    let dir = |yaml, variables: &[(&str, &str)]| with_env(yaml, variables).data_dir;
    assert_eq!(dir("", &[("XDG_STATE_HOME", "/state")]), Path::new("/state/estop"));
    assert_eq!(dir("", &[("XDG_STATE_HOME", "relative")]), Path::new("/home/me/.local/state/estop"));
    assert_eq!(dir("", &[("XDG_STATE_HOME", "")]), Path::new("/home/me/.local/state/estop"));
    assert_eq!(dir("data_dir: here", &[]), Path::new("here"));
    assert_eq!(dir("data_dir: ~/here", &[]), Path::new("/home/me/here"));
    assert_eq!(
        dir("data_dir: here", &[("ESTOP_DATA_DIR", "/there: it is # x")]),
        Path::new("/there: it is # x")
    );

    let homeless =
        estop_config::parse_serve("", "estop.yaml", &Env::default()).expect_err("no home").to_string();
    let expected = "estop.yaml: data_dir has no default, because neither HOME nor XDG_STATE_HOME is set\n  Set `data_dir` or ESTOP_DATA_DIR.";
    assert_eq!(homeless, expected);
    let told = Env::default().with("ESTOP_DATA_DIR", "x");
    assert_eq!(estop_config::load_serve(None, &told).expect("a directory is given").data_dir, Path::new("x"));
}

#[test]
fn id_4_presets_need_no_configuration() {
    use AuthStyle::{Bearer, XApiKey, XGoogApiKey};
    use Protocol::{Anthropic, Gemini, Ollama, OpenAi};
    let expected = [
        ("anthropic", "https://api.anthropic.com", Anthropic, XApiKey),
        ("chatgpt", "https://chatgpt.com/backend-api/codex", OpenAi, Bearer),
        ("deepseek", "https://api.deepseek.com", OpenAi, Bearer),
        ("gemini", "https://generativelanguage.googleapis.com", Gemini, XGoogApiKey),
        ("groq", "https://api.groq.com/openai", OpenAi, Bearer),
        ("mistral", "https://api.mistral.ai", OpenAi, Bearer),
        ("moonshot", "https://api.moonshot.ai", OpenAi, Bearer),
        ("ollama", "http://127.0.0.1:11434", Ollama, AuthStyle::None),
        ("openai", "https://api.openai.com", OpenAi, Bearer),
        ("openrouter", "https://openrouter.ai/api", OpenAi, Bearer),
        ("together", "https://api.together.xyz", OpenAi, Bearer),
        ("xai", "https://api.x.ai", OpenAi, Bearer),
    ];
    let providers = serve("providers: {groq: }").providers;
    let found: Vec<_> = providers
        .iter()
        .map(|(name, p)| (name.as_str(), p.base_url.to_string(), p.protocol, p.auth))
        .collect();
    let expected: Vec<_> =
        expected.map(|(name, url, protocol, auth)| (name, url.to_owned(), protocol, auth)).into();
    assert_eq!(found, expected);
    assert!(providers.values().all(|p| p.api_key.is_none() && p.ca_file.is_none()));
}

#[test]
fn id_4_a_preset_keeps_what_is_not_given() {
    let yaml = "
providers:
  gemini: {ca_file: /g.pem}
  openai: {base_url: http://localhost:9000/v9/}
  azure: {base_url: https://me.openai.azure.com}
  anthropic: {protocol: openai, ca_file: /ca.pem}";
    let providers = serve(yaml).providers;
    let gemini = &providers["gemini"];
    assert_eq!((gemini.protocol, gemini.auth), (Protocol::Gemini, AuthStyle::XGoogApiKey));
    assert_eq!(gemini.base_url.to_string(), "https://generativelanguage.googleapis.com");
    let openai = &providers["openai"];
    assert_eq!(openai.base_url.path(), "/v9");
    assert_eq!((openai.base_url.authority().as_str(), openai.base_url.port()), ("localhost:9000", 9000));
    let azure = &providers["azure"];
    assert_eq!((azure.protocol, azure.auth), (Protocol::OpenAi, AuthStyle::ApiKey));
    let anthropic = &providers["anthropic"];
    assert_eq!(anthropic.auth, AuthStyle::Bearer, "auth follows the protocol");
    assert_eq!(anthropic.ca_file, Some("/ca.pem".into()));
}

#[test]
fn id_4_any_other_url_is_a_provider() {
    let yaml = "
providers:
  my-llm_2: {base_url: https://llm.example.com/v1}
  claude: {base_url: https://c.example.com, protocol: anthropic}
  local: {base_url: http://10.0.0.5:8000, allow_plain_http: true, auth: none}
  tunnel: {base_url: 'http://[::1]:9'}";
    let providers = serve(yaml).providers;
    let llm = &providers["my-llm_2"];
    assert_eq!((llm.protocol, llm.auth), (Protocol::OpenAi, AuthStyle::Bearer));
    assert_eq!(providers["claude"].auth, AuthStyle::XApiKey);
    assert_eq!(providers["local"].auth, AuthStyle::None);
    assert!(!providers["tunnel"].base_url.is_https());
}

#[test]
fn id_3_keys_come_from_variables_and_files_and_are_never_shown() {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("anthropic.key");
    fs::write(&file, "  sk-from-file\n").expect("the target directory is writable");
    let yaml = format!(
        "providers: {{openai: {{api_key_env: OPENAI_API_KEY}}, anthropic: {{api_key_file: {file:?}}}}}\n\
         agents: {{coder: {{key_env: estop_key_coder}}}}\nrequire_keys: true",
    );
    let variables = [("OPENAI_API_KEY", "sk-from-env "), ("estop_key_coder", "key-of-the-coder")];
    let config = with_env(&yaml, &variables);
    let key = |name: &str| config.providers[name].api_key.as_ref().map(|key| key.expose_secret().to_owned());
    assert_eq!(key("openai").as_deref(), Some("sk-from-env"));
    assert_eq!(key("anthropic").as_deref(), Some("sk-from-file"));
    assert_eq!(key("groq"), None, "the client's own is passed on");
    assert_eq!(config.agent_keys["coder"].expose_secret(), "key-of-the-coder");
    assert!(config.require_keys);

    let shown = format!("{config:?} {:?}", env(&variables));
    assert!(shown.contains("REDACTED"), "{shown}");
    for secret in ["sk-from", "key-of"] {
        assert!(!shown.contains(secret), "{shown}");
    }
}

#[test]
fn id_3_a_key_written_in_a_wrong_place_is_not_shown() {
    for yaml in [
        "providers: {openai: {api_key: SECRET}}",
        "providers:\n  openai:\n    api_key: 'SECRET'",
        "providers: {openai: {api_key_env: SECRET}}",
        "providers: {openai: {api_key_env: gsk_SECRET}}",
        "providers: {openai: {api_key_file: SECRET}}",
        "providers: {openai: {auth: 3, api_key_env: SECRET}}",
        "providers: {openai: {base_url: 'https://me:SECRET@host'}}",
        "providers: {openai: {base_url: 'https://host/?key=SECRET'}}",
        "providers: {openai: {api_key_env: [SECRET]}}",
        "agents: {coder: {key: SECRET}}",
        "agents: {coder: {key_env: SECRET}}",
        "admin_token: SECRET",
    ] {
        let message = refused(&yaml.replace("SECRET", "sk-s3cret"), &[]);
        assert!(message.starts_with("estop.yaml:") && !message.contains("s3cret"), "{yaml}: {message}");
    }
    for variable in [
        "ESTOP_PROVIDERS__OPENAI__API_KEY",
        "ESTOP_PROVIDERS__OPENAI__API_KEY_ENV",
        "ESTOP_PROVIDERS__OPENAI__API_KEY_FILE",
        "ESTOP_AGENTS__CODER__KEY_ENV",
        "ESTOP_CODER__KEY",
    ] {
        let message = refused("", &[(variable, "sk-s3cret")]);
        let place = format!("environment variable {variable}: ");
        assert!(message.starts_with(&place) && !message.contains("s3cret"), "{message}");
    }
    for (variable, key) in
        [("OPENAI_KEY", "sk s3cret"), ("OPENAI_KEY", "s3cret\n\u{e9}"), ("openai_key", "s3cret ")]
    {
        let yaml = "providers: {openai: {api_key_env: OPENAI_KEY}}";
        let message = refused(yaml, &[(variable, key)]);
        assert!(!message.contains("s3cret"), "{message}");
    }
}

#[test]
fn st_1_what_is_kept_has_bounds_that_can_be_switched_off() {
    assert_eq!(serve("").retention, Retention::default());
    let given =
        serve("retention: {journal_days: 30, journal_bytes: 1GiB, spend_days: off, cases_days: 36500}");
    let expected = Retention {
        journal_days: Some(30),
        journal_bytes: Some(1 << 30),
        spend_days: None,
        cases_days: Some(36_500),
        ..Retention::default()
    };
    assert_eq!(given.retention, expected);
    assert_eq!(serve("retention: {journal_bytes: off}").retention.journal_bytes, None);
    let days = ["journal", "events", "cases", "runs", "spend", "alerts", "access"];
    for key in days.map(|what| format!("{what}_days")).iter().map(String::as_str).chain(["journal_bytes"]) {
        for wrong in ["0", "-1", "1.5", ".nan", "never", "[]", "true", "1e30", "1TB", "15MiB"] {
            let message = refused(&format!("retention: {{{key}: {wrong}}}"), &[]);
            assert!(
                message.contains(&format!(" {key} must be a ")) && message.contains("or off"),
                "{message}"
            );
        }
    }
}

#[test]
fn ui_5_limits_are_positive_numbers_and_sizes() {
    let limits = serve(
        "limits: {body_bytes: 1MiB, header_bytes: 16384, upload_bytes: 2GiB, memory_bytes: '64 MiB', output_reserve: 13, headers: 7,
          connections: 8, streams_per_agent: 9, agents: 10, agent_names: 11, agent_idle_s: 12, header_timeout_s: 0.5, body_idle_timeout_s: 1,
          connect_timeout_s: 2, first_byte_timeout_s: 3, stream_idle_timeout_s: 4, client_write_timeout_s: 5.25, drain_s: 0}",
    )
    .limits;
    let expected = Limits {
        body_bytes: 1 << 20,
        header_bytes: 16 << 10,
        headers: 7,
        connections: 8,
        streams_per_agent: 9,
        agents: 10,
        agent_names: 11,
        agent_idle: Duration::from_secs(12),
        upload_bytes: 2 << 30,
        memory_bytes: 64 << 20,
        output_reserve: 13,
        header_timeout: Duration::from_millis(500),
        body_idle_timeout: Duration::from_secs(1),
        connect_timeout: Duration::from_secs(2),
        first_byte_timeout: Duration::from_secs(3),
        stream_idle_timeout: Duration::from_secs(4),
        client_write_timeout: Duration::from_millis(5250),
        drain: Duration::ZERO,
    };
    assert_eq!(limits, expected);

    let sizes = ["body_bytes", "header_bytes", "upload_bytes", "memory_bytes"];
    let counts = ["headers", "connections", "streams_per_agent", "agents", "agent_names", "output_reserve"];
    let seconds = [
        "agent_idle_s",
        "header_timeout_s",
        "body_idle_timeout_s",
        "connect_timeout_s",
        "first_byte_timeout_s",
        "stream_idle_timeout_s",
        "client_write_timeout_s",
    ];
    for key in sizes.iter().chain(&counts).chain(&seconds) {
        for wrong in
            ["0", "-1", ".nan", ".inf", "-.inf", "1e30", "lots", "[]", "16MB", "-1KiB", "0KiB", "true"]
        {
            let message = refused(&format!("limits: {{{key}: {wrong}}}"), &[]);
            assert!(message.contains(&format!(" {key} must be a")), "{key}: {wrong}: {message}");
        }
    }
}

#[test]
fn ui_5_variables_override_the_file() {
    let yaml = "
listen: {data: 127.0.0.1:1}
policy: {kill_switch_enabled: false, budget: {usd_per_day: 5}}
agents:
  my-agent: {role: pm}
  Other: ";
    let config = with_env(
        yaml,
        &[
            ("ESTOP_LISTEN__DATA", "[::1]:0"),
            ("ESTOP_LISTEN__ADMIN", "localhost:7"),
            ("ESTOP_PRESET", "strict"),
            ("ESTOP_POLICY__KILL_SWITCH_ENABLED", "true"),
            ("ESTOP_POLICY__EXEMPT_TOOLS", "[a, b]"),
            ("ESTOP_POLICY__LIMITS__MAX_TURNS", "off"),
            ("ESTOP_AGENTS__MY_AGENT__ROLE", "pr-review"),
            ("ESTOP_AGENTS__OTHER__POLICY__PROFILE", "batch"),
            ("ESTOP_AGENTS__NEW__ROLE", "007"),
            ("ESTOP_PROVIDERS__OPENAI__BASE_URL", "http://127.0.0.1:9"),
            ("ESTOP_LIMITS", "{headers: 5, agents: 6}"),
            ("ESTOP_LIMITS__AGENTS", "7"),
            ("ESTOP_LIMITS__BODY_BYTES", "2MiB"),
        ],
    );
    assert_eq!(config.listen.data.to_string(), "[::1]:0");
    assert_eq!(config.listen.admin.to_string(), "127.0.0.1:7");
    let file = &config.policies;
    assert_eq!(file.agents().collect::<Vec<_>>(), ["Other", "my-agent", "new"]);
    assert_eq!((file.role("my-agent"), file.role("new")), (Some("pr-review"), Some("007")));
    let policy = file.resolve(None, None);
    assert_eq!((policy.modes[Guard::Loop], policy.modes[Guard::Gate]), (Mode::Enforce, Mode::Enforce));
    assert_eq!(policy.loops.exempt_tools, ["a".into(), "b".into()]);
    assert_eq!(policy.limits.max_turns, Limit::Off);
    assert!(policy.budget.usd_per_day.is_some(), "what is not overridden stays");
    assert_eq!(config.providers["openai"].base_url.port(), 9);
    assert_eq!((config.limits.headers, config.limits.agents, config.limits.body_bytes), (5, 7, 2 << 20));

    let plain = serve("policy: {kill_switch_enabled: true, budget: {usd_per_day: 5}}");
    let same =
        with_env("policy:\n  budget: {usd_per_day: 5}", &[("ESTOP_POLICY__KILL_SWITCH_ENABLED", "true")]);
    assert_eq!(plain.policies, same.policies);
}

#[test]
fn ui_5_a_variable_alone_is_enough() {
    let config = with_env(
        "agents: {coder: }\nproviders:",
        &[
            ("ESTOP_AGENTS__CODER__KEY_ENV", "K_1"),
            ("K_1", "key-of-the-coder"),
            ("ESTOP_REQUIRE_KEYS", "true"),
        ],
    );
    assert_eq!(config.agent_keys.keys().map(AsRef::as_ref).collect::<Vec<&str>>(), ["coder"]);
    assert_eq!(with_env("", &[("ESTOP_TLS", "{cert: a, key: b}")]).tls.map(|tls| tls.key), Some("b".into()));
}

#[test]
fn ui_5_variables_of_others_are_left_alone() {
    let others = [
        "ESTOP_ADMIN_TOKEN",
        "ESTOP_TRACES",
        "ESTOP_SIM_SEED",
        "ESTOP_",
        "ESTOP_KEY_CODER",
        "NESTOP_A__B",
        "estop_a__b",
    ];
    let variables: Vec<(&str, &str)> = others.into_iter().map(|name| (name, "{")).collect();
    assert_eq!(with_env("", &variables).limits, Limits::default());
}

#[test]
fn ks_9_the_llm_channel_can_be_shut_by_the_environment() {
    let enabled = |variables: &[(&str, &str)]| with_env("", variables).llm_enabled;
    for (value, expected) in [("true", true), ("1", true), ("false", false), ("0", false), ("False", false)] {
        assert_eq!(enabled(&[("LLM_ENABLED", value)]), expected, "{value}");
        assert_eq!(enabled(&[("ESTOP_LLM_ENABLED", value)]), expected, "{value}");
    }
    assert!(!enabled(&[("LLM_ENABLED", "false"), ("ESTOP_LLM_ENABLED", "true")]), "one `false` is enough");
    for value in ["", "no", "off", "2"] {
        let message = refused("", &[("ESTOP_LLM_ENABLED", value)]);
        let expected =
            format!("environment variable ESTOP_LLM_ENABLED: must be true, false, 1 or 0; found {value:?}");
        assert_eq!(message, expected);
    }
}

#[test]
fn ui_5_a_pem_file_is_a_regular_file_that_ends() {
    for section in ["providers: {openai: {ca_file: /dev/zero}}", "tls: {cert: /dev/zero, key: /dev/zero}"] {
        let error = PemFiles::read(&serve(section)).expect_err("nobody reads it to its end");
        assert!(format!("{error:#}").contains("/dev/zero: is not a regular file"), "{error:#}");
    }
    let file = tempfile::NamedTempFile::new().expect("a file");
    file.as_file().set_len(2 << 20).expect("it grows");
    let section = format!("providers: {{openai: {{ca_file: {}}}}}", file.path().display());
    let error = PemFiles::read(&serve(&section)).expect_err("a part of it would be trusted");
    assert!(format!("{error:#}").contains("is larger than 1048576 bytes"), "{error:#}");
}

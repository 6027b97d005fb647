//! MCP servers as `estop serve` reads them (TL-3).

use estop_config::Env;

fn read(yaml: &str) -> Result<estop_config::ServeConfig, String> {
    let env: Env = [("HOME", "/home/me")].into_iter().collect();
    estop_config::parse_serve(yaml, "estop.yaml", &env).map_err(|error| error.to_string())
}

#[test]
fn tl_3_a_server_has_a_url_whose_slash_counts() {
    let yaml = "mcp: {servers: {Git.Hub_1: {url: 'https://api.example/mcp/', agent: coder}, b: {url: 'http://127.0.0.1:9/mcp'}}}";
    let config = read(yaml).expect("it is good");
    let settings = estop_daemon::wiring::settings(&config).expect("it can be wired");
    let (one, other) = (&settings.mcp["Git.Hub_1"], &settings.mcp["b"]);
    assert_eq!(
        (&*one.target.host, &*one.target.base_path, one.ends_with_slash),
        ("api.example", "/mcp", true)
    );
    assert_eq!((one.agent.as_deref(), other.agent.as_deref()), (Some("coder"), None));
    assert_eq!((other.target.port, other.ends_with_slash, other.target.tls), (9, false, false));
    assert!(read("").expect("it is good").mcp_servers.is_empty());
}

#[test]
fn tl_3_what_cannot_be_a_server_is_refused_with_the_mend() {
    for (yaml, says) in [
        ("mcp: {servers: {a: {url: 'http://far.example/mcp'}}}", "allow_plain_http"),
        ("mcp: {servers: {a: {url: 'http://127.0.0.1:4100/mcp/a'}}}", "circles"),
        ("mcp: {servers: {'a/b': {url: 'https://x/mcp'}}}", "part of a URL"),
        ("mcp: {servers: {a: {url: 'https://x/mcp', agent: system}}}", "`agent`"),
        ("mcp: {servers: {a: {url: 'https://me:secret@x/mcp'}}}", "user name"),
        ("mcp: {servers: {a: {}}}", "url"),
        ("mcp: {server: {a: {url: 'https://x/mcp'}}}", "servers"),
    ] {
        let error = read(yaml).expect_err(yaml);
        assert!(error.contains(says), "{yaml}: {error}");
    }
    assert!(read("mcp: {servers: {a: {url: 'http://far.example/mcp', allow_plain_http: true}}}").is_ok());
}

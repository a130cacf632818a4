//! Who may ask the page, for how much, and what it never does.

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use kvplan::web::{Limits, Server};

use crate::web_support::{Served, cli, get, raw};

/// Names that are paths are refused, also where the file exists and the command line takes it.
#[test]
fn no_file_is_reached_from_the_web() {
    let served = Served::start();
    let folder = tempfile::tempdir().unwrap();
    let card = folder.path().join("card.toml");
    let (_, text, _) = cli(&["show", "hardware", "h100-sxm", "--format", "toml"]);
    std::fs::write(&card, text).unwrap();
    let card = card.to_str().unwrap();
    assert_eq!(cli(&["plan", "--hardware", card, "--quiet"]).0, 0);
    let mut asked: Vec<String> = [
        "model=/etc/passwd",
        "model=config.json",
        "model=../../Cargo.toml",
        "model=Cargo.TOML",
        "model=%20Cargo.toml%20",
        "hardware=h100-sxm,./card.toml",
        "runtime=..%2f..%2fvllm.toml",
        "weights=model.gguf",
        "weights=model.GGUF%20",
        "weights=/dev/zero",
        "trace=/dev/zero",
        "trace=*",
        "trace=smol_1_t9_s5",
        "occupancy=/etc/passwd",
        "occupancy=Cargo",
        "arrivals=all",
        "arrivals=/dev/zero",
        "arrivals=all&lengths=/etc/passwd",
    ]
    .map(String::from)
    .to_vec();
    asked.push(format!("hardware={card}"));
    asked.push(format!("hardware={}", card.replace('/', "%2F")));
    for query in asked {
        for path in ["/api/plan", "/api/sweep", "/download/scenario.toml"] {
            let reply = served.get(&format!("{path}?{query}"));
            assert_eq!(reply.status, 422, "{query}: {}", reply.body);
            let (message, help) = reply.error();
            let refused = ["page reads no files", "one static batch"];
            assert!(
                refused.iter().any(|r| message.contains(r)),
                "{query}: {message}"
            );
            assert!(help.contains("`kvplan "), "{help}");
        }
    }
}

/// Nothing of the file system is served, however a path is written.
#[test]
fn no_path_leads_out_of_the_page() {
    let served = Served::start();
    for path in [
        "/../Cargo.toml",
        "/..%2f..%2fetc/passwd",
        "/%2e%2e/%2e%2e/etc/passwd",
        "//etc/passwd",
        "/page/index.html",
        "/main.js/../../Cargo.toml",
        "/api/",
        "/api/plan/",
        "/download/../api/plan",
        "/favicon.ico",
        "/.git/config",
    ] {
        assert_eq!(served.get(path).status, 404, "{path}");
    }
}

/// The name of another host, as after a DNS rebinding; none, or two.
#[test]
fn another_host_is_misdirected() {
    let served = Served::start();
    let port = served.port;
    let ask = |hosts: &str| raw(port, &format!("GET / HTTP/1.1\r\n{hosts}")).status;
    for ours in ["127.0.0.1", "localhost", "[::1]", "LocalHost"] {
        assert_eq!(ask(&format!("Host: {ours}:{port}\r\n")), 200, "{ours}");
    }
    for other in [
        "evil.example".to_string(),
        format!("evil.example:{port}"),
        "localhost".into(),
        format!("localhost:{}", port.wrapping_add(1)),
        format!("127.0.0.1.evil.example:{port}"),
        format!("evil@localhost:{port}"),
    ] {
        assert_eq!(ask(&format!("Host: {other}\r\n")), 421, "{other}");
    }
    assert_eq!(ask(""), 421);
    let two = format!("Host: localhost:{port}\r\nHost: evil.example\r\n");
    assert!([400, 421].contains(&ask(&two)));
    let whole = format!("GET http://evil.example/ HTTP/1.1\r\nHost: localhost:{port}\r\n");
    assert_eq!(raw(port, &whole).status, 421);
}

#[test]
fn only_short_questions_of_our_own_page_are_taken() {
    let served = Served::start();
    let port = served.port;
    let host = format!("Host: localhost:{port}\r\n");
    let ask =
        |line: &str, more: &str| raw(port, &format!("{line} HTTP/1.1\r\n{host}{more}")).status;
    assert_eq!(
        ask("GET /api/choices", "Sec-Fetch-Site: same-origin\r\n"),
        200
    );
    assert_eq!(
        ask("GET /api/choices", "Sec-Fetch-Site: cross-site\r\n"),
        403
    );
    for method in ["POST", "PUT", "DELETE", "OPTIONS", "TRACE"] {
        assert_eq!(ask(&format!("{method} /api/plan"), ""), 405, "{method}");
    }
    assert_eq!(ask("GET /", "Content-Length: 9\r\n"), 413);
    let long = |n: usize| format!("GET /api/plan?policy={}", "a".repeat(n));
    assert_eq!(ask(&long(4096 - 7), ""), 422);
    assert_eq!(ask(&long(4096 - 6), ""), 414);
}

/// Whatever a setting is given, it is answered or refused in words; nothing is a bug, and nothing ends the server.
#[test]
fn no_value_is_a_bug() {
    let served = Served::start();
    let values = [
        "",
        "%20",
        "-1",
        "0",
        "nan",
        "inf",
        "1e400",
        "18446744073709551616",
        "%F0%9F%98%80",
        "%00",
        "%FF",
        ",",
        "fit",
        "..",
        "four-tier:hbm=nan",
        "four-tier:hbm=1tok,,=",
        "four-tier:evict=1,semantics=cumulative",
        "selective:top-k=0",
        "%",
        "a%0Ab",
    ];
    for key in kvplan::scenario::keys::KEYS {
        for value in values {
            let reply = served.get(&format!("/api/plan?{}={value}", key.name));
            assert!(
                [200, 400, 422].contains(&reply.status),
                "{}={value}: {}",
                key.name,
                reply.body
            );
            if reply.status != 200 {
                assert!(!reply.error().0.is_empty());
            }
        }
    }
    for query in [
        "&&&",
        "=",
        "=8",
        "batch",
        "vary",
        "%3D",
        "?",
        "batch=8&",
        "policy=four-tier:window=4294967296",
    ] {
        let reply = served.get(&format!("/api/sweep?{query}"));
        assert!(
            [200, 400, 422].contains(&reply.status),
            "{query}: {}",
            reply.body
        );
    }
    assert_eq!(served.get("/").status, 200);
}

#[test]
fn too_much_for_the_page_says_so() {
    let served = Served::start();
    for (query, what) in [
        ("batch=5000", "5,000 requests"),
        ("output=300000&batch=1", "300,000 output tokens"),
        ("batch=1000&output=20000", "tokens of all requests"),
        (
            "hardware=h100-sxm,h200-sxm,a100-sxm-80gb&gpus=1,2,4",
            "9 cards",
        ),
    ] {
        let reply = served.get(&format!("/api/plan?{query}"));
        assert_eq!(reply.status, 422, "{query}: {}", reply.body);
        assert!(reply.error().0.contains(what), "{}", reply.body);
        assert!(reply.error().1.contains("command line has no such limit"));
    }
    let cells = "vary=policy.hbm=0..1%2B0.01";
    let reply = served.get(&format!("/api/sweep?hardware=gh200&{cells}"));
    assert!(reply.error().0.contains("101 cells"), "{}", reply.body);
}

/// Every answer, the wrong ones too, tells the browser to take nothing from elsewhere and to be framed by nobody.
#[test]
fn every_answer_carries_the_security_headers() {
    let served = Served::start();
    for target in ["/", "/main.js", "/api/choices", "/api/plan?x=1", "/nothing"] {
        let reply = served.get(target);
        let policy = reply.header("content-security-policy").unwrap();
        assert!(policy.starts_with("default-src 'self'"), "{policy}");
        assert!(policy.contains("frame-ancestors 'none'") && !policy.contains("unsafe"));
        for (name, value) in [
            ("x-content-type-options", "nosniff"),
            ("x-frame-options", "DENY"),
            ("referrer-policy", "no-referrer"),
            ("cross-origin-resource-policy", "same-origin"),
            ("cache-control", "no-store"),
        ] {
            assert_eq!(reply.header(name), Some(value), "{target} {name}");
        }
        assert_eq!(reply.header("access-control-allow-origin"), None);
    }
}

/// The page has no script or style in its markup, and nothing from elsewhere.
#[test]
fn the_page_is_whole_and_asks_nobody_else() {
    let served = Served::start();
    let page = served.get("/").body;
    for (at, _) in page.match_indices("<script") {
        let tag = &page[at..at + page[at..].find("</script>").unwrap()];
        assert!(tag.contains("src=\"/") && tag.ends_with('>'), "{tag}");
    }
    assert!(!page.contains("<style") && !page.contains(" style=") && !page.contains(" onclick="));
    for part in page.split(['"', '\'']).filter(|p| p.starts_with('/')) {
        if !part.starts_with("/download/") {
            assert_eq!(served.get(part).status, 200, "{part}");
        }
    }
    for file in [
        "/main.js",
        "/form.js",
        "/ask.js",
        "/show.js",
        "/chart.js",
        "/text.js",
        "/page.css",
    ] {
        let text = served.get(file).body;
        let addresses = text.matches("://").count();
        let names = text.matches("http://www.w3.org/2000/svg").count();
        assert_eq!(addresses, names, "{file}");
    }
}

/// A server in this process, with limits of its own, until the flag is set.
fn within(limits: Limits, test: impl FnOnce(u16)) {
    let server = Server::bind(0, limits).unwrap();
    let port = server.address().port();
    let stop = Arc::new(AtomicBool::new(false));
    let asked = Arc::clone(&stop);
    let serving = std::thread::spawn(move || server.run(move || asked.load(Ordering::Relaxed)));
    test(port);
    stop.store(true, Ordering::Relaxed);
    serving.join().unwrap().unwrap();
}

/// Some hundred milliseconds of work.
const LONG: &str = "/api/plan?hardware=gh200&batch=30&output=200000&trace=none";

/// What takes too long is answered 503, keeps the only turn, and the next question waits for it and is answered.
#[test]
fn a_question_that_takes_too_long_is_given_up_and_does_not_pile_up() {
    let limits = Limits {
        time: Duration::from_millis(40),
        at_once: 1,
        ..Limits::default()
    };
    within(limits, |port| {
        let begun = Instant::now();
        for _ in 0..3 {
            let reply = get(port, LONG);
            assert_eq!(reply.status, 503, "{}", reply.body);
            assert_eq!(reply.header("retry-after"), Some("1"));
            let (message, help) = reply.error();
            assert_eq!(message, "no answer within 0.04 s");
            assert!(help.contains("kvplan plan"), "{help}");
        }
        assert!(begun.elapsed() < Duration::from_secs(5));
        assert_eq!(get(port, "/").status, 200);
        // Once the first has run out its turn is free again: only one of the three was ever begun.
        let quick = "/api/plan?hardware=gh200&output=300&trace=none";
        let patience = Instant::now();
        while get(port, quick).status != 200 {
            assert!(patience.elapsed() < Duration::from_secs(100));
        }
    });
}

#[test]
fn a_full_queue_refuses_at_once() {
    let limits = Limits {
        waiting: 0,
        ..Limits::default()
    };
    within(limits, |port| {
        let reply = get(port, "/api/plan?hardware=gh200");
        assert_eq!(reply.status, 503);
        assert_eq!(reply.error().0, "too many questions at once");
    });
}

/// Ten readers at once: all are answered, with the same bytes.
#[test]
fn questions_at_once_are_all_answered() {
    let served = Served::start();
    let port = served.port;
    let ask = || get(port, "/api/plan?hardware=gh200&output=4000").body;
    let all: Vec<String> = std::thread::scope(|s| {
        let asked: Vec<_> = (0..10).map(|_| s.spawn(ask)).collect();
        asked.into_iter().map(|t| t.join().unwrap()).collect()
    });
    assert!(all[0].contains("kvplan/plan/1"));
    assert!(all.iter().all(|b| *b == all[0]));
}

#[test]
fn a_taken_port_names_the_way_out() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let (code, out, error) = cli(&["serve", "--port", &port]);
    assert_eq!((code, out.as_str()), (2, ""));
    assert!(error.contains(&format!(
        "cannot listen on 127.0.0.1:{port}: the port is taken"
    )));
    assert!(error.contains("--port 0"), "{error}");
}

/// Ctrl-C ends it at once, also while it computes, and that is no failure.
#[cfg(unix)]
#[test]
fn ctrl_c_stops_it_cleanly() {
    use std::io::Read as _;
    for busy in [false, true] {
        let mut served = Served::start();
        let port = served.port;
        let asking =
            busy.then(|| std::thread::spawn(move || std::panic::catch_unwind(|| get(port, LONG))));
        std::thread::sleep(Duration::from_millis(100));
        let pid = served.child.id().to_string();
        let begun = Instant::now();
        let kill = std::process::Command::new("kill")
            .args(["-INT", &pid])
            .status();
        assert!(kill.unwrap().success());
        let status = served.child.wait().unwrap();
        assert_eq!(status.code(), Some(0));
        assert!(begun.elapsed() < Duration::from_secs(20));
        let mut error = String::new();
        served
            .child
            .stderr
            .take()
            .unwrap()
            .read_to_string(&mut error)
            .unwrap();
        assert!(error.ends_with("stopped\n"), "{error}");
        if let Some(asking) = asking {
            asking.join().unwrap().ok(); // the connection may be cut
        }
    }
}

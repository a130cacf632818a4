//! A page that is served, and a client that says exactly what it is told to.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

/// `kvplan serve` on a free port; it ends with the test.
pub(crate) struct Served {
    pub(crate) child: Child,
    pub(crate) port: u16,
}

impl Served {
    pub(crate) fn start() -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_kvplan"))
            .args(["serve", "--port", "0"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let out = child.stdout.take().unwrap();
        BufReader::new(out).read_line(&mut line).unwrap();
        let port = line.trim().trim_end_matches('/').rsplit(':').next();
        let port = port.and_then(|p| p.parse().ok());
        Self {
            port: port.unwrap_or_else(|| panic!("no address in `{line}`")),
            child,
        }
    }

    pub(crate) fn get(&self, target: &str) -> Reply {
        get(self.port, target)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.child.kill().ok(); // it may have ended by itself
        self.child.wait().ok();
    }
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    /// Lines of the head, names in lower case.
    pub(crate) head: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Reply {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let found = self.head.iter().find(|(n, _)| n == name);
        found.map(|(_, v)| v.as_str())
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|e| panic!("{e}: {}", self.body))
    }

    pub(crate) fn error(&self) -> (String, String) {
        let told = self.json();
        let text = |key: &str| told["error"][key].as_str().unwrap_or_default().to_string();
        (text("message"), text("help"))
    }
}

/// A request as a browser on this machine sends it.
pub(crate) fn get(port: u16, target: &str) -> Reply {
    let host = format!("Host: 127.0.0.1:{port}\r\n");
    raw(port, &format!("GET {target} HTTP/1.1\r\n{host}"))
}

/// Any request: its head without the last line breaks.
pub(crate) fn raw(port: u16, head: &str) -> Reply {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    write!(stream, "{head}Connection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let mut lines = head.lines();
    let status = lines.next().unwrap().split(' ').nth(1).unwrap();
    let split = |l: &str| {
        let (name, value) = l.split_once(": ").unwrap();
        (name.to_ascii_lowercase(), value.to_string())
    };
    Reply {
        status: status.parse().unwrap(),
        head: lines.map(split).collect(),
        body: body.into(),
    }
}

/// The command line: exit code, stdout, stderr.
pub(crate) fn cli(args: &[&str]) -> (i32, String, String) {
    let out = Command::new(env!("CARGO_BIN_EXE_kvplan"))
        .args(args)
        .output()
        .unwrap();
    let text = |b: Vec<u8>| String::from_utf8(b).unwrap();
    (
        out.status.code().unwrap(),
        text(out.stdout),
        text(out.stderr),
    )
}

/// A query as the flags it stands for.
pub(crate) fn flags(query: &str) -> Vec<String> {
    let pairs = query.split('&').filter(|p| !p.is_empty());
    pairs
        .flat_map(|p| {
            let (name, value) = p.split_once('=').unwrap();
            [format!("--{name}"), value.to_string()]
        })
        .collect()
}

/// Where two JSON values first differ, key by key.
pub(crate) fn difference(a: &Value, b: &Value, at: &str) -> Option<String> {
    match (a, b) {
        (Value::Object(x), Value::Object(y)) => {
            let keys: std::collections::BTreeSet<&String> = x.keys().chain(y.keys()).collect();
            let inside =
                |k: &&String| difference(&a[k.as_str()], &b[k.as_str()], &format!("{at}.{k}"));
            keys.iter().find_map(inside)
        }
        (Value::Array(x), Value::Array(y)) if x.len() == y.len() => {
            let pairs = x.iter().zip(y).enumerate();
            let mut found = pairs.filter_map(|(i, (x, y))| difference(x, y, &format!("{at}[{i}]")));
            found.next()
        }
        _ => (a != b).then(|| format!("{at}: {a} and {b}")),
    }
}

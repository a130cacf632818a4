//! Every flag and first argument of every verb with values that nobody should give: it answers or refuses by name, soon, and
//! never panics.
//!
//! Verbs and flags are taken from the command line's own definition, so that a new flag is covered by itself and a new verb
//! fails here until somebody says what it needs.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::calibrate_make;
use crate::forward_make::{Tiny, gguf_with, tokenizer, write};

/// Longest that a call may take: by far more than any needs, be the machine slow.
const LIMIT: Duration = Duration::from_secs(60);

/// What every flag is given.
const VALUES: [&str; 19] = [
    "NaN",
    "-inf",
    "0",
    "-0",
    "-1",
    "1e300",
    "1e-300",
    "",
    " ",
    "\u{fc}\u{20ac}\u{1f600}\u{202e}",
    "\u{1b}[2J",
    "folder",
    "empty",
    "/dev/null",
    "/dev/full",
    "-1GiB",
    "999999999999999999999999999999",
    "1..0",
    ",:=",
];

/// What a setting of a deployment is given in verbs other than `simulate`, which share its table.
const FEW: [&str; 3] = ["NaN", "", "-1"];

/// A call that works, for each verb; flags that are tried are taken out of it.
const BASES: &[(&str, &str)] = &[
    ("simulate", "--output 64"),
    ("plan", "--output 64 --hardware gh200 --intervals none"),
    ("sweep", "--output 64 --vary batch=1,2"),
    ("list", "hardware"),
    ("show", "model llama-3.1-8b"),
    ("explain", "r.json fits"),
    ("report", "r.json"),
    ("rerun", "r.json"),
    ("serve", ""),
    ("selfcheck", "--output 64 --hardware gh200"),
    ("reproduce", ""),
    ("fit", "tables"),
    ("validate", "tables"),
    ("calibrate", "--from raw.csv"),
    ("doctor", ""),
    ("compare", "p.json --engine-log vllm.log"),
    ("plot", "--out x.svg --output 64"),
    (
        "record",
        "--model tiny.gguf --text the --max-new 2 --resume --out traces",
    ),
    (
        "eval",
        "--model tiny.gguf --problems p.jsonl --max-new 2 --policy h2o",
    ),
    ("trace import", "rows.json --out i.kvt"),
    ("trace info", "t.kvt"),
    ("trace head", "t.kvt"),
    ("trace verify", "t.kvt"),
    ("trace export", "t.kvt --out e.json"),
    ("trace synth", "--rows 50 --out s.kvt"),
    ("completions", "bash"),
    ("man", "plan"),
    ("schema", "plan"),
];

/// Verbs whose answer is no, or that lack something, though nothing is wrong with the call.
const WITHOUT: [(&str, i32); 3] = [("compare", 3), ("fit", 2), ("validate", 2)];

struct Verb {
    words: Vec<String>,
    base: Vec<String>,
    /// Long name, and whether it is a setting of a deployment.
    flags: Vec<(String, bool)>,
    /// Whether it takes an argument that is no flag.
    bare: bool,
}

/// What stands for a flag where a bare argument is tried.
const BARE: &str = "<bare>";

fn verbs() -> Vec<Verb> {
    let mut found = Vec::new();
    leaves(&kvplan::cli::command(), &[], &mut found);
    found
}

fn leaves(command: &clap::Command, path: &[String], out: &mut Vec<Verb>) {
    let mut below = command
        .get_subcommands()
        .filter(|c| c.get_name() != "help")
        .peekable();
    if below.peek().is_some() {
        for c in below {
            leaves(c, &[path, &[c.get_name().to_string()]].concat(), out);
        }
        return;
    }
    let name = path.join(" ");
    let base = BASES.iter().find(|b| b.0 == name);
    let base =
        base.unwrap_or_else(|| panic!("`{name}` is new: say in BASES what a call of it needs"));
    let valued = |a: &&clap::Arg| a.get_action().takes_values() && a.get_long().is_some();
    let flags = command.get_arguments().filter(valued).map(|a| {
        let setting = a.get_help_heading() == Some("Deployment");
        (a.get_long().unwrap().to_string(), setting)
    });
    out.push(Verb {
        words: path.to_vec(),
        base: base.1.split_whitespace().map(String::from).collect(),
        flags: flags.collect(),
        bare: command.get_positionals().next().is_some(),
    });
}

impl Verb {
    /// The call with another first argument.
    fn with_bare(&self, value: &str) -> Vec<String> {
        let mut base = self.base.clone();
        match base.first_mut().filter(|w| !w.starts_with("--")) {
            Some(first) => *first = value.into(),
            None => base.push(value.into()),
        }
        [self.words.clone(), base].concat()
    }

    /// The call that works without a flag and its value.
    fn without(&self, flag: &str) -> Vec<String> {
        let mut base = self.base.clone();
        if let Some(at) = base.iter().position(|w| w.strip_prefix("--") == Some(flag)) {
            base.drain(at..at + 2);
        }
        [self.words.clone(), base].concat()
    }
}

fn folder() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, bytes: &[u8]| std::fs::write(dir.path().join(name), bytes).unwrap();
    write(&dir, &gguf_with(&Tiny::new("llama", false, 4), tokenizer()));
    file("empty", b"");
    file("vllm.log", b"");
    file("p.jsonl", b"{\"prompt\": \"the.end\"}\n");
    file("raw.csv", calibrate_make::run().text().as_bytes());
    for name in ["folder", "tables"] {
        std::fs::create_dir(dir.path().join(name)).unwrap();
    }
    for line in [
        "simulate --output 64 -o r.json",
        "plan --output 64 --hardware gh200 --intervals none -o p.json",
        "trace synth --rows 50 -o t.kvt",
        "trace export t.kvt -o rows.json",
    ] {
        let args: Vec<String> = line.split(' ').map(String::from).collect();
        let out = run(dir.path(), &args, Stdio::piped()).unwrap();
        assert!(out.status.success(), "{line}: {out:?}");
    }
    dir
}

/// The same files in a folder of their own.
fn copy(from: &Path) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = dir.path().join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            std::fs::create_dir(to).unwrap();
        } else {
            std::fs::copy(entry.path(), to).unwrap();
        }
    }
    dir
}

/// Runs it; none if it does not end in time.
fn run(folder: &Path, args: &[String], stdout: Stdio) -> Option<Output> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kvplan"));
    command.current_dir(folder).args(args).stdin(Stdio::null());
    command.env_remove("CLICOLOR_FORCE");
    let child = command.stdout(stdout).stderr(Stdio::piped()).spawn();
    within(child.unwrap(), LIMIT)
}

fn within(mut child: Child, limit: Duration) -> Option<Output> {
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let id = child.id();
    let (out, err) = (child.stdout.take(), child.stderr.take());
    let read = |from: Option<Box<dyn std::io::Read + Send>>| {
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            if let Some(mut from) = from {
                from.read_to_end(&mut bytes).ok();
            }
            bytes
        })
    };
    let out = read(out.map(|o| Box::new(o) as _));
    let err = read(err.map(|e| Box::new(e) as _));
    let begun = Instant::now();
    let watch = std::thread::spawn(move || {
        let late = stopped.recv_timeout(limit).is_err();
        if late {
            Command::new("kill")
                .args(["-9", &id.to_string()])
                .status()
                .ok();
        }
        late
    });
    let status = child.wait().unwrap();
    let ended = begun.elapsed();
    stop.send(()).ok();
    let late = watch.join().unwrap() && ended >= limit;
    let output = Output {
        status,
        stdout: out.join().unwrap(),
        stderr: err.join().unwrap(),
    };
    (!late).then_some(output)
}

/// What is wrong with how a call ended; `usual` is what the call says without the flag.
fn fault(out: Option<&Output>, flag: &str, given: &str, usual: &str) -> Option<String> {
    let Some(out) = out else {
        return Some("does not end".into());
    };
    let told = String::from_utf8_lossy(&out.stderr);
    let bad = |c: char| (c.is_control() && c != '\n') || ('\u{202a}'..='\u{202e}').contains(&c);
    let shown: String = given.chars().filter(|c| !bad(*c)).take(20).collect();
    // What is blank stands in quotes, or is the name of a file before what is wrong with it.
    let quoted = ["`", "'"].map(|q| [given, given.trim()].map(|v| format!("{q}{v}{q}")));
    let file = ["error: :", "error:  "].iter().any(|e| told.starts_with(e));
    let blank = file || quoted.iter().flatten().any(|q| told.contains(q));
    let value = if shown.trim().is_empty() {
        blank
    } else {
        told.contains(&shown)
    };
    // Where there is one bare argument, a blank or a command to a terminal need not be shown.
    let bare = flag == BARE && (given.trim().is_empty() || given.chars().any(bad));
    let named = bare || told.contains(flag) || value;
    let why = match out.status.code() {
        _ if told.contains("panicked") || told.contains("a bug in kvplan") => "panics",
        Some(2 | 3) if !told.starts_with("error: ") && !told.contains("\nerror: ") => {
            "tells no error"
        }
        Some(2 | 3) if !named && told != usual => "does not name the flag",
        Some(0..=4) if told.chars().any(bad) => "writes control characters",
        Some(0..=4) if told.len() > 10_000 => "tells too much",
        Some(0..=4) => return None,
        _ => "ends with a wrong code",
    };
    Some(format!("{why} ({:?}): {told}", out.status.code()))
}

/// Runs jobs on all cores.
fn each<T: Sync>(jobs: &[T], work: impl Fn(&T) + Sync) {
    let next = AtomicUsize::new(0);
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    std::thread::scope(|s| {
        for _ in 0..cores {
            s.spawn(|| {
                while let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    work(job);
                }
            });
        }
    });
}

fn told(faults: Mutex<Vec<String>>) -> String {
    let mut text = String::new();
    for fault in faults.into_inner().unwrap() {
        writeln!(text, "{fault}").unwrap();
    }
    text
}

#[cfg(target_os = "linux")]
#[test]
fn no_value_of_any_flag_panics_or_hangs() {
    let folder = folder();
    let verbs = verbs();
    let mut jobs = Vec::new();
    for verb in &verbs {
        for (flag, setting) in &verb.flags {
            let few = *setting && verb.words != ["simulate"];
            let values = if few { &FEW[..] } else { &VALUES[..] };
            let args =
                |value: &str| [verb.without(flag), vec![format!("--{flag}={value}")]].concat();
            jobs.extend(values.iter().map(|v| (verb, flag.as_str(), *v, args(v))));
        }
    }
    for verb in verbs.iter().filter(|v| v.bare) {
        // What a device holds has no end, and a result may be large.
        let values = VALUES
            .iter()
            .filter(|v| !v.starts_with('-') && **v != "/dev/full");
        jobs.extend(values.map(|v| (verb, BARE, *v, verb.with_bare(v))));
    }
    // A page that is served does not end.
    jobs.retain(|(verb, _, _, args)| {
        let words = [&["kvplan".to_string()], &args[..]].concat();
        verb.words != ["serve"] || kvplan::cli::command().try_get_matches_from(words).is_err()
    });
    assert!(jobs.len() > 1500, "{}", jobs.len());
    let usual: BTreeMap<Vec<String>, String> = verbs
        .iter()
        .flat_map(|v| v.flags.iter().map(|f| v.without(&f.0)))
        .filter(|args| args[0] != "serve")
        .collect::<std::collections::BTreeSet<_>>()
        .into_iter()
        .filter(|args| args[0] != "calibrate" || args.len() > 1)
        .map(|args| {
            let own = copy(folder.path());
            let out = run(own.path(), &args, Stdio::null());
            let told = out.map_or_else(Vec::new, |o| o.stderr);
            (args, String::from_utf8_lossy(&told).into_owned())
        })
        .collect();
    let faults = Mutex::new(Vec::new());
    each(&jobs, |(verb, flag, value, args)| {
        // Values name files: each call has a folder of its own.
        let own = copy(folder.path());
        let out = run(own.path(), args, Stdio::null());
        let usual = usual.get(&verb.without(flag)).map_or("", String::as_str);
        if let Some(why) = fault(out.as_ref(), flag, value, usual) {
            let line = format!("{} --{flag}={value:?} {why}", verb.words.join(" "));
            faults.lock().unwrap().push(line);
        }
    });
    let told = told(faults);
    assert!(told.is_empty(), "{told}");
}

/// Behind a flag a number below zero is its value, and the refusal is ours.
#[test]
fn a_negative_value_is_the_flags() {
    let folder = tempfile::tempdir().unwrap();
    for (line, words) in [
        ("simulate --vram-reserve -1GiB", "--vram-reserve"),
        ("simulate --memory-fraction -0.5", "--memory-fraction"),
        ("plan --find max-batch --tpot-p99 -5ms", "--tpot-p99"),
        ("plan --find max-batch --max-hbm -1GiB", "--max-hbm"),
        ("plan --find max-batch --price -2", "--price"),
        ("sweep --vary batch=1,2 --jobs -1", "--jobs"),
        ("trace head smol_1_t9_s5 -n -3", "--rows"),
        ("trace synth -o s.kvt --seed -1", "--seed"),
        ("record --model m --text a -o r --max-new -4", "--max-new"),
        ("compare a.toml b.toml --tolerance -0.1", "--tolerance"),
    ] {
        let args: Vec<String> = line.split(' ').map(String::from).collect();
        let out = run(folder.path(), &args, Stdio::piped()).unwrap();
        let told = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(2), "{line}: {told}");
        assert!(
            told.contains(words) && !told.contains("unexpected argument") && !told.contains("tip:"),
            "{line}: {told}"
        );
    }
}

#[cfg(target_os = "linux")]
#[test]
fn every_verb_bears_a_closed_pipe_and_a_full_disk() {
    let folder = folder();
    let faults = Mutex::new(Vec::new());
    let verbs = verbs();
    each(&verbs, |verb| {
        let own = copy(folder.path());
        let name = verb.words.join(" ");
        // These answer with a file, measure for minutes or do not end.
        if ["serve", "plot"].contains(&name.as_str()) {
            return;
        }
        let args = [verb.words.clone(), verb.base.clone()].concat();
        let say = |what: &str, out: Option<Output>| {
            faults
                .lock()
                .unwrap()
                .push(format!("{name}: {what}: {out:?}"));
        };
        let code = |o: &Option<Output>| o.as_ref().and_then(|o| o.status.code());
        let lacks = WITHOUT.iter().find(|w| w.0 == name).map(|w| w.1);
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let out = run(own.path(), &args, writer.into());
        if code(&out) != lacks.or(Some(0)) {
            say("a closed pipe", out);
        }
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full");
        let out = run(own.path(), &args, full.unwrap().into());
        let told = out.as_ref().map_or_else(Vec::new, |o| o.stderr.clone());
        let told = String::from_utf8_lossy(&told);
        if code(&out) != lacks.or(Some(2)) || lacks.is_none() && !told.contains("cannot write") {
            say("a full disk", out);
        }
    });
    let told = told(faults);
    assert!(told.is_empty(), "{told}");
}

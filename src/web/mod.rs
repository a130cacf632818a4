//! The page: `plan` over HTTP, for somebody who moves a slider and sees when tiering pays.
//!
//! What is answered: the query of a request is the flags of the command line (`/api/plan?model=...&policy=...`), the
//! body is what that command prints as JSON, byte for byte; the page's own address is the same query, so a link keeps
//! the state. Everything the page draws comes from these bodies: the browser formats and adds up, it never models.
//! `question` reads a query, `answers` answers it, `desk` bounds how much is computed at once, `guard` says who may
//! ask, `site` holds the files of the page, `problem` turns an error into what the browser is told.
//!
//! What is ignored: requests over time, recordings and files of the user's own. A web page must not reach files, so
//! names are those of the catalog, and a path is refused before anything opens it. Rival designs: the simulator compiled
//! to wasm (no server, but a second build of everything, and numbers of another libm); a session that keeps state
//! on the server (no link, and two windows disturb each other).
//!
//! Only the loopback address is bound. A page elsewhere can still send requests here through the reader's browser, or
//! rebind its own name to 127.0.0.1, hence the checks of `guard`. A computation that takes longer than the time limit
//! is answered 503 and runs out alone; it keeps its turn, so that no more than `Limits::at_once` ever run.

mod answers;
mod choices;
mod desk;
mod guard;
mod problem;
mod question;
mod routes;
mod site;

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};

use crate::error::{Error, Result};

/// What the server takes on.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Longest wait for an answer, its turn included.
    pub time: Duration,
    /// Questions computed at once.
    pub at_once: usize,
    /// Questions that wait for their turn or are being computed; more are refused.
    pub waiting: usize,
    /// Longest query \[bytes\].
    pub query_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            time: Duration::from_secs(10),
            at_once: 2,
            waiting: 32,
            query_bytes: 4096,
        }
    }
}

/// How often it looks whether it should stop.
const TICK: Duration = Duration::from_millis(50);
/// How long answers under way may take once it should stop.
const FAREWELL: Duration = Duration::from_millis(500);

/// A server that has its port.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    limits: Limits,
    runtime: Runtime,
}

impl Server {
    /// Takes a port of the loopback address; 0 takes any free one.
    ///
    /// # Errors
    /// Usage: the port is taken or not allowed.
    pub fn bind(port: u16, limits: Limits) -> Result<Self> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let refused = |e: std::io::Error| cannot_listen(address, &e);
        let listener = TcpListener::bind(address).map_err(refused)?;
        listener.set_nonblocking(true).map_err(refused)?;
        Ok(Self {
            address: listener.local_addr().map_err(refused)?,
            listener,
            limits,
            runtime: runtime(limits.at_once)?,
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `stop` says so.
    ///
    /// # Errors
    /// Usage: the system takes the port away.
    pub fn run(self, stop: impl Fn() -> bool + Send + Sync + 'static) -> Result<()> {
        let (address, runtime) = (self.address, self.runtime);
        let ended = runtime.block_on(serve(self.listener, address, self.limits, stop));
        // A computation past its time would be waited for otherwise.
        runtime.shutdown_background();
        ended.map_err(|e| cannot_listen(address, &e))
    }
}

async fn serve(
    listener: TcpListener,
    address: SocketAddr,
    limits: Limits,
    stop: impl Fn() -> bool + Send + Sync + 'static,
) -> std::io::Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let (told, tells) = tokio::sync::oneshot::channel::<()>();
    let watched = async move {
        while !stop() {
            tokio::time::sleep(TICK).await;
        }
        told.send(()).ok(); // it ended by itself
    };
    let app = routes::app(address.port(), limits);
    let serving = axum::serve(listener, app).with_graceful_shutdown(watched);
    let farewell = async {
        tells.await.ok(); // as above
        tokio::time::sleep(FAREWELL).await;
    };
    tokio::select! {
        ended = serving => ended,
        () = farewell => Ok(()),
    }
}

/// One thread for the network, one a question.
fn runtime(at_once: usize) -> Result<Runtime> {
    let made = Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .max_blocking_threads(at_once)
        .build();
    made.map_err(|e| {
        Error::usage(format!("cannot serve: {e}")).help("the system is out of threads or files")
    })
}

fn cannot_listen(address: SocketAddr, error: &std::io::Error) -> Error {
    let taken = error.kind() == std::io::ErrorKind::AddrInUse;
    let why = if taken {
        "the port is taken".into()
    } else {
        error.to_string()
    };
    Error::usage(format!("cannot listen on {address}: {why}")).help(
        "perhaps it is served already: open it in a browser; else name another port with --port, or any free one with --port 0",
    )
}

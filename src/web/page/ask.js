// Questions to the server: the latest wins, a superseded one is aborted.

/** Longest that a superseded question may still finish, so that a slow hand sees every answer [ms]. */
const GRACE = 150;

/** What the server refused, with the way out. */
export class Refused extends Error {
  constructor(told) {
    super(told.message);
    this.help = told.help ?? "";
  }
}

/** The body of an answer. */
export async function get(path, query, signal) {
  const response = await fetch(query ? `${path}?${query}` : path, { signal });
  const body = await response.json();
  if (!response.ok) throw new Refused(body.error);
  return body;
}

/**
 * Calls `work(question, signal)` for the latest question and `done(answer, question, ms)` or `failed(error)` after it.
 * Questions within `delay` ms of each other are one.
 */
export function asker(delay, work, done, failed) {
  let timer = null;
  let waiting = null;
  let running = null;

  function next() {
    timer = null;
    if (waiting === null) return;
    if (running) {
      const age = performance.now() - running.begun;
      if (age < GRACE) return void (timer = setTimeout(next, GRACE - age));
      running.controller.abort();
    }
    start();
  }

  async function start() {
    const question = waiting;
    const mine = { controller: new AbortController(), begun: performance.now() };
    waiting = null;
    running = mine;
    try {
      const answer = await work(question, mine.controller.signal);
      if (running === mine) done(answer, question, performance.now() - mine.begun);
    } catch (error) {
      if (running === mine && error.name !== "AbortError") failed(error);
    }
    if (running !== mine) return;
    running = null;
    if (waiting !== null) {
      clearTimeout(timer);
      next();
    }
  }

  return (question) => {
    waiting = question;
    if (timer === null) timer = setTimeout(next, delay);
  };
}

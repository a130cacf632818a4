//! What each figure of requests over time means, and each of a search: as [`super`], in the same form.
//!
//! A time has five statistics (mean, p50, p90, p99, max) and an instant has ten figures: their group has the one entry.

use super::{Formula, STEP, f};

/// Figures of a server under load, by their key in an outcome.
#[rustfmt::skip] // one figure an entry
pub const SERVING: &[Formula] = &[
    f("serving.requests", "requests that come; all of them are served to the end", &["serving.makespan_s"], &[], ""),
    f("serving.offered_requests_per_s", "(requests - 1) / time from the first arrival to the last", &["serving.requests", "serving.makespan_s"], &[], "null if all came at once; what is served cannot be more for long"),
    f("serving.max_running", "requests that run together at most: --batch", &["batch"], &[], "under load; what fits may be less"),
    f("serving.token_budget_tokens", "tokens of a step at most, decode tokens first, then chunks of prompts: --token-budget, else the runtime's", &["serving.max_running"], &["batched"], "at least max_running"),
    f("serving.prompt_tokens_total", "sum over requests", &["serving.requests"], &[], ""),
    f("serving.output_tokens_total", "sum over requests", &["serving.requests"], &[], ""),
    f("serving.cached_tokens_total", "prompt tokens whose blocks an earlier prompt had computed, in whole blocks from the start", &["serving.prompt_tokens_total"], &[], "0 unless the load names its blocks; the last token of a prompt is always computed"),
    f("serving.makespan_s", "from the first arrival to the last token at its client, the way to the server counted", &["serving.requests", "serving.output_tokens_total", "serving.running_mean"], STEP, "the tail in which few requests run counts"),
    f("serving.requests_per_s", "requests / makespan", &["serving.requests", "serving.makespan_s"], STEP, "at most offered_requests_per_s for a long load"),
    f("serving.output_tokens_per_s", "output tokens of all requests / makespan, prefill and idle time included", &["serving.output_tokens_total", "serving.makespan_s"], STEP, "below throughput.output_tokens_per_s, which counts decode steps alone"),
    f("serving.ttft", "TTFT: the way to the engine (front) + the stay in line (queued) + the prompt (prefill), of each request", &["serving.front.mean_s", "serving.queued.mean_s", "serving.prefill.mean_s", "serving.token_budget_tokens", "prompt_tokens"], &["front", "kernel", "gemm", "prefill", "gap", "batched"], "over requests, nearest rank"),
    f("serving.tpot", "TPOT: (last token - first token) / (output tokens - 1) of each request; preemption and steps shared with prompts count", &["serving.running_mean", "serving.preemptions", "output_tokens", "step.linear_s", "step.attention_s", "step.gap_s"], STEP, "over requests, nearest rank; none for a single token"),
    f("serving.itl", "ITL: time between two tokens of a request, over all tokens of all requests", &["serving.tpot.mean_s", "serving.token_budget_tokens"], STEP, "over tokens: its tail is steps beside a full budget of prompts, and preemption"),
    f("serving.e2el", "E2EL: the way to the engine + queue + prompt + all further tokens = TTFT + (output tokens - 1) x TPOT of the same request", &["serving.ttft.mean_s", "serving.tpot.mean_s", "output_tokens"], STEP, "over requests, nearest rank; percentiles do not add up"),
    f("serving.front", "the way to the engine: the runtime's front, a fixed part and one for every request that is there", &["serving.requests"], &["front"], "part of TTFT and E2EL; over requests, nearest rank"),
    f("serving.queued", "from a request's coming to the begin of the step that first takes up its prompt: a slot, tokens of the budget, HBM and host memory must be free", &["serving.waiting_mean", "serving.max_running", "serving.kv_room_bytes"], &["memory", "pinned"], "part of TTFT; over requests, nearest rank"),
    f("serving.prefill", "from the begin of its first step to its first token: all steps in which a chunk of its prompt runs, and a stay in line if it gave way meanwhile", &["serving.token_budget_tokens", "prompt_tokens", "serving.running_mean"], &["kernel", "gemm", "prefill", "gap", "batched"], "part of TTFT; over requests, nearest rank"),
    f("serving.goodput_requests_per_s", "requests that meet every limit asked for / makespan", &["serving.met_share", "serving.requests_per_s", "serving.slo_ttft_s", "serving.slo_tpot_s", "serving.slo_e2el_s"], STEP, "at most requests_per_s; null without limits (--slo)"),
    f("serving.met_share", "requests that meet every limit asked for / requests", &["serving.requests", "serving.slo_ttft_s", "serving.slo_tpot_s", "serving.slo_e2el_s"], STEP, "null without limits (--slo)"),
    f("serving.slo_ttft_s", "limit asked for", &["serving.met_share"], &[], ""),
    f("serving.slo_tpot_s", "limit asked for, of the mean over each request", &["serving.met_share"], &[], ""),
    f("serving.slo_e2el_s", "limit asked for", &["serving.met_share"], &[], ""),
    f("serving.running_mean", "requests in the batch, prompts included: sum over steps of their number x step time / makespan", &["serving.max_running", "serving.output_tokens_per_s", "serving.makespan_s"], &[], "idle time counts; at most max_running"),
    f("serving.running_max", "largest number in the batch", &["serving.max_running"], &[], ""),
    f("serving.waiting_mean", "sum of all stays in line, of those that gave way too / makespan", &["serving.queued.mean_s", "serving.requests_per_s"], &[], "Little's law: requests_per_s x queued.mean_s, unless some gave way"),
    f("serving.waiting_max", "most requests in line at once", &["serving.requests"], &[], ""),
    f("serving.preemptions", "times the latest request gave way because the next step's pages did not fit", &["serving.kv_room_bytes", "serving.running_max"], &["memory"], "each time counted; 0 if HBM never fills"),
    f("serving.swaps", "those whose KV went to host memory and came back", &["serving.preemptions"], &["link", "pinned"], "0 under --preempt recompute"),
    f("serving.t0_share", "tokens in T0, mean over time / tokens in all tiers", &["policy", "serving.t1_share", "serving.t2_share", "serving.t3_share"], &[], "the four sum to 1"),
    f("serving.t1_share", "tokens in T1, mean over time / tokens in all tiers", &["policy", "serving.t0_share"], &[], "the four sum to 1"),
    f("serving.t2_share", "tokens in T2, mean over time / tokens in all tiers", &["policy", "serving.t0_share"], &[], "the four sum to 1"),
    f("serving.t3_share", "tokens destroyed, mean over time / tokens in all tiers", &["policy", "serving.t0_share"], &[], "the four sum to 1"),
    f("serving.kv_mean_bytes", "occupancy: KV and staging in HBM after each step, prompt blocks that requests share once, x its time / makespan", &["serving.kv_room_bytes", "serving.running_mean", "kv"], &["page"], "at most kv_room"),
    f("serving.kv_room_bytes", "hbm_capacity - weights - activations - reserve", &["memory.hbm_capacity_bytes", "memory.weights_bytes", "memory.activation_bytes", "memory.reserve_bytes"], &["memory", "reserve", "activation"], "what requests share"),
    f("serving.over_time", "the state after a step, a stride apart: the stride doubles whenever 512 instants are there", &["serving.makespan_s", "serving.running_mean"], &[], "instants, not means"),
];

/// Figures of a card in a search (`plan --find`).
#[rustfmt::skip] // one figure an entry
pub const SOLVED: &[Formula] = &[
    f("answer", "the last number from the easy end whose run keeps to all limits, by doubling, then halving; best.value in the unit of the search", &["best.value", "next.value", "limited_by", "tried"], &[], "its neighbour was run, too, and breaks a limit; a further one may keep to them again under load"),
    f("tried", "points that were run for the best estimates", &[], &[], "without those of the draws"),
    f("intervals.draws", "draws of every cause of uncertainty at once: a Latin hypercube by seed; each is a machine, searched anew from the answer on", &[], &[], "20, or 100 with --intervals full"),
    f("intervals.answer_p5", "5th percentile over draws of what a search finds on the machine drawn", &["answer", "intervals.draws"], &[], "to 4 %; null if in more than 5 % of the draws nothing keeps to the limits"),
    f("intervals.answer_p95", "95th percentile over draws of what a search finds on the machine drawn", &["answer", "intervals.draws"], &[], "to 4 %"),
    f("intervals.keeps_share", "draws in which the answer's number keeps to the limits (without an answer: in which any does) / draws", &["answer", "intervals.draws"], &[], "about half where a limit of time stops it: best estimates are medians"),
    f("price_usd_per_gpu_hour", "--price, or what the machine's profile has", &["hardware", "gpus"], &[], "null if neither is known"),
    f("usd_per_million_output_tokens", "price x GPUs / 3600 / output tokens per second x 10^6, at the answer", &["price_usd_per_gpu_hour", "gpus", "best.output_tokens_per_s"], &[], "GPUs that are never idle: what is not used costs as much"),
    f("best", "the point of the answer, as `simulate` runs it", &["answer", "next.value"], &[], ""),
    f("best.tpot_p99_s", "99th percentile of the time per output token: over steps of a static batch, over requests under load", &["best.value"], &[], "explain the same key of `simulate` at this point for its parts"),
    f("best.ttft_p99_s", "99th percentile of the time to the first token: the prefill of all prompts for a static batch, over requests under load", &["best.value"], &[], "explain the same key of `simulate` at this point for its parts"),
    f("best.hbm_peak_bytes", "weights + activations + reserve + KV and staging at their largest, over all GPUs", &["best.value"], &[], "never over the capacity of the card"),
    f("best.ddr_peak_bytes", "largest host memory: T1 and T2 of all requests, and T0's copies under write-through", &["best.value"], &[], "never over what may be pinned"),
    f("best.output_tokens_per_s", "output tokens / time of the whole run, prefill included", &["best.value"], &[], "explain the same key of `simulate` at this point for its parts"),
    f("next", "the neighbour beyond the answer, run the same way: it breaks the limits that `why` names", &["why", "next.value", "answer"], &[], "null where the search ends before a limit"),
];

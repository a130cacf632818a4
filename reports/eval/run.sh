#!/usr/bin/env bash
# Makes what lies beside it: run.sh SMOLLM2.gguf QWEN.gguf FOLDER, the folder with gsm8k_test_300.jsonl.
# About an hour on two cores.
set -euo pipefail
S=$(realpath "$1") Q=$(realpath "$2") P=$(realpath "$3")
T="--temperature 0.6 --top-p 0.95 --seed 1"
W=window=32
FT=four-tier:hbm=0.5,$W,semantics=cumulative
cd "$(dirname "$0")"
go() { name=$1; shift; kvplan -q eval -o "$name.json" "$@"; kvplan -q eval --from "$name.json" --format md -o "$name.md"; }
curve=()
for e in 0.01 0.03 0.05 0.1 0.25 0.5; do curve+=(--policy $FT,evict=$e); done
for s in per-age ema:0.98; do for e in 0.03 0.1 0.25 0.5; do curve+=(--policy $FT,evict=$e,score=$s); done; done
for e in 0.1 0.5; do curve+=(--policy $FT,evict=$e,score=last); done
for b in 0.97 0.9 0.75 0.5; do curve+=(--policy stream-evict:$W,budget=$b); done
for n in 420 360 280 180; do curve+=(--policy h2o:heavy=$((n/2)),recent=$((n/2)) --policy streaming-llm:window=$((n-4)) --policy tova:budget=$n --policy r-kv:budget=$((n-20)) --policy random:budget=$n,window=32); done
go smollm2-curves --model "$S" --problems prompts.jsonl --limit 4 --teacher-forced $T --max-new 384 "${curve[@]}"
equal() { echo --equal retained --policy $FT,evict=$1 --policy $FT,evict=$1,score=per-age --policy $FT,evict=$1,score=ema:0.98 --policy $FT,evict=$1,score=last --policy stream-evict:$W --policy streaming-llm --policy h2o --policy tova --policy r-kv --policy random:$W; }
go smollm2-gsm8k --model "$S" --problems "$P"/gsm8k_test_300.jsonl --limit 16 --max-new 256 --policy $FT,evict=0 --policy $FT,evict=0.03 --policy $FT,evict=0.1 --policy $FT,evict=0.5 --policy $FT,evict=0.5,score=per-age --policy h2o:heavy=100,recent=100 --policy streaming-llm:window=196 --policy r-kv:budget=180 --policy tova:budget=200
for q in per-tensor-8 per-token-8 per-channel-8 per-tensor-4 per-token-4 per-channel-4; do go smollm2-t2-$q --model "$S" --problems prompts.jsonl --limit 4 --teacher-forced $T --max-new 384 --t2 $q --policy four-tier:hbm=0.3,$W,t2=0.5 --policy four-tier:hbm=0,$W,t2=1; done
for p in kept restart; do go smollm2-positions-$p --model "$S" --problems prompts.jsonl --limit 4 --teacher-forced $T --max-new 384 --positions $p --policy $FT,evict=0.03 --policy $FT,evict=0.1 --policy $FT,evict=0.5 --policy streaming-llm:window=176; done
go smollm2-grid --model "$S" --problems prompts.jsonl --limit 4 --max-new 256 --grid=$W
for e in 0.5 0.1; do go smollm2-equal-$e --model "$S" --problems prompts.jsonl --limit 4 --teacher-forced $T --max-new 384 $(equal $e); done
go qwen-gsm8k --model "$Q" --problems "$P"/gsm8k_test_300.jsonl --limit 6 --max-new 256 --policy $FT,evict=0.03 --policy $FT,evict=0.5 --policy $FT,evict=0.5,score=per-age --policy h2o:heavy=100,recent=100 --policy streaming-llm:window=196 --policy r-kv:budget=180
for n in smollm2-curves smollm2-gsm8k; do for i in svg png; do kvplan -q eval --from $n.json --format csv --plot $n.$i >/dev/null; done; done
go smollm2-equal-hbm --model "$S" --problems prompts.jsonl --limit 4 --teacher-forced $T --max-new 384 --equal hbm-peak --policy $FT,evict=0.1 --policy $FT,evict=0.1,score=per-age --policy $FT,evict=0.1,score=ema:0.98 --policy stream-evict:$W --policy streaming-llm --policy h2o --policy tova --policy r-kv --policy random:$W

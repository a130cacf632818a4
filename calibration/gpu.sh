#!/usr/bin/env bash
# Everything that needs a real GPU, in at most six minutes: what the machine is; the kernels against their CPU references
# through the driver; the same and the tier loop under compute-sanitizer, where it is installed; a quick calibration, with
# the tier loop in all modes and the hold-out. All of it into one folder: the first argument, else $OUT, else ./gpu-run.
#
# Uses the binaries that $KVPLAN and $KVPLAN_TESTS name, else target/release as `cargo build --release` and
# `cargo test --release --no-run` left it; builds what is missing, which is not part of the six minutes. Exit code: 0 if every
# step that ran passed.
set -uo pipefail
cd "$(dirname "$0")/.."
out=${1:-${OUT:-gpu-run}}
mkdir -p "$out"
out=$(cd "$out" && pwd)
summary=$out/summary.txt
: >"$summary"

kvplan=${KVPLAN:-target/release/kvplan}
tests() {
    if [ -n "${KVPLAN_TESTS:-}" ]; then
        echo "$KVPLAN_TESTS"
        return
    fi
    find target/release/deps -maxdepth 1 -name 'it-*' -type f -perm -u+x -printf '%T@ %p\n' 2>/dev/null |
        sort -rn | head -1 | cut -d' ' -f2
}
[ -x "$kvplan" ] || cargo build --release || exit 1
[ -n "$(tests)" ] || cargo test --release --test it --no-run || echo "the tests are not built: the kernels are checked by the tier loop only" >>"$summary"

begun=$SECONDS
failed=0
# step NAME SECONDS COMMAND...: runs it into NAME.txt, no longer than that, and never past six minutes in all.
step() {
    local name=$1 most=$2 left=$((355 - SECONDS + begun)) code
    shift 2
    [ "$most" -le "$left" ] || most=$left
    if [ "$most" -le 0 ]; then
        echo "$name: NOT RUN, no time is left" | tee -a "$summary"
        return
    fi
    local from=$SECONDS
    timeout --signal=INT --kill-after=10 "$most" "$@" >"$out/$name.txt" 2>&1
    code=$?
    case $code in
        0) echo "$name: passed in $((SECONDS - from)) s" ;;
        124 | 137) echo "$name: STOPPED after $most s" ;;
        *) echo "$name: FAILED with $code in $((SECONDS - from)) s, see $name.txt" ;;
    esac | tee -a "$summary"
    [ "$code" = 0 ] || failed=1
}

command -v nvidia-smi >/dev/null && step nvidia-smi 15 nvidia-smi -q
step doctor 30 "$kvplan" doctor
it=$(tests)
kernels=(kernels_on_cpu --skip mutants --skip the_checks_run_through_a_driver --test-threads 1)
[ -n "$it" ] && KVPLAN_GPU=1 step kernels 60 "$it" "${kernels[@]}"
step tier_loop 60 "$kvplan" calibrate --check-only

sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda*/bin/compute-sanitizer 2>/dev/null | tail -1)
if [ -n "$sanitizer" ]; then
    for tool in memcheck racecheck; do
        step "sanitizer-$tool" 60 "$sanitizer" --tool "$tool" --error-exitcode 9 "$kvplan" calibrate --check-only --quick
    done
    [ -n "$it" ] && KVPLAN_GPU=1 step sanitizer-kernels 40 "$sanitizer" --tool memcheck --error-exitcode 9 "$it" "${kernels[@]}"
else
    echo "compute-sanitizer: not installed, NOT RUN" | tee -a "$summary"
fi

step calibrate 110 "$kvplan" calibrate --quick --unchecked -v -o "$out/calibration" ${KVPLAN_CARD:+--gpu "$KVPLAN_CARD"}
# The same profile from the raw file, to the byte.
raw=$(ls "$out"/calibration/raw/*.csv 2>/dev/null | head -1)
if [ -n "$raw" ]; then
    step again 30 "$kvplan" calibrate --from "$raw" -o "$out/again"
    step same 10 cmp "$out"/calibration/*.toml "$out"/again/*.toml
    sed -n '/PREDICTED AND NOT FITTED/,/^$/p' "$out/calibrate.txt" >"$out/holdout.txt"
    grep -h 'predicted and not fitted' "$out"/calibration/*.toml >>"$summary"
fi
echo "in all: $((SECONDS - begun)) s, into $out" | tee -a "$summary"
exit "$failed"

#!/usr/bin/env bash
# A sweep as a Slurm job array: one shard a task. The sweep is what follows the script's name, as of `kvplan sweep`:
#
#   sbatch slurm.sh --hardware gh200 --vary batch=1..64*2 --vary policy.hbm=0.1..0.9+0.1
#
# A task that was killed or requeued goes on with the cells it had finished. To cut otherwise, change both lines that say
# 8, or: KVPLAN_SHARDS=32 sbatch --array=1-32 slurm.sh ... A single shard again: sbatch --array=3 slurm.sh ...
# When all are done, and nothing but the file of the answer is left to choose:
#
#   kvplan sweep --merge shards/shard-*.json -o sweep.json
#
#SBATCH --job-name=kvplan-sweep
#SBATCH --array=1-8
#SBATCH --cpus-per-task=4
#SBATCH --mem=4G
#SBATCH --time=01:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=%x-%a.log
set -euo pipefail

shards=${KVPLAN_SHARDS:-8}
shard=${SLURM_ARRAY_TASK_ID:?is not set: submit this script with sbatch, or set it to the number of a shard}
folder=${KVPLAN_FOLDER:-shards}

mkdir -p "$folder"
exec "${KVPLAN:-kvplan}" sweep "$@" --shard "$shard/$shards" --resume --jobs "${SLURM_CPUS_PER_TASK:-1}" \
    -o "$folder/shard-$shard.json"

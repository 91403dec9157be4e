#!/bin/sh
# Runs the main job on the golden texts: golden.sh MPIEXEC RANKS PROGRAM [ARGS...]. Exit 0 when the embeddings agree within 2e-6.
set -eu
here=$(dirname "$0")
mpiexec=$1 ranks=$2 program=$3
shift 3
model=$("$here/../../tools/fetch-minilm")
exec "$mpiexec" --oversubscribe --bind-to none -np "$ranks" "$program" --model "$model" --golden "$here/../data/minilm-golden.json" --no-table "$@"

#!/bin/sh
# spin_test.sh MODEL [CC]: the protocol's SPIN model holds, exhaustively, and each mistake planted in it is found. Works in the
# current folder. Exit status 1 and the verifier's output when something is not as it should be.
set -eu
model=$1
compiler=${2:-cc}
failed=0

# verify WANTED NAME "MODEL FLAGS" "VERIFIER FLAGS" "RUN FLAGS"; WANTED: holds, or wrong
verify() {
  spin -a $3 "$model" >spin.log
  # a mistake is found in a moment: compiling is the longer part
  case $1 in holds) optimise=-O1 ;; *) optimise=-O0 ;; esac
  "$compiler" $optimise -w $4 -DCOLLAPSE -DMEMLIM=4000 -o pan pan.c
  ./pan $5 -m2000000 >pan.log 2>&1 || true
  states=$(sed -n 's/^ *\([0-9.e+]*\) states, stored.*/\1/p' pan.log)
  errors=$(sed -n 's/.*errors: \([0-9]*\)$/\1/p' pan.log)
  outcome=unfinished
  case $errors in
    0) grep -q -e 'max search depth too small' -e 'Search not completed' -e 'pan: error' pan.log || outcome=holds ;;
    1) grep -q -e 'assertion violated' -e 'acceptance cycle' pan.log && outcome=wrong ;;
  esac
  printf '%-64s %9s states  %s\n' "$2" "$states" "$outcome"
  if [ "$outcome" != "$1" ]; then
    echo "expected: $1"
    cat spin.log pan.log
    failed=1
  fi
}

safety() { verify "$1" "$2" "$3" -DSAFETY ""; }
progress() { verify "$1" "$2" "$3 -DLIVE" -DNFAIR=8 "-a -f"; }  # -f: weak fairness

safety holds "3 agents, 1 block, evictions" "-DN=3 -DP=1 -DK=2 -DEVICT"
safety holds "2 agents, 2 blocks, two-block accesses, evictions" "-DN=2 -DP=2 -DK=2 -DEVICT -DPAIRS=2"
progress holds "2 agents, 1 block, evictions: every access completes" "-DN=2 -DP=1 -DEVICT"
progress holds "2 agents, 2 blocks, two-block accesses: every access completes" "-DN=2 -DP=2 -DPAIRS=2"
progress holds "... evictions, two-block writes in both orders" "-DN=2 -DP=2 -DPAIRS=1 -DEVICT"

progress wrong "mistake 1: no hold" "-DN=2 -DP=2 -DPAIRS=1 -DBUG=1"
progress wrong "mistake 2: a fault elsewhere gives up all" "-DN=2 -DP=2 -DPAIRS=1 -DBUG=2"
safety wrong "mistake 3: a fault elsewhere gives up nothing" "-DN=2 -DP=2 -DPAIRS=1 -DBUG=3"
safety wrong "mistake 4: grant before the last InvAck" "-DN=3 -DP=1 -DK=2 -DEVICT -DBUG=4"
safety wrong "mistake 5: an Upgrade that lost its race gets no bytes" "-DN=3 -DP=1 -DK=2 -DEVICT -DBUG=5"
safety wrong "mistake 6: a stale PutM is applied" "-DN=3 -DP=1 -DK=2 -DEVICT -DBUG=6"
safety wrong "mistake 7: an Inv that meets an upgrade waits for its grant" "-DN=3 -DP=1 -DK=2 -DEVICT -DBUG=7"
exit $failed

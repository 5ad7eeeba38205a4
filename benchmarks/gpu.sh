#!/usr/bin/env bash
# Run what a borrowed GPU is worth using for, in order, until a deadline.
#
#     make gpu DEADLINE=540                              540 seconds of it; the next call goes on
#     DEADLINE=540 RESULTS=carry bash benchmarks/gpu.sh  the same without make, with results in carry/
#     REHEARSE=1 bash benchmarks/gpu.sh                  the same commands, tiny and on the CPU
#
# A command that is done is skipped. One that was stopped or failed is started again. Its output and the card's state
# are in $RESULTS/items/<name>.log. At the deadline the running command writes its checkpoint and ends.
cd "$(dirname "$0")/.." || exit
python=${PYTHON:-python} results=$(realpath -m "${RESULTS:-results/gpu}") end=$((SECONDS + ${DEADLINE:-100000}))
export TEST_GPU=1 # tests hide the GPU without it
mkdir -p "$results/items"

card() {
    nvidia-smi --format=csv,noheader \
        --query-gpu=name,driver_version,pstate,clocks.sm,clocks.mem,power.draw,power.limit,temperature.gpu,memory.used \
        2>/dev/null || echo no GPU
}

# item NAME "WORDS that rehearsing it adds" WORDS of python -m...
item() {
    local name=$1 log=$results/items/$1.log done=$results/items/$1.done left=$((end - SECONDS - 30)) status=done
    local words=("${@:3}")
    [ -z "$REHEARSE" ] || read -ra words <<<"${words[*]} $2"
    if [ "$(cat "$done" 2>/dev/null)" = "${words[*]}" ]; then echo "$name: done before"; return; fi
    if [ "$left" -le 0 ]; then echo "$name: no time is left"; return; fi
    echo "# python -m ${words[*]}; $(card)" >>"$log"
    PYTHONUNBUFFERED=1 timeout -k 30 "$left" "$python" -m "${words[@]}" >>"$log" 2>&1
    case $? in 0) echo "${words[*]}" >"$done" ;; 124 | 137) status=stopped ;; *) status=failed ;; esac
    echo "$name: $status: $(tail -n 1 "$log")"
    card >>"$log"
}

small="task=digits task.model.width=2 epochs=2 device=cpu threads=1"
once="results_dir=$results checkpoint_every=100000" # a stop writes the only checkpoint

# addopts= undoes the project's default, which leaves out slow tests.
item tests "" pytest -p no:cacheprovider -o addopts= tests/experiments/test_graph.py \
    tests/algorithms/test_rounds_on_a_gpu.py::test_a_message_of_a_gpu_is_that_of_a_cpu
for precision in float32 tf32 bf16; do
    for method in cd_adam ef21_both_ways; do
        item "step-$method-$precision" "$small rounds=null" benchmarks.train_step algorithm=$method task.precision=$precision
    done
done
for seeds in 0 0,1,2; do
    for figure in figure_3 figure_1; do
        item "$figure-$seeds" "$small task.precision=float32" \
            experiments.reproduce figure=$figure budget=full "seeds=[$seeds]" jobs=3 $once
    done
done
for figure in figure_3_vgg16 figure_3_wrn16_4; do
    item "$figure-0" "$small task.precision=float32" experiments.reproduce figure=$figure budget=full "seeds=[0]" jobs=3 $once
done
item one_rank "-k cpu" pytest -p no:cacheprovider -o addopts= tests/cluster/test_torchrun.py -k cuda
# GPT-2 small on made-up tokens.
"$python" - "$results" >/dev/null <<<'import numpy, sys
for part in "train_000001", "val_000000":
    header = numpy.array([20240520, 1, 20000] + 253 * [0], "<i4")
    tokens = numpy.arange(20000) * 7919 % 50257
    open(f"{sys.argv[1]}/fineweb_{part}.bin", "wb").write(header.tobytes() + tokens.astype("<u2").tobytes())'
item fineweb "task.model.layers=1 task.model.heads=1 task.model.width=2 task.context=8 cluster.workers=2 task.batch_size=1 device=cpu threads=1" \
    experiments.run task=text/fineweb data_dir=$results task.dataset.shards=1 task.dataset.held_out=2000 rounds=1 warmup_rounds=0 \
    algorithm=adamw lr=0.001 $once
# nanoGPT's run, whose readme has 1.4697 as its best held-out loss.
shakespeare="experiments.run task=text/shakespeare_base $once"
item language-adamw "$small" $shakespeare algorithm=adamw lr=0.001 update.beta2=0.99 weight_decay=0.1
item language-cd_adam "$small" $shakespeare algorithm=cd_adam lr=0.001
item language-onebit_adam "$small" $shakespeare algorithm=onebit_adam lr=0.001
item language-ef21_both_ways "$small" $shakespeare algorithm=ef21_both_ways lr=0.1

"""The runs whose trajectories are recorded, by group and id, as command lines of `python -m experiments.run`."""

import os
from pathlib import Path

_RUN = ("cluster.workers=4", "rounds=9", "eval_every=3", "device=cpu")
_CANCER = ("task=logreg/breast_cancer", "task.batch_size=16", *_RUN)
_SYNTHETIC = ("task=logreg/synthetic", "task.dataset.rows=200", "task.batch_size=16", *_RUN)
_IMAGES = (
    "task=digits", "task.model.width=8", "task.rows=256", "task.batch_size=16", "task.evaluation_rows=64",
    "task.evaluation_batch=48", "cluster.workers=4", "rounds=8", "eval_every=4", "device=cpu",
)  # fmt: skip

_FILE = (
    "task=logreg/file", f"task.dataset.file={Path(__file__).parent / 'points.svm'}",
    f"data_dir={os.devnull}",  # where nothing can be kept
    *_RUN,
)  # fmt: skip

_METHODS = {
    "sgd": "algorithm=sgd lr=0.3",
    "sgd-momentum-weight_decay": "algorithm=sgd lr=0.1 update.momentum=0.9 update.dampening=0.1 weight_decay=0.01",
    "adam": "algorithm=adam",
    "adam-torch-weight_decay": "algorithm=adam update.form=torch weight_decay=0.01",
    "amsgrad": "algorithm=amsgrad",
    "amsgrad-torch": "algorithm=amsgrad update.form=torch",
    "amsgrad-decoupled": "algorithm=amsgrad weight_decay=0.01 update.decoupled=true",
    "naive": "algorithm=naive",
    "naive-uplink_only": "algorithm=naive algorithm.uplink_only=true",
    "naive-sgd-momentum": "algorithm=naive update=sgd update.momentum=0.9 lr=0.1",
    "error_feedback": "algorithm=error_feedback",
    "error_feedback-sgd": "algorithm=error_feedback update=sgd lr=0.1",
    "error_feedback-adam-uplink_only": "algorithm=error_feedback update=adam algorithm.uplink_only=true",
    "ef21-both_ways": "algorithm=ef21 compressor.k=4 lr=0.1 algorithm.uplink_only=false algorithm.dense_start=false",
    "ef21-uplink_only": "algorithm=ef21 compressor.k=4 lr=0.1 algorithm.uplink_only=true algorithm.dense_start=false",
    "ef21-dense_start-momentum": "algorithm=ef21 compressor.k=4 lr=0.1 algorithm.uplink_only=false "
    "algorithm.dense_start=true update.momentum=0.9",
    "cd_adam": "algorithm=cd_adam",
    "cd_adam-uplink_only": "algorithm=cd_adam algorithm.uplink_only=true",
    "cd_adam-dense_start-torch": "algorithm=cd_adam algorithm.dense_start=true update.form=torch",
    "cd_adam-weight_decay": "algorithm=cd_adam weight_decay=0.01",
    "onebit_adam": "algorithm=onebit_adam algorithm.warmup=4",
    "onebit_adam-gradient-torch": "algorithm=onebit_adam algorithm.warmup=4 algorithm.signal=gradient "
    "algorithm.form=torch",
    "onebit_adam-paper-weight_decay": "algorithm=onebit_adam algorithm.warmup=0.5 algorithm.form=paper "
    "weight_decay=0.01",
    "onebit_adam-uplink_only-decoupled": "algorithm=onebit_adam algorithm.warmup=4 algorithm.uplink_only=true "
    "weight_decay=0.01 algorithm.decoupled=true",
    "qadam": "algorithm=qadam algorithm.warmup=4",
    "qadam-uplink_only-weight_decay": "algorithm=qadam algorithm.uplink_only=true weight_decay=0.01",
    "apmsqueeze": "algorithm=apmsqueeze algorithm.warmup=4",
    "apmsqueeze-uplink_only-decoupled": "algorithm=apmsqueeze algorithm.warmup=4 algorithm.uplink_only=true "
    "weight_decay=0.01 algorithm.decoupled=true",
    "quantized_adam": "algorithm=quantized_adam",
    "quantized_adam-theta_schedule": "algorithm=quantized_adam algorithm.theta_schedule=one_minus_theta_over_t",
    "quantized_adam-uplink_only-weight_decay": "algorithm=quantized_adam algorithm.uplink_only=true "
    "weight_decay=0.01",
}

_LATER_METHODS = {
    "ef21": "algorithm=ef21 compressor.k=4 lr=0.1 algorithm.uplink_only=true algorithm.dense_start=true",
    "ef21_bc": "algorithm=ef21_bc compressor.k=4 lr=0.1",
    "comp_ams": "algorithm=comp_ams compressor=top_k compressor.k=4 update=amsgrad",
    "doublesqueeze": "algorithm=doublesqueeze compressor.k=4 lr=0.1",
    "ef21_sgdm": "algorithm=ef21_sgdm compressor=top_k compressor.k=4 lr=0.1 weight_decay=0.01",
    "ef21_sgdm-double-both_ways": "algorithm=ef21_sgdm compressor=top_k compressor.k=4 lr=0.1 algorithm.double=true "
    "algorithm.uplink_only=false algorithm.dense_start=false",
    "econtrol": "algorithm=econtrol compressor.k=4 lr=0.1",
    "diana": "algorithm=diana lr=0.1",
    "diana-random_k": "algorithm=diana compressor=random_k compressor.k=5 compressor.unbiased=true lr=0.1",
    "ef21_p": "algorithm=ef21_p compressor.k=4 lr=0.1 weight_decay=0.01",
    "marina": "algorithm=marina compressor.k=4 lr=0.1",
    "vr_marina": "algorithm=vr_marina compressor.k=4 lr=0.1",
    "dasha": "algorithm=dasha compressor.k=4 lr=0.1",
    "dasha_mvr": "algorithm=dasha_mvr compressor.k=4 lr=0.1",
    "local_sgd": "algorithm=local_sgd algorithm.period=4 lr=0.1",
    "local_adamw": "algorithm=local_adamw algorithm.period=3 weight_decay=0.01",
    "diloco": "algorithm=diloco algorithm.period=3",
    "diloco-top_k": "algorithm=diloco algorithm.period=3 compressor=top_k compressor.k=4",
    "zero_one_adam": "algorithm=zero_one_adam algorithm.warmup=5 algorithm.kappa=2 algorithm.stretch=2 "
    "weight_decay=0.01",
    "sparta": "algorithm=sparta compressor.ratio=0.1",
    "sparseloco": "algorithm=sparseloco algorithm.period=3 compressor.k=2 compressor.chunk=10",
    "sparseloco-senders": "algorithm=sparseloco algorithm.period=4 algorithm.aggregate=senders "
    "compressor=chunk_top_k compressor.k=1 compressor.chunk=16 weight_decay=0.01",
    "loco": "algorithm=loco update=adam compressor.block=8 algorithm.reset=5",
    "signum": "algorithm=signum weight_decay=0.01",
    "signum-signsgd-tie": "algorithm=signum algorithm.tie=zero algorithm.beta=0",
    "int_sgd": "algorithm=int_sgd lr=0.1",
    "distributed_lion": "algorithm=distributed_lion",
    "distributed_lion-mean": "algorithm=distributed_lion algorithm.combine=mean",
}

_LATER_COMPRESSORS = {
    "cd_adam-top_k-packed": "algorithm=cd_adam compressor=top_k compressor.k=5 compressor.index_bits=packed",
    "cd_adam-chunk_top_k": "algorithm=cd_adam compressor=chunk_top_k compressor.k=2 compressor.chunk=8",
    "cd_adam-bin_means": "algorithm=cd_adam compressor=bin_means",
    "error_feedback-adaptive_levels": "algorithm=error_feedback compressor=adaptive_levels compressor.block=8",
    "error_feedback-int4": "algorithm=error_feedback compressor=int4 compressor.block=8",
    "error_feedback-nf4": "algorithm=error_feedback compressor=nf4 compressor.block=8",
    "error_feedback-dynamic4": "algorithm=error_feedback compressor=dynamic4 compressor.block=8",
    "naive-linf_dither": "algorithm=naive compressor=linf_dither",
    "naive-terngrad": "algorithm=naive compressor=terngrad compressor.block=8",
    "naive-nuqsgd": "algorithm=naive compressor=nuqsgd compressor.block=8",
    "naive-sign": "algorithm=naive compressor=sign update=sgd",
    "cd_adam-chain": "algorithm=cd_adam compressor=chain compressor.first.ratio=0.5 "
    "compressor.second.first.ratio=0.3",
}

_SHAPES = {
    "adamw": "algorithm=adamw weight_decay=0.1",
    "muon": "algorithm=muon lr=0.02",
    "demo": "algorithm=demo compressor.k=4 compressor.side=16",
    "demo-plus-coordinates": "algorithm=demo compressor.k=2 compressor.side=8 compressor.dct=false "
    "algorithm.beta=0.9 algorithm.tie=plus weight_decay=0.1",
    "cd_adam-dct_top_k": "algorithm=cd_adam compressor=dct_top_k compressor.k=3 compressor.side=8",
    "muloco": "algorithm=muloco algorithm.period=3 lr=0.02 weight_decay=0.01",
    "muloco-nesterov": "algorithm=muloco algorithm.period=4 algorithm.nesterov=true lr=0.02",
    "muloco-streaming": "algorithm=muloco algorithm.period=2 algorithm.fragments=2 algorithm.delay=1 "
    "algorithm.mixing=0.5 algorithm.uplink_only=false lr=0.02",
    "lamb": "algorithm=lamb lr=0.02 weight_decay=0.01",
    "onebit_lamb": "algorithm=onebit_lamb algorithm.warmup=4 lr=0.02 weight_decay=0.01",
    "dion": "algorithm=dion lr=0.02 weight_decay=0.01",
    "dion-half": "algorithm=dion lr=0.02 algorithm.fraction=0.5 algorithm.others_lr=0.1",
    "ef21_muon": "algorithm=ef21_muon compressor=rank_k weight_decay=0.1",
    "ef21_muon-rank_k-uplink_only": "algorithm=ef21_muon compressor=rank_k algorithm.uplink_only=true "
    "algorithm.dense_start=false algorithm.scale=none algorithm.others_lr=0.1 lr=0.02",
    "error_feedback-rank_k": "algorithm=error_feedback compressor=rank_k",
    "ef21-rank_k-uplink_only": "algorithm=ef21 compressor=rank_k compressor.rank=1 algorithm.uplink_only=true lr=0.1 "
    "algorithm.dense_start=false",
    "powersgd": "algorithm=powersgd lr=0.05 weight_decay=0.01",
    "powersgd-local-matrix": "algorithm=powersgd lr=0.05 algorithm.residual=local algorithm.roles=matrix "
    "algorithm.rank=1",
    "muon-match_rms_adamw": "algorithm=muon algorithm.scale=match_rms_adamw algorithm.others_lr=1 weight_decay=0.1 "
    "algorithm.nesterov=false lr=0.003",
}

_COMPRESSORS = {
    "cd_adam-scaled_sign": "algorithm=cd_adam compressor=scaled_sign",
    "cd_adam-scaled_sign_l2": "algorithm=cd_adam compressor=scaled_sign_l2",
    "cd_adam-top_k": "algorithm=cd_adam compressor=top_k compressor.ratio=0.25",
    "cd_adam-random_k": "algorithm=cd_adam compressor=random_k compressor.k=5",
    "cd_adam-min_max_uint8": "algorithm=cd_adam compressor=min_max_uint8",
    "cd_adam-uniform_quantize": "algorithm=cd_adam compressor=uniform_quantize compressor.bits=5",
    "cd_adam-log_quantize": "algorithm=cd_adam compressor=log_quantize compressor.bits=4",
    "error_feedback-top_k": "algorithm=error_feedback compressor=top_k compressor.k=3",
    "error_feedback-uniform_quantize": "algorithm=error_feedback compressor=uniform_quantize compressor.bits=4",
    "naive-random_k-unbiased": "algorithm=naive compressor=random_k compressor.ratio=0.1 compressor.unbiased=true",
    "naive-qsgd": "algorithm=naive compressor=qsgd",
    "naive-qsgd-1-level": "algorithm=naive compressor=qsgd compressor.levels=1",
    "naive-natural": "algorithm=naive compressor=natural",
}

_IMAGE_COMPRESSORS = {
    "images-cd_adam-layer": "algorithm=cd_adam partition=layer",
    "images-error_feedback-top_k-layer": "algorithm=error_feedback compressor=top_k compressor.ratio=0.1 "
    "partition=layer",
    "images-naive-qsgd-layer": "algorithm=naive compressor=qsgd partition=layer",
}

_LOGREG = {
    "breast_cancer": "task=logreg/breast_cancer",
    "breast_cancer-shuffled": "task=logreg/breast_cancer task.partition=shuffled lr=0.01",
    "breast_cancer-dirichlet": "task=logreg/breast_cancer task.partition=dirichlet task.alpha=0.3 seed=3",
    "breast_cancer-2-step-sizes": "task=logreg/breast_cancer lr=[0.001,0.01]",
    "breast_cancer-theory": "task=logreg/breast_cancer algorithm=ef21 compressor.k=4 task.step_unit=theory lr=1 "
    "algorithm.uplink_only=false algorithm.dense_start=false",
    "digits": "task=logreg/digits",
    "digits-shuffled": "task=logreg/digits task.partition=shuffled task.batch_size=8 seed=1",
    "digits-dirichlet-2-step-sizes": "task=logreg/digits task.partition=dirichlet task.batch_size=5 lr=[0.003,0.03]",
    "synthetic": "task=logreg/synthetic task.dataset.rows=200 task.dataset.features=21 task.regularization=0.01",
    "synthetic-heterogeneous": "task=logreg/synthetic task.dataset.rows=203 task.dataset.heterogeneity=2 seed=2",
    "synthetic-batches-eval_early": "task=logreg/synthetic task.dataset.rows=200 task.batch_size=4 eval_every=8 "
    "eval_early=true",
    "step_decay": "task=logreg/breast_cancer task.batch_size=16 algorithm=quantized_adam lr_schedule=step_decay",
    "inverse_sqrt": "task=logreg/breast_cancer task.batch_size=16 algorithm=onebit_adam algorithm.warmup=4 "
    "lr_schedule=inverse_sqrt",
    "horizon": "task=logreg/breast_cancer task.batch_size=16 algorithm=cd_adam lr_schedule=horizon lr=0.01",
}

_FILES = {
    "file": "algorithm=cd_adam",
    "file-shuffled-batches": "algorithm=amsgrad task.partition=shuffled task.batch_size=8 seed=1",
}

_IMAGE_TASKS = {
    "images-sgd-dirichlet": "algorithm=sgd lr=0.1 task.partition=dirichlet lr_schedule=constant",
    "images-amsgrad": "algorithm=amsgrad lr=0.003",
    "images-cd_adam": "algorithm=cd_adam",
    "images-onebit_adam": "algorithm=onebit_adam algorithm.warmup=4",
    "images-ef21-2-step-sizes": "algorithm=ef21 compressor.ratio=0.1 lr=[0.03,0.3] "
    "algorithm.uplink_only=false algorithm.dense_start=false",
    "images-contiguous-flip-epochs": "algorithm=amsgrad task.partition=contiguous task.flip=true task.padding=2 "
    "rounds=null epochs=2 eval_every=null seed=1",
}


def _on(base: tuple[str, ...], commands: dict[str, str]) -> dict[str, list[str]]:
    """The cases of these commands on a base, over which they win."""
    return {name: [*base, *command.split()] for name, command in commands.items()}


CASES: dict[str, dict[str, list[str]]] = {
    "methods": _on(_CANCER, _METHODS),
    "compressors": _on(_SYNTHETIC, _COMPRESSORS) | _on(_IMAGES, _IMAGE_COMPRESSORS),
    "later": _on(_CANCER, _LATER_METHODS) | _on(_SYNTHETIC, _LATER_COMPRESSORS),
    "shapes": _on(_IMAGES, _SHAPES),
    "tasks": _on(_RUN, _LOGREG) | _on(_IMAGES, _IMAGE_TASKS),
    "files": _on(_FILE, _FILES),
}
"""By group, which is the name of a JSON file, and id: the overrides of a run."""

"""x"""
from hydra.plugins.launcher import Launcher
class Processes(Launcher):
    def setup(self, *, hydra_context, task_function, config): ...
    def launch(self, job_overrides, initial_job_idx): return []

"""x"""
from hydra.experimental.callback import Callback
class Study(Callback):
    pass

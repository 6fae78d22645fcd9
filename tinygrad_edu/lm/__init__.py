"""Language models: GPT and Llama, their data, the training run, checkpoints and sampling.

from tinygrad_edu import lm
result = lm.train(lm.TrainConfig(corpus=("book.txt",), steps=500))
trained = lm.load_trained(result.run)
print("".join(trained.write("The ", max_new_tokens=200)))
"""

from tinygrad_edu.lm import shipped
from tinygrad_edu.lm.adapters import load_adapter, save_adapter
from tinygrad_edu.lm.checkpoint import read_config
from tinygrad_edu.lm.compression import compress, decompress
from tinygrad_edu.lm.config import TrainConfig, from_toml, read_config_file, to_toml
from tinygrad_edu.lm.cost import Cost, parameters_by_group, step_cost
from tinygrad_edu.lm.data import split_tokens, training_batch, validation_batches
from tinygrad_edu.lm.errors import (
    ConfigError,
    ConversationError,
    DivergenceError,
    RunError,
    SamplingError,
    TextError,
)
from tinygrad_edu.lm.evaluation import Evaluation, evaluate, evaluating
from tinygrad_edu.lm.finetune_config import FinetuneConfig
from tinygrad_edu.lm.finetuning import finetune, merge, resume_finetuning
from tinygrad_edu.lm.finetuning import prepare as prepare_finetuning
from tinygrad_edu.lm.glassllm import load_glassllm
from tinygrad_edu.lm.gpt import GPT, GPTConfig
from tinygrad_edu.lm.huggingface import load_huggingface, save_huggingface
from tinygrad_edu.lm.language_model import LanguageModel
from tinygrad_edu.lm.llama import Llama, LlamaConfig
from tinygrad_edu.lm.plan import Plan
from tinygrad_edu.lm.profiling import StepProfile, profile_step
from tinygrad_edu.lm.range_test import RangeProgress, RangeTest, range_test
from tinygrad_edu.lm.report import write_report
from tinygrad_edu.lm.reporting import Reporter, Result, StepReport, ValidationReport
from tinygrad_edu.lm.sampling import SamplingOptions, next_token, sample_generators
from tinygrad_edu.lm.scoring import score
from tinygrad_edu.lm.trained import Trained, load_trained
from tinygrad_edu.lm.trainer import resume, train

__all__ = [
    "GPT",
    "ConfigError",
    "ConversationError",
    "Cost",
    "DivergenceError",
    "Evaluation",
    "FinetuneConfig",
    "GPTConfig",
    "LanguageModel",
    "Llama",
    "LlamaConfig",
    "Plan",
    "RangeProgress",
    "RangeTest",
    "Reporter",
    "Result",
    "RunError",
    "SamplingError",
    "SamplingOptions",
    "StepProfile",
    "StepReport",
    "TextError",
    "TrainConfig",
    "Trained",
    "ValidationReport",
    "compress",
    "decompress",
    "evaluate",
    "evaluating",
    "finetune",
    "from_toml",
    "load_adapter",
    "load_glassllm",
    "load_huggingface",
    "load_trained",
    "merge",
    "next_token",
    "parameters_by_group",
    "prepare_finetuning",
    "profile_step",
    "range_test",
    "read_config",
    "read_config_file",
    "resume",
    "resume_finetuning",
    "sample_generators",
    "save_adapter",
    "save_huggingface",
    "score",
    "shipped",
    "split_tokens",
    "step_cost",
    "to_toml",
    "train",
    "training_batch",
    "validation_batches",
    "write_report",
]

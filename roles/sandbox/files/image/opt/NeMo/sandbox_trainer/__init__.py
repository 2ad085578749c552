# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A trainer for the sandbox that is used, speaks and fails as NeMo's GPT pre-training does.

It reads the resolved Hydra configuration, insists on mock data, runs one process for each rank that Slurm started,
and trains: data-parallel gradient descent on a small next-token model, with a gradient all-reduce over TCP in every
step. The model is tiny and has nothing of the configured architecture; steps, batches, ranks, limits, validation,
checkpoints and what is printed are those of the configuration.

Modules: ``config`` (configuration and its checks), ``placement`` (rank, world, meeting point), ``group`` (the sockets),
``model`` (numbers), ``checkpoint``, ``report`` (log lines), ``progress`` (the bar), ``training`` (the loop), ``main``.

Where the form of the output comes from, as read in the sources around NeMo r1.23.0, PyTorch Lightning 2.0.7 and tqdm:

- The bar goes to standard output, the log file's ``.out``: ``TQDMProgressBar.init_train_tqdm`` (``file=sys.stdout``,
  ``smoothing=0``) in Lightning's ``callbacks/progress/tqdm_progress.py``. It is drawn twice in each step
  (``refresh_rate`` 1; first the number, then the metrics), and ends in a line feed when it is closed.
- No rate, and two colons after the epoch: ``CustomProgressBar`` in NeMo's
  ``nemo/collections/nlp/parts/nlp_overrides.py``, which sets the format and counts global steps. The validation bar
  keeps tqdm's own format, one line below (line feed, bar, cursor up).
- Numbers have three significant digits where that is shorter (``tqdm.format_num``: 1024000.0 is ``1.02e+6``, 1999.0 is
  ``2e+3``, 92160.0 stays), padded to five characters (``Tqdm.format_num`` in Lightning: ``179.0``, ``5.640``,
  ``nan.0``).
- ``v_num`` is the last four characters of the logger's version: ``get_standard_metrics`` in Lightning's
  ``callbacks/progress/progress_bar.py``. The documented sample comes from a logger with random names, as here; with
  NeMo's default logger in an explicit folder the version is empty, and so is ``v_num=``.
- ``global_step`` is that before the step and ``consumed_samples`` that after it:
  ``training_step`` in NeMo's ``megatron_gpt_model.py``. They, and the loss, are new in every step:
  ``log_every_n_steps`` is for loggers that write files, of which there are none here.
- ``train_step_timing in s`` is a mean over the last ``step_timing_kwargs.buffer_size`` steps: ``TimingCallback`` in
  NeMo's ``nemo/utils/exp_manager.py``.
- The bar's total is 0.5 % more than ``max_steps``, because Megatron builds that many more samples than a blend of data
  sets needs: 10050 for 10000 steps, in the documented sample. The last bar of 2000 steps says 2000/2010.
- Everything Lightning says about itself is on standard error, the ``.err``: the ranks that join and the block about
  all being registered (``lightning_fabric/utilities/distributed.py``), ``Trainer.fit`` stopped at ``max_steps``
  (``loops/fit_loop.py``), the time limit (``callbacks/timer.py``, which says nothing more at the end), checkpoints as
  top k (``callbacks/model_checkpoint.py``). Stopping at the time limit runs one more validation
  (``loops/training_epoch_loop.py``).
- NeMo's own information is on standard output and its warnings on standard error, each with ``[NeMo I|W time place]``.
- Checkpoints are folders, as with ``mcore_gpt``: ``checkpoints/<filename>`` and one ``<filename>-last``.

What is different on purpose: of several ``-last`` checkpoints the newest is taken (NeMo refuses); SIGTERM ends the
training at once with 143 (NeMo's preemption callback finishes the step, saves, and exits with 0).
"""

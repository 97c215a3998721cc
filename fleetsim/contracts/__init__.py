"""Contracts between engine, selectors, learning and recording: shared records and Protocols.

- `work`: Work of a client, its cost, and outcomes of tasks.
- `reports`: Reports of tasks, resources of clients and evaluations of models.
- `selection`: Views of a selector, its requests and answers, and its Protocol.
- `client_training`: Own training of clients.
- `learning`: Jobs of training and evaluation, and Protocols of the parts of learning.
- `recording`: Rows of a run's tables, facts for its trackers.

Nothing here computes anything. A *device* is hardware; a *client* is a device with data; a *task*
is one piece of work for one client; a *report* is what the server learns of a task. Clients are
numbered 0..N-1. Model parameters and updates are flat float32 vectors [P].
"""

from fleetsim.contracts.client_training import (
    ClientTraining,
    ClientUpdate,
    ServerPart,
    ServerStart,
    ServerStep,
    Wire,
)
from fleetsim.contracts.learning import (
    Accountant,
    Aggregator,
    DatasetSource,
    Job,
    JobResult,
    Loss,
    Model,
    OwnAggregator,
    Partition,
    SampleForm,
    Screen,
    SecureSum,
    Trainer,
    Uplink,
)
from fleetsim.contracts.recording import (
    ClientColumns,
    EndedRun,
    Progress,
    Recorder,
    RoundRow,
    StopReason,
    TaskRow,
    TrackedRun,
    Tracker,
    latest_rows,
    with_clients,
)
from fleetsim.contracts.reports import Evaluation, Report, Resources
from fleetsim.contracts.selection import (
    Cohort,
    DiagnosedSelector,
    Diagnostics,
    FleetView,
    LearningSelector,
    ProbeRequest,
    RoundOutcome,
    RoundView,
    Selector,
)
from fleetsim.contracts.work import (
    Arrays,
    BackwardCost,
    BoolArray,
    ClientRows,
    CountedWork,
    FloatArray,
    IntArray,
    ModelCost,
    Outcome,
    Parameters,
    Purpose,
    State,
    StepMemory,
    Work,
    WorkKind,
)

__all__ = [
    "Accountant",
    "Aggregator",
    "Arrays",
    "BackwardCost",
    "BoolArray",
    "ClientColumns",
    "ClientRows",
    "ClientTraining",
    "ClientUpdate",
    "Cohort",
    "CountedWork",
    "DatasetSource",
    "DiagnosedSelector",
    "Diagnostics",
    "EndedRun",
    "Evaluation",
    "FleetView",
    "FloatArray",
    "IntArray",
    "Job",
    "JobResult",
    "LearningSelector",
    "Loss",
    "Model",
    "ModelCost",
    "Outcome",
    "OwnAggregator",
    "Parameters",
    "Partition",
    "ProbeRequest",
    "Progress",
    "Purpose",
    "Recorder",
    "Report",
    "Resources",
    "RoundOutcome",
    "RoundRow",
    "RoundView",
    "SampleForm",
    "Screen",
    "SecureSum",
    "Selector",
    "ServerPart",
    "ServerStart",
    "ServerStep",
    "State",
    "StepMemory",
    "StopReason",
    "TaskRow",
    "TrackedRun",
    "Tracker",
    "Trainer",
    "Uplink",
    "Wire",
    "Work",
    "WorkKind",
    "latest_rows",
    "with_clients",
]

"""Fuzzed plug-ins of every kind: each keeps its contract but at one place, from one call on.

There it raises, ends or changes its process, or answers something else.
"""

import re
import signal
from typing import Any, Final

import yaml
from hypothesis import strategies as st

from fleetsim.user import KINDS
from tests.fuzz.case import Case
from tests.user.small import SMALL

_HEAD: Final = """
import ctypes, gc, itertools, os, random, shutil, signal, sys, threading, time, warnings
import numpy as np
import torch
from torch import nn
from fleetsim.contracts import ClientUpdate, Cohort, ProbeRequest, Work, WorkKind

class Hostile:
    def __repr__(self): raise RuntimeError("no text")
    __str__ = __repr__
class Long:
    def __repr__(self): return "\\x1b[2J" + "x" * 100_000
class Fault(Exception):
    def __str__(self): raise ValueError
class Interrupt(KeyboardInterrupt): pass

def scribble(given):
    if isinstance(given, np.ndarray): given[...] = 0
    elif isinstance(given, torch.Tensor): given.data.zero_()
    elif isinstance(given, (list, dict, set)): given.clear()
    else:
        for name in [*getattr(given, "__slots__", ()), *getattr(given, "__dict__", ())]:
            object.__setattr__(given, name, None)
def deeper(): deeper()

num_calls = 0
def gives(where, value, *given):
    global num_calls
    if where != {at!r}: return value
    num_calls += 1
    if num_calls <= {after}: return value
    {act}
    return {answer}
"""

BODIES: Final[dict[str, str]] = {
    "selector": """
class Part:
    needs_losses = needs_probes = gives("needs", False)
    def __init__(self): gives("init", None)
    def setup(self, fleet): return gives("setup", (), fleet)
    def probe(self, view): return gives("probe", (), view)
    def select(self, view): return gives("select", view.candidates[: view.wanted], view)
    def observe(self, outcome): return gives("observe", None, outcome)
    def state(self): return gives("state", {"n": np.zeros(1)})
    def restore(self, state): return gives("restore", None, state)
    def diagnostics(self): return gives("diagnostics", {"a": 1.0})
""",
    "aggregator": """
class Part:
    def __init__(self): gives("init", None)
    def aggregate(self, base, reports):
        mean = np.mean([report.vector for report in reports], axis=0)
        return gives("aggregate", mean, base, reports)
    def state(self): return gives("state", {"n": np.zeros(1)})
    def restore(self, state): return gives("restore", None, state)
""",
    "partition": """
class Part:
    def __init__(self): gives("init", None)
    def split(self, labels, num_clients, generator):
        parts = np.array_split(generator.permutation(len(labels)), num_clients)
        return gives("split", parts, labels, generator)
""",
    "dataset": """
X, Y = np.arange(60 * 64, dtype=np.float32).reshape(60, 64) / 4000, np.arange(60) % 4
class Rows:
    def __len__(self): return gives("len", 60)
    def __getitem__(self, k): return gives("item", (X[k], Y[k]))
class Part:
    def __init__(self): gives("init", None)
    def load(self): return gives("load", (Rows(), (X[:8], Y[:8])))
""",
    "tracker": """
class Part:
    def __init__(self): gives("init", None)
    def begin(self, run): return gives("begin", None, run)
    def round(self, row): return gives("round", None, row)
    def end(self, run): return gives("end", None, run)
""",
    "local": """
class Part:
    def __init__(self): gives("init", None)
    def train_client(self, model, data, generator, settings):
        weights = list(model.parameters())
        for inputs, labels in data.batches(generator):
            losses = data.losses(model(inputs), labels)
            for weight, slope in zip(weights, torch.autograd.grad(losses.mean(), weights)):
                weight.data.sub_(0.1 * slope)
        update = ClientUpdate(losses.mean().item())
        return gives("train_client", update, model, data, settings, *weights)
""",
    "loss": """
class Part:
    def __init__(self): gives("init", None)
    def losses(self, outputs, labels):
        losses = nn.functional.cross_entropy(outputs, labels, reduction="none")
        return gives("losses", losses, outputs, labels)
""",
    "model": """
class Part(nn.Module):
    def __init__(self, samples):
        super().__init__()
        self.head = nn.Linear(int(np.prod(samples.input_shape)), samples.num_classes)
        gives("init", None, self.head.weight, samples)
    def forward(self, images): return gives("forward", self.head(images.flatten(1)), images)
""",
}
"""Classes of each kind of plug-in that keep the contract."""

_RAISED: Final = [
    "RuntimeError('oh')", "RecursionError", "MemoryError", "StopIteration", "GeneratorExit",
    "SystemExit(0)", "SystemExit(Hostile())", "BaseException", "Fault()", "KeyError(Hostile())",
    "ValueError(Long())", "OSError(28, 'No space left on device')", "BrokenPipeError", "EOFError",
    "OSError(36, 'no', 'x' * 5000)", "FileNotFoundError(2, 'no', 'a\\x1b[2Jb')", "ImportError",
    "ExceptionGroup('two', [ValueError(), KeyError()])", "AssertionError", "TimeoutError('\\n\\n')",
    "UnicodeDecodeError('ascii', b'a', 0, 1, 'no')", "ModuleNotFoundError(name='own')",
    "SyntaxError('bad', ('own.py', 1, 1, 'x', 1, 2))", "NotImplementedError", "StopAsyncIteration",
    "torch.OutOfMemoryError('of memory')", "np.linalg.LinAlgError", "Warning('w')",
]  # fmt: skip

_ACTS: Final = [
    "sys.exit(0)", "os._exit(0)", "os._exit(3)", "os.execlp('true', 'true')", "os.abort()",
    "os.chdir('/')", "os.chdir('..')", "os.environ.clear()", "os.unsetenv('PATH')",
    "os.environ.update(COLUMNS='-1', OMP_NUM_THREADS='x', TMPDIR='/no', HOME='', LANG='x')",
    "os.fork()", "os.fork() or time.sleep(9)", "os.fork() or os._exit(3)",
    "os.fork() or sys.exit('child')", "print('printed')", "sys.stdout.write('\\x1b[2J')",
    "print('note: printed', file=sys.stderr)", "sys.stdout = None", "sys.stdout.close()",
    "sys.stderr = None", "sys.stdin = None", "os.close(0)", "os.close(1)", "os.umask(0o777)",
    "signal.signal(signal.SIGTERM, signal.SIG_IGN)", "signal.signal(signal.SIGINT, lambda *_: 0)",
    "signal.setitimer(signal.ITIMER_REAL, 9)", "np.random.rand(3)", "random.random()",
    "torch.rand(1)", "np.random.seed(0)", "torch.manual_seed(0)", "random.seed(0)",
    "torch.set_num_threads(2)", "torch.set_default_dtype(torch.float64)", "torch.seed()",
    "torch.use_deterministic_algorithms(True)", "torch.set_grad_enabled(False)",
    "torch.set_default_device('meta')", "np.seterr(all='raise')",
    "warnings.simplefilter('error')", "sys.setrecursionlimit(120)", "gc.disable()", "deeper()",
    "threading.Thread(target=time.sleep, args=(9,), daemon=True).start()", "sys.path.clear()",
    "threading.Thread(target=lambda: time.sleep(0.01)).start()", "time.sleep(0.1)",
    "[scribble(each) for each in given]", "shutil.rmtree('out', ignore_errors=True)",
    "open('s.yaml', 'w').close()", "sys.modules.pop('own', None)",
    "os.makedirs('out/manifest.json', exist_ok=True)", "os.nice(1)", "sys.settrace(None)",
    "sys.excepthook = None", "threading.excepthook = None", "os.setsid()", "sys.argv.clear()",
]  # fmt: skip

_FATAL: Final[dict[str, frozenset[int]]] = {
    "raise KeyboardInterrupt": frozenset({130}),
    "raise Interrupt": frozenset({130}),
    "signal.raise_signal(signal.SIGINT)": frozenset({130}),
    "os.kill(os.getpid(), signal.SIGTERM)": frozenset({143, -signal.SIGTERM}),
    "os.kill(os.getpid(), signal.SIGKILL)": frozenset({-signal.SIGKILL}),
    "ctypes.string_at(0)": frozenset({-signal.SIGSEGV}),
}
"""Acts that end the process, or ask it to end, with the exit codes."""

_ANSWERS: Final = [
    "None", "True", "-1", "2**63", "10**30", "1e308", "float('nan')", "float('inf')", "''", "'a'",
    "'x' * 100_000", "b''", "[]", "{}", "()", "(None,)", "object()", "Hostile()", "Long()", "[[]]",
    "(each for each in value)", "iter(value)", "np.zeros(0)", "np.zeros((2, 2))", "np.array('a')",
    "np.full(3, np.nan)", "np.array([None])", "np.array([Hostile()])", "torch.zeros(3)", "Part",
    "np.broadcast_to(np.float32(0), (10**12,))", "torch.zeros(1).expand(10**12)", "[value]",
    "(value, value)", "[value] * 100_000", "list(value)", "tuple(value)", "value[::-1]",
    "value[:0]", "value[:1]", "np.asarray(value) * np.nan", "np.asarray(value) * 1e308",
    "-np.asarray(value)",
    "np.asarray(value).astype(object)", "np.asarray(value).astype(str)", "value + 10**9",
    "np.asarray(value).astype(np.float16)", "np.asarray(value).astype(complex)", "value * 0",
    "np.asarray(value)[None]", "np.repeat(value, 2)", "{1: value}", "{'n': None}", "{'a/b': 1}",
    "{'n': np.array([Hostile()])}", "{'n': np.zeros(0)}", "{'x' * 5000: np.zeros(1)}", "{'n': {}}",
    "{'\\x1b': np.zeros(1)}", "{'n': 10**400}", "{'a': 'b'}", "{Hostile(): 1}", "lambda *_: value",
    "value.mean()", "value.detach()", "value.double()", "value.half()", "value * float('nan')",
    "value.to('meta')", "value.sum(0)", "value[..., :1]", "value.numpy()", "value.to_sparse()",
    "value._replace(loss=None)", "value._replace(loss=float('inf'))", "value._replace(loss='a')",
    "value._replace(sent={'a': np.zeros(10**6)})", "value._replace(state={'a': Hostile()})",
    "value._replace(metrics={'a': Hostile()})", "value._replace(metrics={'a' * 5000: 1.0})",
    "value._replace(loss_rms=-1.0)", "value._replace(epoch_losses=(float('nan'),))",
    "value._replace(state={'n': np.array(['a'])})", "value._replace(loss=1e308, loss_rms=1e308)",
    "Cohort(value)", "[ProbeRequest(0, Work(WorkKind.EVALUATE))]", "[ProbeRequest(-1, None)]",
    "[ProbeRequest(10**9, Work(WorkKind.TRAIN))]", "[ProbeRequest('a', Hostile(), None, 1e308)]",
    "(X, Y), (X[:8], Y[:8])", "(X, -Y), (X[:8], Y[:8])", "(X * np.nan, Y), (X, Y)",
    "(X, Y * 10**9), (X, Y)", "(X.astype(object), Y), (X, Y)", "(X[:0], Y[:0]), (X, Y)",
    "(X, Y[:5]), (X, Y)", "(X, Y), (X[:, :3], Y)", "(X, Y * 0.5), (X, Y)", "(X, Y.astype(str)), 3",
    "(X * 1e308, Y), (X, Y)", "(np.broadcast_to(X[0], (10**9, 64)), Y), (X, Y)", "(X, Y), None",
    "(X[..., None, None, None], Y), (X, Y)", "{'train': (X, Y), 'test': (X, Y)}", "(X, Y)",
]  # fmt: skip
"""Answers in place of the right `value`; those that do not suit it raise."""

_PLUGIN: Final = "own:Part"
_SCENARIO: Final = SMALL + "checkpoint: {every_rounds: 1}\n"
_STUDY: Final[dict[str, Any]] = {
    "name": "own", "question": "Does it fail?", "scenario": "s.yaml", "seeds": [1],
    "different_worlds": True,
}  # fmt: skip


@st.composite
def plug_ins(draw: st.DrawFn) -> Case:
    """Check, validate, run, resume or study a plug-in that misbehaves."""
    kind = draw(st.sampled_from(sorted(BODIES)))
    body = BODIES[kind]
    at = draw(st.sampled_from([*re.findall(r'gives\("(\w+)"', body), "import", "never"]))
    act, answer = "pass", "value"
    match draw(st.sampled_from(["raise", "act", "act", "answer", "answer", "fatal"])):
        case "raise":
            act = f"raise {draw(st.sampled_from(_RAISED))}"
        case "act":
            act = draw(st.sampled_from(_ACTS))
        case "answer":
            answer = draw(st.sampled_from(_ANSWERS))
        case _:
            act = draw(st.sampled_from(sorted(_FATAL)))
    after = draw(st.sampled_from([0, 0, 0, 1, 2, 7]))
    head = _HEAD.format(at=at, after=after, act=act, answer=answer)
    plugin = ("--plugin", f"{kind}={_PLUGIN}")
    run = ("run", "s.yaml", *plugin, "--workers", "1", "--out", "out", "--set", "stop.rounds=2")
    verbs: list[tuple[tuple[str, ...], ...]] = [
        (("plugin", "check", f"{kind}={_PLUGIN}"),),
        (("validate", "s.yaml", *plugin), ("validate", "s.yaml", "--full", *plugin)),
        (run, (*run, "--resume")),
        ((*run, "--no-train"),),
        (("study", "run", "st.yaml", *plugin, "--home", "home", "--workers", "1"),),
    ]
    return Case(
        draw(st.sampled_from(verbs)),
        {
            "own.py": f"{head}{body}gives('import', None)\n".encode(),
            "s.yaml": _SCENARIO.encode(),
            "st.yaml": yaml.safe_dump(_STUDY | {"arms": {"plain": {}} | _study_arm(kind)}).encode(),
        },
        user_file="own.py",
        endings=_FATAL.get(act, frozenset()),
    )


def _study_arm(kind: str) -> dict[str, Any]:
    """Return the arm that uses the plug-in, if a scenario can name it."""
    place = KINDS[kind].key_path
    return {} if place is None else {"own": {".".join((*map(str, place), "kind")): _PLUGIN}}

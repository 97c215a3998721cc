"""Check of the extra `rails`: power rails of a recorded trace of Perfetto become a device file."""

import subprocess
import sys
from pathlib import Path

import yaml
from perfetto.protos.perfetto.trace import perfetto_trace_pb2

trace = perfetto_trace_pb2.Trace()
rail = trace.packet.add().power_rails.rail_descriptor.add()
rail.index, rail.rail_name, rail.subsys_name = 4, "S3M_VDD_CPUCL1", "cpu"
for second in range(61):
    data = trace.packet.add().power_rails.energy_data.add()
    data.index, data.timestamp_ms = 4, 1000 * (100 + second)
    data.energy = int(1e6 * (1.5 * min(second, 30) + 6.5 * max(second - 30, 0)))
Path("log.perfetto-trace").write_bytes(trace.SerializeToString())
Path("runs.csv").write_text(
    "model,input,classes,samples,batch_size,epochs,seconds\n"
    "resnet18,3x32x32,10,500,32,1,58.1\nresnet18,3x32x32,10,500,8,1,71.3\n"
)
asked = "device calibrate mine.yaml --like pixel-6 --runs runs.csv --power log.perfetto-trace"
command = [sys.executable, "-m", "fleetsim", *asked.split(), "--idle", "0:30", "--train"]
subprocess.run([*command, "30:60"], check=True, stdout=subprocess.DEVNULL)
power = yaml.safe_load(Path("mine.yaml").read_text())["power"]
assert power["idle_awake_w"]["value"] == 1.5, power
assert power["train_above_idle_w"]["value"] == 5.0, power
print("1.5 W idle, 5 W more in training")

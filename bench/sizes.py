"""How large each workload is. --quick only shows that everything still works: its figures say nothing."""
from types import SimpleNamespace

FULL = SimpleNamespace(
    drain=(50000, 200000), bulk=200000, latency=500, sustained_s=15, producers=(4, 16),
    notify=((16, 0), (64, 100)), notify_s=6, held_s=60, held_slice_s=10, held_drain=100000,
    scheduled=100000, scheduled_ahead_s=8, retries=20000,
    exec=3000, python=30000, c=50000,
    scale=100000, workers=(1, 2, 4, 8), queues=(1, 10, 100),
    backlogs=(10000, 50000, 100000, 1000000, 3000000), backlog_part=50000,
    fleet=40000, fleet_workers=8, fleet_queues=(1, 100), fleet_s=8, fleet_rate=1000,
    flows=10000, chain=1000, limited=100000, limit_keys=1000, idle_s=20, footprint=1000000, footprint_drain=50000, single=2000,
    waiting=1000000, growth=(10000, 100000, 1000000), growth_s=5, growth_flows=2000, growth_cleaner_s=20, growth_rest_s=1.5, doomed=20, intake=100000, clients=(1, 16, 64), pgbench_s=8, limit_messages=200000, outbox=100000, outbox_backlog=100000)

# For two builds against each other, in turns and often: as FULL where that decides, and shorter elsewhere.
PAIRS = SimpleNamespace(**{
    **vars(FULL), "drain": (200000,), "latency": 250, "sustained_s": 8, "notify_s": 3, "held_s": 20,
    "scale": 50000, "backlogs": (50000, 1000000), "footprint": 100000})

QUICK = SimpleNamespace(
    drain=(2000,), bulk=2000, latency=20, sustained_s=1, producers=(4,),
    notify=((4, 0), (8, 20)), notify_s=1, held_s=2, held_slice_s=1, held_drain=1000,
    scheduled=1000, scheduled_ahead_s=4, retries=200,
    exec=20, python=200, c=2000,
    scale=1000, workers=(1, 2), queues=(1, 10), backlogs=(2000,), backlog_part=1000,
    fleet=500, fleet_workers=2, fleet_queues=(1, 10), fleet_s=1, fleet_rate=100,
    flows=100, chain=20, limited=1000, limit_keys=50, idle_s=2, footprint=2000, footprint_drain=2000, single=100,
    waiting=2000, growth=(100, 1000), growth_s=1, growth_flows=50, growth_cleaner_s=1, growth_rest_s=0, doomed=2, intake=1000, clients=(1, 4), pgbench_s=1, limit_messages=2000, outbox=2000, outbox_backlog=2000)

"""The three faults. Each waits for the moment when it hurts, strikes, and remembers what it hit."""
import signal
import threading
import time

AWAIT_LIMIT_S = 10.0
TASKS_LEAST = 4        # of the worker that is killed
CLEANER_PATIENCE_S = 15


class Fault:
    def __init__(self, name, struck_at, over_at):
        self.name, self.struck_at, self.over_at = name, struck_at, over_at
        self.text = ""
        self.running = 0   # tasks that ran when it struck
        self.victim = 0    # pid of the worker that was killed
        self.thread = None  # that waits for the server
        self.purged = 0    # wake-ups that RabbitMQ lost
        self.task = 0      # whose wake-up died with its producer

    def is_over(self):
        return self.over_at < float("inf")


def await_running(demo, count, what, least):
    """Wait until count() of the journal is at least `least`; a fault that hits nothing proves nothing."""
    deadline = time.monotonic() + AWAIT_LIMIT_S
    while True:
        demo.read()
        if count() >= least:
            return
        if time.monotonic() > deadline:
            raise RuntimeError(f"{what}: not running within {AWAIT_LIMIT_S:.0f} s, so the fault would not count")
        time.sleep(0.001)


def running_at(demo, at, pids):
    demo.read()
    return sum(run.is_on(at) for run in demo.journal.runs if run.worker_pid in pids)


def kill_producer(demo, name):
    """Kill a producer after a commit and before the task's id is published: it is asked to stop itself
    there, and is killed when it has."""
    demo.fleet.signal(name, signal.SIGUSR1)
    if not demo.fleet.await_stopped(name, AWAIT_LIMIT_S):
        raise RuntimeError(f"{name} did not stop between its commit and its publish")
    pids = demo.living_workers()
    await_running(demo, lambda: demo.journal.running(pids), "a task", 1)
    sent, gone = demo.fleet.kill(name)
    fault = Fault("a producer was killed between commit and publish", sent, gone + 0.5)
    fault.running = running_at(demo, sent, pids)
    last = demo.signups.last[name]
    fault.task = last.task
    fault.text = (f"{name} killed between the commit of task {last.task} and its publish, "
                  f"while {fault.running} tasks ran; started again")
    demo.start_producer(name, last.number + 1)
    return fault


def restart_rabbitmq(demo, queue):
    """Purge the queue, and restart RabbitMQ in a thread of its own: the course goes on meanwhile."""
    pids = demo.living_workers()
    await_running(demo, lambda: demo.journal.running(pids), "a task", 1)
    struck, purged = demo.servers.purge(queue)
    fault = Fault("RabbitMQ was purged and restarted", struck, float("inf"))
    fault.running = running_at(demo, struck, pids)
    fault.purged = purged
    fault.text = (f"RabbitMQ closed to all, {purged} wake-ups purged, while {fault.running} tasks ran; "
                  "restarting")
    fault.thread = threading.Thread(target=await_rabbitmq, args=(demo, fault))
    fault.thread.start()
    return fault


def await_rabbitmq(demo, fault):
    try:
        demo.servers.restart("rabbitmq")
    except RuntimeError as error:
        demo.live.say(str(error))
        return
    now = time.time()
    fault.over_at = now + 5  # those who wait longer between two attempts to connect come a bit later
    demo.live.say(f"RabbitMQ is up again, {now - fault.struck_at:.1f} s after it was closed")


def kill_worker(demo, name):
    """Kill a worker with -9 while it runs at least TASKS_LEAST tasks. Not before the cleaner trusts its own
    session: in its first CLEANER_PATIENCE_S seconds it declares nobody dead."""
    time.sleep(max(0.0, demo.cleaner_started + CLEANER_PATIENCE_S + 1 - time.monotonic()))
    victim = {demo.fleet.pid(name)}
    await_running(demo, lambda: demo.journal.running(victim), f"{TASKS_LEAST} tasks of {name}", TASKS_LEAST)
    sent, gone = demo.fleet.kill(name)
    fault = Fault("a worker was killed with -9", sent, gone + 5)
    fault.victim = demo.fleet.pid(name)
    fault.running = running_at(demo, sent, victim)
    all_running = fault.running + running_at(demo, sent, demo.living_workers())
    fault.text = (f"{name} (pid {fault.victim}) killed with -9, while it ran {fault.running} tasks, "
                  f"all workers {all_running}")
    return fault

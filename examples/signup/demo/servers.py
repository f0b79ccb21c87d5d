"""The demo's own PostgreSQL and RabbitMQ, by way of script/services."""
import shlex
import subprocess


class Servers:
    def __init__(self, root, directory):
        self.command = [root + "/script/services", "--dir", directory]

    def run(self, *args):
        done = subprocess.run([*self.command, *args], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True,
                              check=False)
        if done.returncode != 0:
            raise RuntimeError(f"script/services {args[0]} failed:\n{done.stdout}")
        return done.stdout

    def start(self):
        """Start both in the background; await_started() waits for the end of it."""
        return subprocess.Popen([*self.command, "start"], stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True)

    @staticmethod
    def await_started(starting):
        output, _ = starting.communicate()
        if starting.returncode != 0:
            raise RuntimeError(f"the servers did not start:\n{output}")

    def env(self):
        lines = shlex.split(self.run("env").replace("export ", ""))
        return dict(line.split("=", 1) for line in lines)

    def purge(self, queue):
        """Throw the workers out of RabbitMQ, soon after everybody else, and empty the queue: what was
        published in between is lost. Nobody is let in again before a restart. Returns when it struck,
        in seconds since 1970, and how many wake-ups were thrown away."""
        struck, purged = self.run("rabbitmqctl", "-q", "eval", f"""
            Struck = erlang:system_time(microsecond),
            rabbit_maintenance:suspend_all_client_listeners(),
            [rabbit_networking:close_connection(Pid, "demo") ||
                Pid <- rabbit_networking:connections(),
                [{{client_properties, Properties}}] <-
                    [rabbit_networking:connection_info(Pid, [client_properties])],
                {{_, _, <<"tenon worker">>}} <- Properties],
            timer:sleep(300),
            rabbit_maintenance:close_all_client_connections(),
            timer:sleep(200),
            {{ok, Q}} = rabbit_amqqueue:lookup(rabbit_misc:r(<<"/">>, queue, <<"{queue}">>)),
            {{ok, N}} = rabbit_amqqueue:purge(Q),
            lists:flatten(io_lib:format("~b ~b", [Struck, N])).""").strip().strip('"').split()
        return int(struck) / 1e6, int(purged)

    def restart(self, service):
        self.run("restart", service)

    def wipe(self):
        subprocess.run([*self.command, "wipe"], stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL,
                       check=False)
